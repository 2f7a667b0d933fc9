"""What is held out keeps something from training, or is refused: a misspelt value would leave in what was meant to be out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.examples import examples
from remedy.eval.checkpoint import for_checkpoint
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.launch.generate import GenerateConfig
from remedy.settings import ConfigError, build
from remedy.train.config import RunConfig

SWAPS = {"kind": "permutation", "n": 3, "length": [2, 6]}
STRINGS = {"kind": "composition", "depth": [1, 3]}


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({**SWAPS, "held_out_lengths": [3, 99]}, "held_out_lengths: 99 keeps nothing from training"),
        ({**STRINGS, "functions": ["mirror_str"], "held_out_functions": ["rotate_str"]}, "rotate_str keeps nothing"),
        ({**STRINGS, "depth": 1, "held_out_pairs": [["mirror_str", "sort_chars"]]}, "no program may have it"),
        ({**SWAPS, "length": 1, "held_out_pairs": 1}, "held_out_pairs: 1 keeps nothing from training"),
        ({**STRINGS, "depth": 1, "split_by": "functions"}, "split_by: functions keeps nothing from training"),
    ],
)
def test_what_keeps_nothing_is_refused(task: dict[str, Any], says: str) -> None:
    for settings in (GenerateConfig, RunConfig):
        with pytest.raises(ConfigError, match="data") as error:
            build(settings, {"data": {"task": task}}, "f.yaml")
        assert says in str(error.value)


def run(data: dict[str, Any], **more: Any) -> RunConfig:
    return build(RunConfig, {"data": {"task": data}, **more}, "f.yaml")


def test_stages_and_parts_are_looked_at_together() -> None:
    held_out = {**SWAPS, "held_out_lengths": [4, 12]}
    stages = [{"steps": 1, "set": {"task.length": [2, 8]}}, {"steps": 1, "set": {"task.length": [8, 16]}}]
    assert run(held_out, train={"curriculum": stages}).data.task.model_dump()["held_out_lengths"] == (4, 12)
    with pytest.raises(ConfigError, match="12 keeps nothing from training"):
        run(held_out, train={"curriculum": stages[:1]})
    parts = {"short": {}, "long": {"set": {"task.length": 12}}}
    run(held_out, mixture=parts)
    with pytest.raises(ConfigError, match="12 keeps nothing from training"):
        run(held_out, mixture={"short": {}, "other": {"set": {"task": STRINGS}}})


STAGES = [{"steps": 1, "set": {}}, {"steps": 1, "set": {"task.held_out_lengths": []}}]
PAIRS_OUT = {**SWAPS, "held_out_pairs": 1}
STRINGS_OUT = {**STRINGS, "split_by": "functions", "held_out_functions": ["rotate_str"], "held_out_depths": [2]}


@pytest.mark.parametrize(
    ("task", "settings", "says"),
    [
        (
            STRINGS,
            {"mixture": {"a": {}, "b": {"set": {"task.held_out_depths": [2]}}}},
            "2 is set here alone: set it in",
        ),
        (STRINGS_OUT, {"mixture": {"a": {}, "b": {"set": {"task": STRINGS}}}}, "held_out_depths 2 keeps from training"),
        ({**SWAPS, "held_out_lengths": [3]}, {"train": {"curriculum": STAGES}}, "held_out_lengths 3 keeps from"),
        (PAIRS_OUT, {"mixture": {"a": {}, "b": {"set": {"task.held_out_pairs": 0}}}}, "held_out_pairs 1 keeps from"),
        (PAIRS_OUT, {"mixture": {"a": {}, "b": {"set": {"seed": 4}}}}, "another seed, n or moves draws other"),
        (PAIRS_OUT, {"mixture": {"a": {}, "b": {"set": {"task.n": 4}}}}, "another seed, n or moves draws other"),
    ],
)
def test_what_is_held_out_is_held_out_of_the_whole_run(
    task: dict[str, Any], settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as error:
        run(task, **settings)
    assert says in str(error.value)


def test_a_program_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    rows = [{"id": f"own/{n}", "code": f"def f(x):\n    return x + {n}", "input": "1"} for n in range(30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"kind": "programs", "path": str(path), "held_out_programs": ["own/7", "own/77"]}
    config = run(task)
    for split in ("train", "validation", "all"):
        with pytest.raises(ConfigError, match=r"has no program 'own/77'; did you mean 'own/7'\?"):
            examples(config.data, split, [0])


def test_an_evaluation_reads_no_training_split(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {task: {kind: permutation, held_out_lengths: [4]}}")
    for changes in ({"task.held_out_lengths": [5]}, {"task": {**SWAPS, "held_out_lengths": [5]}}):
        config = build(EvalConfig, {"diagnostics": [{"kind": "permutation"}], "set": changes}, "e.yaml")
        with pytest.raises(ConfigError, match=r"set\.task\.held_out_lengths does nothing in an evaluation"):
            for_checkpoint(str(tmp_path), config)
    stored = build(EvalConfig, {"diagnostics": [{"kind": "permutation"}], "set": {"task.length": 9}}, "e.yaml")
    assert for_checkpoint(str(tmp_path), stored).data.task.model_dump()["held_out_lengths"] == (4,)


def asked_for_pairs(folder: Path, trained: str, **changes: Any) -> CheckpointInfo:
    (folder / "config.yaml").write_text(f"data: {{task: {{kind: permutation, n: 3{trained}}}, seed: 7}}")
    settings = {"diagnostics": [{"kind": "permutation", "test_pairs": ["with"]}], "set": changes}
    return for_checkpoint(str(folder), build(EvalConfig, settings, "e.yaml"))


def test_an_evaluation_has_the_pairs_of_the_runs_training(tmp_path: Path) -> None:
    found = asked_for_pairs(tmp_path, ", held_out_pairs: 1", **{"task.length": 9})
    assert (found.trained_on, found.data.seed) == (found.data.task.changed({"length": 16}), 7)
    for changes in ({"seed": 8}, {"task.n": 4}):
        with pytest.raises(ConfigError, match="another seed, n or moves draws other pairs than training held out"):
            asked_for_pairs(tmp_path, ", held_out_pairs: 1", **changes)
    with pytest.raises(ConfigError, match=r"set\.task\.held_out_pairs does nothing"):
        asked_for_pairs(tmp_path, ", held_out_pairs: 1", **{"task.held_out_pairs": 2})


def test_a_control_is_asked_the_same_programs(tmp_path: Path) -> None:
    trained = asked_for_pairs(tmp_path, ", held_out_pairs: 1")
    control = asked_for_pairs(tmp_path, "", **{"task.held_out_pairs": 1})
    assert (trained.data, getattr(control.trained_on, "held_out_pairs", None)) == (control.data, 0)


def test_a_checkpoint_is_tested_on_the_splits_that_its_training_had(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {task: {kind: permutation, split_by: commands}}")
    asked = {"diagnostics": [{"kind": "permutation"}]}
    for changes in ({"task.split_by": "program"}, {"task": SWAPS}):  # the latter leaves it out
        with pytest.raises(ConfigError, match=r"set\.task\.split_by: test programs by program may stand in"):
            for_checkpoint(str(tmp_path), build(EvalConfig, {**asked, "set": changes}, "e.yaml"))
    for changes in ({"task.length": 4}, {"task": {**SWAPS, "split_by": "commands"}}, {"task": STRINGS}):
        for_checkpoint(str(tmp_path), build(EvalConfig, {**asked, "set": changes}, "e.yaml"))
