"""Budgets: the table of runs says what training took, and a verdict in what its sides were unequal."""

from pathlib import Path
from typing import Any

import pytest

from remedy.eval.records.folder import read_request
from remedy.eval.report.budgets import as_it_is, runs_table, unequal
from remedy.eval.report.page import compose
from remedy.eval.report.reading import Evaluations
from remedy.eval.report.wording import verdict_cell
from tests.eval.made_records import made, together, write_evaluation

TRAINING: dict[str, Any] = {
    "steps": 800,
    "examples": 25_600,
    "tokens": 1_200_000,
    "flops": 3.4e12,
    "learning_rate": 0.004,
    "seed": 0,
    "data_seed": 0,
    "kept_step": 800,
    "stopped_early": False,
    "validation": None,
    "chosen": {},
}
CHOSEN = {"chosen": {"train.learning_rate": 0.004}}


@pytest.mark.parametrize(
    ("baseline", "treatment", "says"),
    [
        ({}, {}, []),
        ({}, {"tokens": 1_230_000, "flops": 3.5e12, "seed": 1}, []),
        ({}, {"steps": 1600, "examples": 51_200}, ["steps 1,600 against 800", "examples 51,200 against 25,600"]),
        ({}, {"tokens": 400_000}, ["tokens 4e+05 against 1.2e+06"]),
        ({}, {"flops": 5e12}, ["FLOPs 5e+12 against 3.4e+12"]),
        ({}, {"learning_rate": 0.002}, ["learning rate 0.002 against 0.004, neither chosen on validation here"]),
        ({}, CHOSEN, ["learning rate chosen on validation for the treatment alone"]),
        (CHOSEN, {}, ["learning rate chosen on validation for the baseline alone"]),
        (CHOSEN, {"learning_rate": 0.002, "chosen": {"train.learning_rate": 0.002}}, []),
        (None, {}, ["only the treatment was trained here"]),
        (None, None, []),
        ({"steps": 0, "examples": 0, "tokens": 0, "flops": 0.0}, {}, ["only the treatment was trained here"]),
        ({"steps": 0}, None, []),
    ],
)
def test_what_is_unequal_is_said_and_nothing_else(
    baseline: dict[str, Any] | None, treatment: dict[str, Any] | None, says: list[str]
) -> None:
    sides = [[{"training": None if side is None else {**TRAINING, **side}}] for side in (baseline, treatment)]
    assert unequal(*sides) == says
    assert bool(unequal(*reversed(sides))) == bool(says)
    assert unequal(sides[0] * 3, sides[1] * 2) == says


def test_another_server_is_said_to_be() -> None:
    vllm = {"server": "vllm", "version": "0.32.0", "model": "m", "longest": 4096, "batch_invariant": "on"}
    here, there, later = [{}], [{"backend": vllm}], [{"backend": {**vllm, "version": "0.33.0"}}]
    assert unequal(here, here) == unequal(there, there) == []
    assert unequal(here, there) == ["served by vllm 0.32.0, batch-invariant against no server"]
    assert unequal(later, there) == [
        "served by vllm 0.32.0, batch-invariant against served by vllm 0.33.0, batch-invariant"
    ]


def test_weights_in_fewer_bits_are_said_to_be() -> None:
    usual, four = [{}], [{"quantization": "nf4"}]
    assert unequal(four, four) == []
    assert unequal(usual, four) == ["weights in 4 bits (NF4) against weights as they are"]


def test_a_verdict_between_unequal_arms_says_so_and_the_table_shows_what_training_took(tmp_path: Path) -> None:
    folders = [
        write_evaluation(
            tmp_path / run,
            made([right] * 100, run=run, labels={"length": 4, "horizon": 4}),
            training={**TRAINING, "steps": steps, "kept_step": 400},
        )
        for run, right, steps in (("a", False, 800), ("b", True, 1600))
    ]
    found = compose(folders)
    assert verdict_cell(found.verdicts[0]).splitlines()[-1] == "unequal: steps 1,600 against 800"
    rows = found.sections[0].rows
    assert rows is not None
    first = dict(zip(rows[0], rows[1], strict=True))
    assert first["Training"].splitlines() == [
        "800 steps",
        "25,600 examples",
        "1,200,000 tokens",
        "3.4e+12 FLOPs",
        "the best kept, of step 400",
    ]
    assert (first["Learning rate"], first["Seed"]) == ("0.004", "0")
    equal = compose(
        folders[:1]
        + [
            write_evaluation(
                tmp_path / "c", made([True] * 100, run="c", labels={"length": 4, "horizon": 4}), training=TRAINING
            )
        ]
    )
    assert "unequal" not in verdict_cell(equal.verdicts[0])


