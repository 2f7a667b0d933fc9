"""Controls on the science: what theory says a recurrence can and cannot track, learnt from scratch in seconds."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig

PARITY = torch.tensor([[0, 1], [1, 0]])
PERMUTATIONS = list(itertools.permutations(range(3)))
S3 = torch.tensor([[PERMUTATIONS.index(tuple(b[i] for i in a)) for b in PERMUTATIONS] for a in PERMUTATIONS])


def words(group: Tensor, batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random elements after a start token, and the product of all so far at each; (B, 1 + T) and (B, T)."""
    elements = torch.randint(0, len(group), (batch, length), generator=generator)
    products = [elements[:, 0]]
    for t in range(1, length):
        products.append(group[products[-1], elements[:, t]])
    return F.pad(elements, (1, 0), value=len(group)), torch.stack(products, 1)


def last_right(
    group: Tensor, steps: int, length: int, tested: int, grow: bool = False, seed: int = 0, **model: object
) -> float:
    """The share of right products at the end of longer words than any a one-layer model was trained on.

    Training words are of random lengths up to `length`, or with `grow` of lengths that grow to it over the first half.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    shape: dict[str, object] = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
    config = DecoderConfig(vocab_size=len(group) + 1, intermediate_size=88, **shape, **model)  # type: ignore[arg-type]
    decoder = DecoderForCausalLM(config)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        drawn = int(torch.randint(2, length + 1, (1,), generator=generator))
        tokens, products = words(group, 64, min(length, 2 + 2 * length * step // steps) if grow else drawn, generator)
        F.cross_entropy(decoder(tokens).logits[:, 1:].flatten(0, 1), products.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    tokens, products = words(group, 300, tested, generator)
    with torch.no_grad():
        return float((decoder(tokens).logits[:, -1].argmax(-1) == products[:, -1]).float().mean())


# Both sides have as many starts: what can be learnt is learnt from one of them, what cannot be from none.
STARTS = (0, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("mixer", "steps"), [("deltanet", 250), ("mamba", 400)])
def test_parity_needs_an_eigenvalue_of_minus_one(mixer: str, steps: int) -> None:
    """Grazzi et al., 2024: a sign that flips with every 1 is the eigenvalue -1; within [0, 1] nothing can flip."""

    def right(eigenvalues: str, seed: int) -> float:
        return last_right(PARITY, steps, 24, 36, seed=seed, mixers=[mixer], eigenvalues=eigenvalues)

    assert any(right("signed", seed) > 0.95 for seed in STARTS)
    assert all(right("positive", seed) < 0.65 for seed in STARTS)


@pytest.mark.slow
def test_full_permutations_of_three_need_two_reflections_a_token() -> None:
    """Siems et al., 2025: a 3-cycle is a product of two swaps, so one Householder step a token cannot be it."""

    def right(householders: int, seed: int) -> float:
        return last_right(S3, 700, 12, 30, True, seed, mixers=["deltaproduct"], num_householder=householders)

    assert any(right(2, seed) > 0.85 for seed in STARTS)
    assert all(right(1, seed) < 0.6 for seed in STARTS)
