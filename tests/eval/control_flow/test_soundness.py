"""What really happens is never outside the control flow; how much that leaves open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.tasks.families import FAMILIES
from remedy.eval.control_flow import Exceptions
from tests.data_gen.execution.library_programs import library_programs
from tests.data_gen.execution.random_programs import Writer as AnyWriter
from tests.eval.control_flow.following import follow, follow_all, true_trace
from tests.eval.control_flow.plain_programs import Writer


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([AnyWriter, Writer]), st.integers(0, 10**9))
def test_generated_programs(writer: type[AnyWriter] | type[Writer], number: int) -> None:
    """With classes, and with many names for one value."""
    found = true_trace(writer(number).program(), frames=1_000)
    if found is not None:
        follow(found, most=400)
        if not found.raised:
            follow(found, "caught", most=400)


@pytest.mark.parametrize(("number", "family"), enumerate(FAMILIES))
def test_compositions(number: int, family: str) -> None:
    task = {"kind": "composition", "family": family, "depth": 3, "flatten": number % 2 == 0}
    for example in examples(DataConfig.model_validate({"task": task}), "test", range(6)):
        follow(example.trace)
        follow(example.trace, "caught")


@pytest.mark.parametrize(("moves", "answer"), [("swaps", "string"), ("full", "print"), ("swaps", "none")])
def test_on_straight_line_programs_one_frame_can_follow_though_lines_repeat(moves: str, answer: str) -> None:
    task = {"kind": "permutation", "n": 3, "moves": moves, "length": [20, 60], "answer": answer}
    for example in examples(DataConfig.model_validate({"task": task, "format": "cwm"}), "test", range(6)):
        counted = follow(example.trace, "caught")
        assert counted.most == 1
        assert counted.frames == len(example.trace.frames)


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.weekly)])
def test_many_generated_programs(count: int) -> None:
    for writer in (AnyWriter, Writer):
        assert follow_all((writer(number).program() for number in range(count)), most=300).traces > 0.9 * count


@pytest.mark.weekly
def test_modules_of_the_standard_library() -> None:
    assert follow_all(library_programs(), most=1_000).traces > 60


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def cruxeval(shared: Path) -> list[Program]:
    return [Program.from_call(row["code"], row["input"], row["id"]) for row in read(shared / "cruxeval.jsonl")]


def humaneval(shared: Path) -> list[Program]:
    problems = {row["task_id"]: row["prompt"] + row["canonical_solution"] for row in read(shared / "humaneval.jsonl")}
    return [
        Program.from_call(problems[row["task_id"]], row["input"], row["id"], row["entry_point"])
        for row in read(shared / "humaneval_cases.jsonl")
    ]


def whole(*what: Any) -> Any:
    return pytest.param(*what, marks=pytest.mark.weekly)


@pytest.mark.parametrize(
    ("programs", "exceptions", "every"),
    [
        (cruxeval, "caught", 5),
        (humaneval, "caught", 5),
        *(whole(of, exceptions, 1) for of in (cruxeval, humaneval) for exceptions in ("all", "caught")),
    ],
)
def test_benchmarks_and_how_much_is_certain(
    shared: Path, programs: Callable[[Path], list[Program]], exceptions: Exceptions, every: int
) -> None:
    crux = programs is cruxeval
    counted = follow_all(programs(shared)[::every], exceptions, most=20_000 if crux and every == 1 else 500)
    assert counted.traces > (700 if crux or exceptions == "all" else 650) / every
    assert counted.share_certain > (0.56 if crux else 0.40) or exceptions == "all" or every > 1
