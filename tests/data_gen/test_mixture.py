"""Mixtures: every part in its share, changes by `set`, and what the train split never has."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples, token_arrays
from remedy.data_gen.mixture import MOST_SEEDS, STRIDE, Mixture, Part
from remedy.settings import ConfigError, build

DATA = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": [2, 6]}, "format": "symbolic"})


def mixture(weights: list[int]) -> Mixture:
    return Mixture(DATA, {f"part {i}": Part(weight=weight) for i, weight in enumerate(weights)})


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 10**6))
def test_every_part_comes_in_its_share_and_none_of_its_examples_twice_or_never(weights: list[int], first: int) -> None:
    mixed = mixture(weights)
    total = sum(weights)
    numbers = np.arange(3 * total)
    sources, indices = mixed.locate(numbers)
    for number, weight in enumerate(weights):
        assert indices[sources == number].tolist() == list(range(3 * weight))
        # Spread evenly: no stretch of the data is without its share by more than one example.
        ahead = np.cumsum(sources == number) - (numbers + 1) * weight / total
        assert np.abs(ahead).max() <= len(weights)
    alone = mixed.locate([first])
    assert alone.sources[0] == mixed.locate(np.arange(first, first + 5)).sources[0]


@given(st.integers(0, MOST_SEEDS - 1), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_data_seeds_read_examples_of_their_own(seed: int, weights: list[int]) -> None:
    parts = {f"part {i}": Part(weight=w) for i, w in enumerate(weights)} if len(weights) > 1 else {}
    numbers = np.arange(50)
    usual, other = Mixture(DATA, parts).locate(numbers), Mixture(DATA, parts, seed).locate(numbers)
    assert (usual.sources == other.sources).all()
    assert (other.indices - usual.indices == seed * STRIDE).all()
    assert other.indices.min() >= 0


def test_a_data_seed_reads_each_of_given_programs_once_a_pass_in_an_order_of_its_own(tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"p{i}", "code": f"def f(x):\n    return x + {i}\n", "input": "1"}) for i in range(40)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    parts = {"own": Part(set={"task": {"kind": "programs", "path": str(tmp_path / "own.jsonl")}, "format": "cwm"})}
    usual = Mixture(DATA, parts)
    count = usual.sources[0].examples
    assert count
    orders = [Mixture(DATA, parts, seed).locate(np.arange(2 * count)).indices.tolist() for seed in range(4)]
    assert len({tuple(order) for order in orders}) == 4
    for order in orders:
        assert sorted(order[:count]) == list(range(count))
        assert order[count:] == order[:count]


def test_held_out_lengths_are_never_trained_on_and_still_tested() -> None:
    task = {**DATA.task.model_dump(), "held_out_lengths": [4, 5]}
    held = build(DataConfig, {**DATA.model_dump(), "task": task}, "x")
    trained = Counter(example.slices["length"] for example in examples(held, "train", range(200)))
    assert set(trained) == {2, 3, 6}
    assert {4, 5} <= {example.slices["length"] for example in examples(held, "test", range(200))}
    arrays = token_arrays(held, "train", range(200))
    assert arrays is not None  # the fast path draws the same programs
    assert len(set(arrays.lengths.tolist())) == 3
    # What was not held out anyway is where it was.
    for before, after in zip(examples(DATA, "train", range(100)), examples(held, "train", range(100))):
        if before.slices["length"] in (2, 3, 6):
            assert before.identity == after.identity


def test_held_out_functions_and_depths_are_never_trained_on() -> None:
    task = {"kind": "composition", "functions": ["mirror_str", "rotate_str", "repeat_str"], "depth": [1, 3]}
    held = build(DataConfig, {"task": {**task, "held_out_functions": ["rotate_str"], "held_out_depths": [2]}}, "x")
    trained, tested = ([e.slices for e in examples(held, split, range(60))] for split in ("train", "test"))
    assert not any("rotate_str" in str(s["functions"]) or s["depth"] == 2 for s in trained)
    assert any("rotate_str" in str(s["functions"]) for s in tested)
    assert any(s["depth"] == 2 for s in tested)
    with pytest.raises(ConfigError, match=r"unknown function 'rotate_st' .*did you mean 'rotate_str'"):
        build(DataConfig, {"task": {**task, "held_out_functions": ["rotate_st"]}}, "x")
    alone = {"kind": "composition", "functions": ["rotate_str"], "depth": 1, "held_out_depths": [1]}
    with pytest.raises(ConfigError, match="or hold out less"):
        examples(build(DataConfig, {"task": alone}, "x"), "train", [0])


def test_held_out_pairs_of_functions_are_never_trained_on() -> None:
    names = ["mirror_str", "rotate_str", "repeat_str"]
    task = {"kind": "composition", "functions": names, "depth": [1, 4], "held_out_pairs": [names[:2]]}
    held = build(DataConfig, {"task": task}, "x")
    found = {split: [e.slices for e in examples(held, split, range(60))] for split in ("train", "validation", "test")}
    for split, slices in found.items():
        for one in slices:
            assert one["held_out_pairs"] == str(one["functions"]).count("mirror_str rotate_str")
        assert any(one["held_out_pairs"] for one in slices) == (split == "test")
    small = {"task": {**task, "input_length": [1, 1], "alphabet": "ab", "depth": 2, "functions": names[:2]}}
    listed = [examples(build(DataConfig, small, "x"), split, range(12)) for split in ("validation", "test")]
    assert [any(one.slices["held_out_pairs"] for one in part) for part in listed] == [False, True]


def test_held_out_programs_are_never_trained_on(tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"p{i}", "code": f"def f(x):\n    return x + {i}\n", "input": "1"}) for i in range(40)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    task = {"kind": "programs", "path": str(tmp_path / "own.jsonl")}
    everything = build(DataConfig, {"task": task}, "x")
    count = everything.task.count("train")
    assert count
    first = str(examples(everything, "train", [0])[0].slices["source"])
    held = build(DataConfig, {"task": {**task, "held_out_programs": [first]}}, "x")
    assert held.task.count("train") == count - 1
    assert first not in {e.slices["source"] for e in examples(held, "train", range(count - 1))}
