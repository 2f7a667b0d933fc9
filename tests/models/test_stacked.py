"""A stacked decoder is its members: their losses, gradients and weights, for every mixer, and a member that is lost takes no other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from remedy.models.cache import MixerCache
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.mixers.rnn import GRU
from remedy.models.stacked import clip_by_member, losses, stack
from remedy.settings import UserError
from tests.models.small_decoders import FORMS, decoder, named


def members(mixers: tuple[str, ...], count: int, **settings: object) -> list[DecoderForCausalLM]:
    """Decoders of unlike weights."""
    models = [decoder(mixers, **settings) for _ in range(count)]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in (p for model in models for p in model.parameters()):
            parameter.mul_(1 + 0.2 * torch.rand(parameter.shape, generator=generator))
    return models


def batch(seed: int, rows: int = 3, length: int = 24) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(40, (rows, length), generator=generator)
    return ids, ids.where(torch.rand(ids.shape, generator=generator) < 0.5, -100)


def together(model: DecoderForCausalLM, batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Mean losses by member."""
    sums, counts = losses(model, *(torch.cat(parts) for parts in zip(*batches)))
    return sums / counts


@pytest.mark.parametrize(("mixers", "settings"), FORMS[::2], ids=named)
def test_losses_and_gradients_are_the_members_own(mixers: tuple[str, ...], settings: dict[str, object]) -> None:
    models = members(mixers, 2, **settings)
    batches = [batch(member) for member in range(2)]
    stacked = stack(models)
    found = together(stacked.train(), batches)
    found.sum().backward()
    for member, (model, (ids, labels)) in enumerate(zip(models, batches)):
        loss = model.train()(input_ids=ids, labels=labels).loss
        loss.backward()
        assert found[member].item() == pytest.approx(loss.item(), abs=2e-6)
        for (name, own), parameter in zip(model.named_parameters(), stacked.parameters(), strict=True):
            assert own.grad is not None
            assert parameter.grad is not None
            torch.testing.assert_close(
                parameter.grad[member], own.grad, rtol=1e-3, atol=1e-5 * float(own.grad.abs().max()) + 1e-9, msg=name
            )


@pytest.mark.parametrize("mixers", [("attention", "gru", "lstm"), ("gated_deltanet", "mamba", "mamba2", "rwkv7")])
def test_a_member_of_nan_leaves_the_others_to_the_bit(mixers: tuple[str, ...]) -> None:
    models = members(mixers, 3)
    stacked = stack(models)
    batches = [batch(member) for member in range(3)]
    gradients = []
    for lost in (False, True):
        if lost:
            with torch.no_grad():
                stacked.get_parameter("embeddings.weight")[1] = torch.nan
        each = together(stacked, batches)
        each.sum().backward()
        norms = clip_by_member(stacked.parameters(), 0.1)
        assert torch.isfinite(each).tolist() == torch.isfinite(norms).tolist() == [True, not lost, True]
        gradients.append([p.grad[[0, 2]] for p in stacked.parameters() if p.grad is not None])
        stacked.zero_grad()
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


class Gained(GRU):
    """Its own parameter is read as a whole, not row by row."""

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        return super().forward(x, cache) * self.gain.mean()


def test_a_mixer_whose_own_parameters_are_read_otherwise_is_found_out() -> None:
    models = members(("gru",), 2)
    for number, model in enumerate(models, 1):
        mixer = model.mixers()[0]
        mixer.__class__ = Gained
        mixer.gain = nn.Parameter(torch.full((32,), float(number)))
    with pytest.raises(UserError, match=r"model\.mixers: gru cannot be stacked"):
        stack(models)