def sized(**changes: Any) -> list[dict[str, Any]]:
    about = {"parameters": 104_512, "state_floats": 0, "state_by_length": 256, **changes}
    return [{"checkpoint": about, "training": TRAINING}] * 2


@pytest.mark.parametrize(
    ("treatment", "says"),
    [
        ({}, []),
        ({"parameters": 110_000}, []),
        ({"parameters": 167_440}, ["parameters 167,440 against 104,512"]),
        ({"state_floats": 2048, "state_by_length": 0}, ["state 2,048 against 256 a token"]),
        ({"state_by_length": 512}, ["state 512 a token against 256 a token"]),
        ({"state_floats": None, "state_by_length": None}, []),
    ],
)
def test_sides_of_unequal_size_are_said_to_be(treatment: dict[str, Any], says: list[str]) -> None:
    assert unequal(sized(), sized(**treatment)) == says


def test_what_tells_two_models_or_their_training_apart_stands_in_the_table(tmp_path: Path) -> None:
    stages = [{"steps": 200, "set": {"reveal.spacing": 1, "task.length": [2, 8]}}, {"steps": 450}]
    labels = {"length": 4, "horizon": 4}
    folder = write_evaluation(tmp_path / "a", made([True], labels=labels), training={**TRAINING, "curriculum": stages})
    request = read_request(folder)
    request["checkpoint"]["decoder"] = {"window": [16, None], "positions": "none", "short_convolution": True}
    request["data"]["reveal"] = {"spacing": 4.0, "locals": "full", "answer_only": False}
    conditions, records = together(made([True], labels=labels))
    head, row = runs_table(Evaluations([request], conditions, records, []))
    found = dict(zip(head, row, strict=True))
    assert found["Model"].splitlines()[2:] == ["window 16, null", "positions none", "short_convolution true"]
    assert found["Training"].splitlines()[-1] == "in stages: 200 steps of spacing 1, length 2, 8; 450 steps"
    assert found["Data"] == "permutation\nreveals: spacing 4.0; locals full"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("delta_rule by fla.ops.delta_rule 0.6.0", True),
        ("delta_rule by PyTorch (fla is not installed)", True),
        ("delta_rule by PyTorch (no CUDA device)", False),
        ("PyTorch's own", False),
    ],
)
def test_the_table_shows_what_computed_a_mixer_where_there_was_a_choice(path: str, shown: bool, tmp_path: Path) -> None:
    labels = {"length": 4, "horizon": 4}
    took = {**TRAINING, "computed": {"mixers": {"deltanet": path}, "all_logits": None}}
    request = read_request(write_evaluation(tmp_path / "a", made([True], labels=labels), training=took))
    conditions, records = together(made([True], labels=labels))
    head, row = runs_table(Evaluations([request], conditions, records, []))
    lines = dict(zip(head, row, strict=True))["Training"].splitlines()
    assert (f"deltanet: {path}" in lines) == shown


def test_a_model_as_it_is_is_said_to_be_not_trained(tmp_path: Path) -> None:
    labels = {"length": 4, "horizon": 4}
    took = {**TRAINING, "steps": 0, "examples": 0, "tokens": 0, "flops": 0.0, "kept_step": 0}
    request = read_request(write_evaluation(tmp_path / "a", made([True], labels=labels), training=took))
    conditions, records = together(made([True], labels=labels))
    head, row = runs_table(Evaluations([request], conditions, records, []))
    found = dict(zip(head, row, strict=True))
    assert found["Training"].splitlines() == ["not trained", "0 steps", "0 tokens"]
    assert "Learning rate" not in found
    assert not as_it_is(request)  # one of our decoders: random weights, of a seed
    request["checkpoint"]["mixers"] = {}
    assert as_it_is(request)


@pytest.mark.parametrize(
    ("memory", "says"),
    [(None, ""), (4, "\nmemory 4"), ({"frames": 2, "open_calls": True}, "\nmemory 2 with open calls")],
)
def test_the_memory_of_a_run_is_said_as_labels_say_it(memory: Any, says: str, tmp_path: Path) -> None:
    labels = {"length": 4, "horizon": 4}
    request = read_request(write_evaluation(tmp_path / "a", made([True], labels=labels)))
    request["data"]["memory"] = memory
    head, row = runs_table(Evaluations([request], *together(made([True], labels=labels)), []))
    assert dict(zip(head, row, strict=True))["Data"] == f"permutation{says}"
