"""The script that compares a model's keys with the reflections of a symmetric group."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from benchmarks import reflections
from remedy.data_gen.settings import build
from remedy.models.loading import load_checkpoint
from remedy.train.config import RunConfig
from remedy.train.run import train

SWAPS = ["".join(pair) for pair in itertools.combinations("abcde", 2)]


@pytest.mark.parametrize("seed", range(5))
def test_roots_are_found_however_they_are_turned_and_signed(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    roots = torch.zeros(10, 5, dtype=torch.float64)
    for root, swap in zip(roots, SWAPS):
        root["abcde".index(swap[0])], root["abcde".index(swap[1])] = 2**-0.5, -(2**-0.5)
    turn = torch.linalg.qr(torch.randn(16, 5, generator=generator, dtype=torch.float64))[0].T
    signs = torch.randint(0, 2, (10, 1), generator=generator) * 2 - 1
    exact = signs * (roots @ turn)
    learnt = torch.nn.functional.normalize(
        exact + 1e-3 * torch.randn(10, 16, generator=generator, dtype=torch.float64), dim=1
    )
    found = reflections.nearest_roots(learnt, SWAPS)
    cosines = (found @ found.T).abs()
    assert torch.minimum((cosines - 0.5).abs(), torch.minimum(cosines, (cosines - 1).abs())).max() < 1e-9
    assert (found - exact).norm(dim=1).max() < 1e-2


def test_keys_that_are_no_roots_are_far_from_them() -> None:
    keys = torch.nn.functional.normalize(
        torch.randn(10, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64), dim=1
    )
    assert (reflections.nearest_roots(keys, SWAPS) - keys).norm(dim=1).max() > 0.5


def trained(folder: Path, model: dict[str, object]) -> Path:
    """A run of two steps that follows swaps."""
    settings = {
        "data": {
            "task": {"kind": "permutation", "n": 5, "moves": "swaps", "length": 4, "distinct_values": True},
            "format": "symbolic",
            "context": False,
        },
        "tokenizer": {"kind": "symbols"},
        "model": {"mixers": ["deltanet"], "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2} | model,
        "train": {"max_steps": 2, "batch_size": 2, "threads": 1},
        "tracking": {"wandb": False},
        "output": str(folder),
    }
    return train(build(RunConfig, settings, "run"))


def test_a_model_that_does_not_turn_over_is_refused_and_exact_parts_take_the_place_of_learnt_ones(
    tmp_path: Path,
) -> None:
    run = trained(tmp_path / "run", {"short_convolution": False})
    model, tokenizer = load_checkpoint(str(run))
    with pytest.raises(SystemExit, match="turns over"):
        reflections.read_off(model, tokenizer, run)
    with torch.no_grad():
        model.layers[0].mixer.beta_proj.bias.fill_(20.0)
    swaps = reflections.read_off(model, tokenizer, run)
    assert len(swaps.tokens) == 10
    assert torch.allclose(swaps.beta, torch.tensor(2.0, dtype=torch.float64))
    seen: list[torch.Tensor] = []
    ids, _ = next(reflections.batches(run, tokenizer, 8, 2))
    which = torch.full((tokenizer.vocab_size,), -1)
    which[swaps.tokens] = torch.arange(10)
    rule = reflections.with_exact(("keys",), swaps, which[ids])
    original = reflections.delta_rule
    reflections.delta_rule = lambda q, k, *rest: (seen.append(k), original(q, k, *rest))[1]
    try:
        with pytest.MonkeyPatch.context() as patch, torch.no_grad():
            patch.setattr(reflections.deltanet, "delta_rule", rule)
            model(input_ids=ids)
    finally:
        reflections.delta_rule = original
    at = which[ids] >= 0
    assert int(at.sum()) == 16
    assert torch.allclose(seen[0][:, swaps.head][at].double(), swaps.exact_keys[which[ids][at]], atol=1e-6)


def test_a_model_with_a_convolution_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", {"short_convolution": True})
    model, tokenizer = load_checkpoint(str(run))
    with torch.no_grad():
        model.layers[0].mixer.beta_proj.bias.fill_(20.0)
    with pytest.raises(SystemExit, match="several keys"):
        reflections.read_off(model, tokenizer, run)
