"""Splits by what is to be learnt: no command sequence, and no composition, of one split stands in another."""

import itertools
from typing import Any

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.splits import SPLITS
from remedy.data_gen.tasks import Drawn
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.permutation import PermutationTask

SWAPS: dict[str, Any] = {"n": 3, "moves": "swaps", "length": (3, 5)}
CALLS: dict[str, Any] = {"functions": ("mirror_str", "sort_chars", "rotate_str"), "depth": (1, 3)}


def commands(one: Drawn) -> str:
    return "".join(line for line in one.program.code.splitlines(keepends=True) if "," in line)


def composed(one: Drawn) -> str:
    return str(one.slices["functions"])


def overlap(task: Any, learnt: Any, count: int = 200) -> set[str]:
    """What is to be learnt of the first programs of two splits, of all pairs of these."""
    drawn = [{learnt(one) for one in task.draw(split, range(count), 0, True)} for split in SPLITS]
    return set().union(*(one & other for one, other in itertools.combinations(drawn, 2)))


def test_no_sequence_of_commands_is_in_two_splits() -> None:
    assert overlap(PermutationTask(**SWAPS), commands)
    assert not overlap(PermutationTask(**SWAPS, split_by="commands"), commands)
    data = DataConfig.model_validate({"task": {"kind": "permutation", **SWAPS, "split_by": "commands"}})
    clusters = {one.identity: one.cluster for one in examples(data, "test", range(100))}
    assert len(clusters) == 100  # other digits make another program, which stands or falls with its commands
    assert len(set(clusters.values())) == data.task.clusters("test", 100) < 40
    assert PermutationTask(**SWAPS).clusters("test", 100) == 100


def test_no_composition_is_in_two_splits_and_single_functions_are_in_all() -> None:
    single = set(CALLS["functions"])
    assert overlap(CompositionTask(**CALLS), composed) > single
    task = CompositionTask(**CALLS, split_by="functions")
    assert overlap(task, composed) == single
    assert task.clusters("test", 100) < 100
    one = CompositionTask(functions=("mirror_str",), depth=2, split_by="functions")
    assert sorted(one.count(split) == 0 for split in SPLITS) == [False, True, True]
