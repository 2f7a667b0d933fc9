"""Randomised positions: ordered subsets of a range that a row's tokens decide, the same in any batch; even in evaluation."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.positions import drawn_positions


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=20), min_size=1, max_size=5),
    st.integers(20, 60),
    st.integers(1, 20),
)
def test_a_row_has_one_ordered_subset_whatever_stands_beside_it(
    rows: list[list[int]], length: int, capacity: int
) -> None:
    width = max(map(len, rows))
    tokens = torch.tensor([row + [7] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    together = drawn_positions(tokens, length, capacity, mask)
    for row, found in zip(rows, together.tolist(), strict=True):
        mine = found[: len(row)]
        assert mine == sorted(set(mine))
        assert 0 <= mine[0] <= mine[-1] < length
        assert drawn_positions(torch.tensor([row]), length, capacity).tolist() == [mine]


def test_as_many_as_fit_are_drawn_uniformly_over_the_range_and_differ_between_rows() -> None:
    drawn = drawn_positions(torch.arange(4000 * 8).view(4000, 8), 40, 8)
    counts = torch.bincount(drawn.flatten(), minlength=40).double()
    expected = 4000 * 8 / 40
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 70  # 39 degrees of freedom: 99.8 %
    assert len({tuple(row) for row in drawn.tolist()}) > 3990


def model(**changes: object) -> DecoderForCausalLM:
    torch.manual_seed(0)
    config = {"positions": "randomised", "position_range": 64, "position_capacity": 16, "hidden_size": 32, **changes}
    return DecoderForCausalLM(DecoderConfig.from_settings(DecoderSettings.model_validate(config), 40))


@torch.no_grad()
def test_training_draws_without_random_state_and_evaluation_is_even() -> None:
    decoder, tokens = model(), torch.randint(0, 40, (3, 12))
    state = torch.get_rng_state()
    drawn = decoder.train()(tokens).logits
    assert torch.equal(decoder(tokens).logits, drawn)
    assert torch.equal(torch.get_rng_state(), state)
    even = decoder.eval()(tokens).logits
    assert not torch.allclose(even, drawn, atol=1e-4)
    assert torch.equal(decoder(tokens[:1]).logits, even[:1])  # whatever stands beside it
