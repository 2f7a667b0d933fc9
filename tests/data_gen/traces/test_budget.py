"""The budget-aware choice: it fits, and the next denser way does not."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples, executions
from remedy.data_gen.execution.program import Program, Trace
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.traces.budget import densest_reveal
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig, kept_frames

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


RECURSIVE = """def f(n):
    return n and f(n - 1) + n
"""


def long_trace(n: int) -> Trace:
    return trace(Program.from_call(CODE, f"{n}, 'start'"))


def count(spans: Sequence[Span]) -> int:
    return sum(len(span.piece) if isinstance(span.piece, str) else 1 for span in spans)


def in_order(traced: Trace, config: RevealConfig) -> list[RevealConfig]:
    """Every way, in the documented order."""
    reveals = sum(frame.locals is not None for frame in traced.frames)
    spacings: list[float] = [*range(2, reveals), math.inf]
    changes = config.model_copy(update={"locals": "changes"})
    ways = [config, config.model_copy(update={"locals": "diff"}), changes]
    ways += [changes.model_copy(update={"spacing": k}) for k in spacings]
    shown = changes.model_copy(update={"frames": "shown"})
    if "for" not in traced.program.code:
        doubled = [2**k for k in range(20) if k == 0 or 2**k <= reveals]
        return ways + [shown.model_copy(update={"spacing": k}) for k in [*doubled, math.inf]]
    ways += [shown.model_copy(update={"spacing": k}) for k in (1, 2, 4, 8, 16)]
    ways += [shown.model_copy(update={"spacing": 16, "loops": k}) for k in (64, 32, 16, 8, 4, 2, 1)]
    return [*ways, shown.model_copy(update={"spacing": math.inf, "loops": 1})]


@given(st.booleans(), st.integers(0, 6), st.integers(1, 4000))
def test_the_choice_fits_and_the_next_denser_way_does_not(loops: bool, n: int, budget: int) -> None:
    traced = long_trace(n) if loops else trace(Program.from_call(RECURSIVE, f"{n}"))
    config = RevealConfig(max_tokens=budget)

    def cost(way: RevealConfig) -> int:
        return count(render(traced, "cwm", way).spans)

    chosen = densest_reveal(traced, config, cost)
    ways = in_order(traced, config)
    if chosen is None:
        assert cost(ways[-1]) > budget
        return
    assert cost(chosen) <= budget
    place = ways.index(chosen)
    # Where a way is rarely sparser but costs more, the search by halves may pass a fit by.
    assert place == 0 or cost(ways[place - 1]) > budget


@given(st.integers(0, 5), st.integers(0, 4))
def test_stepping_over_writes_what_tracing_to_that_depth_records(n: int, depth: int) -> None:
    program = Program.from_call(CODE, f"{n}, 'start'")
    whole, shallow = trace(program), trace(program, depth=depth)
    kept = [whole.frames[number] for number in kept_frames(whole, RevealConfig(call_depth=depth))[0]]
    assert kept == shallow.frames


@given(st.integers(1, 6), st.integers(1, 4000))
def test_without_frames_left_out_the_widest_spacing_is_the_last_way(n: int, budget: int) -> None:
    traced = long_trace(n)
    config = RevealConfig(max_tokens=budget)
    chosen = densest_reveal(traced, config, lambda way: count(render(traced, "cwm", way).spans), leaves_out=False)
    assert chosen is None or not chosen.leaves_out


def test_the_answer_alone_is_no_way_to_fit_unless_it_is_asked_for() -> None:
    program = Program.from_call(LONG, "50")
    over = trace(program, depth=0)  # as where the tracer stepped over all that the entry point calls
    assert densest_reveal(over, RevealConfig(max_tokens=10_000), lambda way: 1) is None
    asked = RevealConfig(max_tokens=10_000, call_depth=0)
    assert densest_reveal(over, asked, lambda way: 1) == asked
    long = trace(program)
    chosen = densest_reveal(long, RevealConfig(max_tokens=400), lambda way: count(render(long, "cwm", way).spans))
    assert chosen is not None
    assert (chosen.frames, chosen.call_depth) == ("shown", None)
    assert chosen.loops is not None
    after = next(number for number, frame in enumerate(long.frames) if frame.source == "    return i\n")
    assert after in {frame.number for frame in render(long, "cwm", chosen).frames if frame.locals}


def fitted(data: dict[str, Any]) -> Example:
    """The first example, in the reveal that fits."""
    config = DataConfig.model_validate(data)
    return examples(config, "all", [0], count=count)[0]


@pytest.mark.parametrize("kept", [{"format": "symbolic"}, {"memory": {"frames": 2, "open_calls": True}}])
def test_frames_are_not_left_out_where_the_settings_refuse_it(kept: dict[str, Any], tmp_path: Path) -> None:
    task = source(tmp_path, LONG, "50")
    assert fitted({"task": task, "reveal": {"max_tokens": 400}}).reveal.leaves_out
    assert fitted({"task": task, "reveal": {"max_tokens": 400}, **kept}).outcome == "budget"


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
