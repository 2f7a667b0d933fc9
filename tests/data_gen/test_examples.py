"""Examples are a function of configuration, split and index; splits share no program; separators cannot be forged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example, examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, spans_text
from remedy.data_gen.traces.render import render
from remedy.settings import build

TASKS = [
    {"task": {"kind": "permutation", "n": 3, "length": [2, 9]}, "format": "repl"},
    {"task": {"kind": "permutation", "n": 3, "length": 4}, "format": "cwm"},
    {
        "task": {"kind": "permutation", "n": 4, "length": [2, 9]},
        "format": "symbolic",
        "reveal": {"locals": "one_at_random"},
    },
    {"task": {"kind": "composition", "depth": [1, 3]}, "string_encoding": "indexed"},
    {"task": {"kind": "composition", "family": "sets", "depth": 2}, "reveal": {"spacing": 4, "locals": "diff"}},
]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(TASKS), st.permutations([0, 5, 17, 10**7 + 1]), st.sampled_from(["train", "test"]))
def test_an_example_depends_on_its_index_alone(task: dict[str, object], order: list[int], split: str) -> None:
    config = DataConfig.model_validate(task)
    together = {e.index: e for e in examples(config, split, order)}
    assert together == {index: example(config, split, index) for index in order}


def test_an_example_is_the_same_in_another_process() -> None:
    code = (
        "from remedy.data_gen.examples import *; "
        "c = DataConfig.model_validate({'task': {'kind': 'composition', 'family': 'sets', 'depth': 3}}); "
        "print(hash(str(0)) and example(c, 'train', 11).spans)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


@pytest.mark.parametrize("task", [TASKS[0], TASKS[3]])
def test_no_program_is_in_two_splits(task: dict[str, object]) -> None:
    config = DataConfig.model_validate(task)
    seen = {
        split: {e.identity for e in examples(config, split, range(150))} for split in ("train", "validation", "test")
    }
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]
    assert not seen["validation"] & seen["test"]


def test_the_split_does_not_depend_on_how_a_program_is_written() -> None:
    task = {"kind": "permutation", "n": 3, "length": 5}
    written = [
        DataConfig.model_validate({"task": task, "format": fmt, "reveal": {"spacing": every}})
        for fmt, every in (("repl", 1), ("symbolic", 4), ("cwm", 2))
    ]
    identities = [[e.identity for e in examples(config, "test", range(20))] for config in written]
    assert identities[0] == identities[1] == identities[2]


def test_the_prompt_and_the_seeded_frame_are_context() -> None:
    program = Program.from_call("def f(x):\n    return x", "1")
    spans = render(trace(program), "cwm").spans
    prompt = spans_text([s for s in spans if s.role is Role.CONTEXT])
    assert prompt == (
        "<|begin_of_text|><|trace_context_start|>\ndef f(x):\n    return x\n"
        "def main():  # << START_OF_TRACE\n    return f(1)\n<|frame_sep|>"
        "<|call_sep|>{}<|action_sep|>def main():\n<|frame_sep|>"
    )


def test_a_program_that_raised_has_its_exception_for_an_answer_and_no_returned_value_to_ask_for(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"code": "def f(x):\n    return 1 // x", "input": "0"}) + "\n")
    data = build(DataConfig, {"task": {"kind": "programs", "path": str(path)}}, "test")
    traced = example(data, "all", 0)
    assert (traced.outcome, traced.answer[:29]) == ("ok", "(<class 'ZeroDivisionError'>,")
    asked = example(data.changed({"reveal.answer_only": True}, "test"), "all", 0)
    assert (asked.outcome, asked.frames) == ("raised", [])
    assert {span.role for span in asked.spans} == {Role.CONTEXT}
