"""Every mixer: causal, the same step by step as in parallel, with gradients, and what its settings change."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from remedy.models.mixers.attention import windowed_attention
from tests.models.small_decoders import ALL, FORMS, decoder


@pytest.mark.parametrize(
    ("mixers", "settings"),
    FORMS,
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "+".join(f"{key} {value[key]}" for key in value),
)
@torch.no_grad()
def test_parallel_and_step_by_step_and_by_pieces_agree(mixers: tuple[str, ...], settings: dict[str, object]) -> None:
    model = decoder(mixers, **settings)
    tokens = torch.randint(0, 40, (3, 83))
    parallel = model(tokens).logits
    for prefill in (1, 9):
        cache = model.new_cache()
        steps = [model(tokens[:, :prefill], past_key_values=cache).logits]
        steps += [model(tokens[:, t : t + 1], past_key_values=cache).logits for t in range(prefill, 83)]
        torch.testing.assert_close(torch.cat(steps, 1), parallel, atol=1e-5, rtol=0)
    if set(mixers) == {"attention"}:
        cache = model.new_cache()
        pieces = [model(piece, past_key_values=cache).logits for piece in tokens.split([4, 11, 1, 30, 37], 1)]
        torch.testing.assert_close(torch.cat(pieces, 1), parallel, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_window_is_what_a_token_sees_and_what_the_cache_keeps() -> None:
    model = decoder(("attention", "attention"), window=[5, None], num_hidden_layers=2)
    mixer, x = model.layers[0].mixer, torch.randn(1, 30, 32)
    changed = x.clone()
    changed[:, 10] += 1.0
    seen = (mixer(x) - mixer(changed)).abs().amax((0, 2)) > 0
    assert seen.nonzero().flatten().tolist() == [10, 11, 12, 13, 14]
    cache = model.new_cache()
    model(torch.randint(0, 40, (2, 30)), past_key_values=cache)
    assert [layer.keys.shape[-2] for layer in cache.layers] == [4, 30]
    model(torch.randint(0, 40, (2, 1)), past_key_values=cache)
    assert [layer.keys.shape[-2] for layer in cache.layers] == [4, 31]
    assert [mixer.state_floats() for mixer in model.mixers()] == [(5 * 2 * 32, 0), (0, 2 * 32)]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 3))
def test_a_window_block_by_block_is_the_masked_one_with_its_gradients(window: int, steps: int, batch: int) -> None:
    made = torch.randn(3, batch, 2, steps, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(steps))
    mask = torch.ones(steps, steps, dtype=torch.bool).tril().triu(1 - window)
    found = []
    for attend in (
        lambda *qkv: windowed_attention(*qkv, window),
        lambda *qkv: F.scaled_dot_product_attention(*qkv, attn_mask=mask),
    ):
        qkv = made.clone().requires_grad_()
        with torch.enable_grad():
            y = attend(*qkv)
            y.square().sum().backward()
        found.append((y.detach(), qkv.grad))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("mixers", ALL, ids="+".join)
def test_every_parameter_gets_a_gradient(mixers: tuple[str, ...]) -> None:
    model = decoder(mixers).train()
    tokens = torch.randint(0, 40, (2, 20))
    model(tokens, labels=tokens).loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []
