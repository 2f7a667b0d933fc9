"""The budget-aware choice: first in the order of preference among the ways that fit, checked against trying them all."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples, executions
from remedy.data_gen.execution.program import Program, Trace
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.traces.budget import densest_reveal
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig, kept_frames, levels

CODE = """def f(n, s):
    for i in range(n):
        s += g(i)
    return s
def g(i):
    def h(x):
        return 'x' * x
    y = h(i)
    return y
"""


def long_trace(n: int) -> Trace:
    return trace(Program.from_call(CODE, f"{n}, 'start'"))


def count(spans: Sequence[Span]) -> int:
    return sum(len(span.piece) if isinstance(span.piece, str) else 1 for span in spans)


def in_order(traced: Trace, config: RevealConfig) -> list[RevealConfig]:
    """Every way, in the documented order."""
    frames = len(traced.frames)
    spacings: list[float] = [*range(1, frames), math.inf]
    ways = [config, *(config.model_copy(update={"locals": "diff", "spacing": k}) for k in spacings)]
    for depth in range(max(levels(traced.frames)) - 1, -1, -1):
        ways.append(config.model_copy(update={"call_depth": depth}))
        ways += [config.model_copy(update={"locals": "diff", "spacing": k, "call_depth": depth}) for k in spacings]
    return ways


@given(st.integers(0, 6), st.integers(1, 4000))
def test_the_choice_is_the_first_way_that_fits(n: int, budget: int) -> None:
    traced = long_trace(n)
    config = RevealConfig(max_tokens=budget)

    def cost(way: RevealConfig) -> int:
        return count(render(traced, "cwm", way).spans)

    chosen = densest_reveal(traced, config, cost)
    fitting = [way for way in in_order(traced, config) if cost(way) <= budget]
    if chosen is None:
        assert not fitting
        return
    assert cost(chosen) <= budget
    first = fitting[0]
    assert (chosen.locals, chosen.call_depth) == (first.locals, first.call_depth)
    # Wider spacing may cost more where it shows what changed since further back; the search goes by halves and may pass a fit by.
    assert chosen.spacing == first.spacing or cost(chosen.model_copy(update={"spacing": chosen.spacing - 1})) > budget


@given(st.integers(0, 5), st.integers(0, 4))
def test_stepping_over_writes_what_tracing_to_that_depth_records(n: int, depth: int) -> None:
    program = Program.from_call(CODE, f"{n}, 'start'")
    whole, shallow = trace(program), trace(program, depth=depth)
    kept = [whole.frames[number] for number in kept_frames(whole.frames, RevealConfig(call_depth=depth))]
    assert kept == shallow.frames


def fitted(data: dict[str, Any]) -> Example:
    """The first example, in the reveal that fits."""
    config = DataConfig.model_validate(data)
    return examples(config, "all", [0], count=count)[0]


def source(folder: Path, code: str, arguments: str) -> dict[str, Any]:
    path = folder / f"{len(list(folder.iterdir()))}.jsonl"
    path.write_text(json.dumps({"code": code, "input": arguments}))
    return {"kind": "programs", "path": str(path), "tracer": {"max_frames": 1000}}


LONG = "def f(n):\n    return g(n)\ndef g(n):\n    for i in range(n):\n        pass\n    return i"


def test_a_program_too_long_to_be_traced_is_an_outcome_where_nothing_may_be_stepped_over(tmp_path: Path) -> None:
    assert fitted({"task": source(tmp_path, LONG, "5000")}).outcome == "frames"


def test_a_program_too_long_to_be_traced_is_stepped_over(tmp_path: Path) -> None:
    found = fitted({"task": source(tmp_path, LONG, "5000"), "reveal": {"max_tokens": 400}})
    assert (found.outcome, found.answer, found.slices["reveal"]) == ("ok", "4999", "full, spacing 1")
    assert found.reveal == RevealConfig(max_tokens=400)
    assert count(found.spans) <= 400


def test_what_fits_in_no_way_keeps_its_context_alone(tmp_path: Path) -> None:
    found = fitted({"task": source(tmp_path, LONG, "5000"), "reveal": {"max_tokens": 50}})
    assert found.outcome == "budget"
    assert {span.role for span in found.spans} == {Role.CONTEXT}


def test_what_happened_does_not_depend_on_the_budget() -> None:
    """So that an example is a function of configuration, split and index, and its spans of a chosen reveal besides."""
    task = {"kind": "composition", "depth": 2}
    found = [
        executions(DataConfig.model_validate({"task": task, "reveal": {"max_tokens": most}}), "test", range(4))
        for most in (10, 10_000)
    ]
    assert found[0] == found[1]
