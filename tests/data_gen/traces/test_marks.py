"""Marked lines: what a program marks is shown each time, its prompt says where, and nothing else changes."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example, examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.roles import Role, Span, spans_text
from remedy.data_gen.traces.marks import MARK, draw_marks, marked_lines
from remedy.data_gen.traces.parse import Piece, ReadTrace
from remedy.data_gen.traces.render import FORMATS
from remedy.settings import ConfigError, build

ROOT = Path(__file__).resolve().parents[3]
PERMUTATION = {"kind": "permutation", "n": 3, "moves": "swaps", "length": [0, 12]}
OWN = """def f(words):
    found = ""
    for word in words:
        found += g(word)
    return found
def g(word):
    note = '''a # show
    '''
    return word[::-1] + \\
        note[0]
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("own") / "own.jsonl"
    path.write_text(json.dumps({"code": OWN, "input": "['ab', 'c']"}) + "\n")
    return {"kind": "programs", "path": str(path)}


def after_context(spans: list[Span]) -> list[Piece]:
    return [span.piece for span in spans if span.role is not Role.CONTEXT]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [
            (PERMUTATION, "repl"),
            (PERMUTATION, "cwm_unseeded"),
            ({**PERMUTATION, "answer": "none"}, "cwm"),
            ({"kind": "composition", "depth": [1, 3]}, "cwm"),
            ({"kind": "composition", "depth": 2, "flatten": True}, "cwm_numbered"),
            ("own", "cwm_numbers"),
            ("own", "repl"),
        ]
    ),
    st.integers(0, 10_000),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.sampled_from([4, float("inf")]),
    st.sampled_from(["full", "diff", "one_at_random"]),
)
def test_states_stand_at_the_spacing_and_at_the_lines_that_the_prompt_marks_and_are_read_back(
    own: dict[str, Any], kind: tuple[Any, str], index: int, at: float, spacing: float, shown: str
) -> None:
    task, form = (own, kind[1]) if kind[0] == "own" else kind
    plain = DataConfig.model_validate({"task": task, "format": form, "reveal": {"spacing": spacing, "locals": shown}})
    split, place = ("all", 0) if task is own else ("train", index)
    marked, other = (example(data, split, place) for data in (plain.changed({"reveal.at": at}), plain))
    assert marked.outcome == "ok"
    assert (marked.identity, marked.cluster, marked.answer) == (other.identity, other.cluster, other.answer)
    assert [(f.event, f.line, f.locals, f.value) for f in marked.trace.frames] == [
        (f.event, f.line, f.locals, f.value) for f in other.trace.frames
    ]
    lines = marked_lines(marked.program)
    with_locals = [number for number, frame in enumerate(marked.trace.frames) if frame.locals is not None]
    usual = {number for ordinal, number in enumerate(with_locals) if plain.reveal.keeps(ordinal, len(with_locals) - 1)}
    expected = usual | {number for number in with_locals if marked.trace.frames[number].line in lines}
    # A session shows no state of no variables.
    assert {f.number for f in marked.frames if f.locals is not None} == {
        n for n in expected if n >= marked.frames[0].number and (form != "repl" or marked.trace.frames[n].locals)
    }
    prompt = spans_text([span for span in marked.spans if span.role is Role.CONTEXT])
    assert prompt.count(MARK) == marked.program.count(MARK)
    assert FORMATS[form].read(after_context(marked.spans)) == ReadTrace(
        tuple(f.as_read() for f in marked.frames), "", True
    )


def test_marks_are_drawn_for_each_example_at_their_share() -> None:
    data = DataConfig.model_validate(
        {"task": {**PERMUTATION, "length": 20}, "format": "repl", "reveal": {"spacing": float("inf"), "at": 0.25}}
    )
    found = [marked_lines(one.program) for one in examples(data, "train", range(200))]
    assert 0.23 < sum(map(len, found)) / (200 * 20) < 0.27
    assert len(set(found)) > 190
    assert min(line for lines in found for line in lines) == 4  # not where the variables are set up
    assert found == [marked_lines(one.program) for one in examples(data, "train", range(200))]


@pytest.mark.parametrize("path", sorted((ROOT / "data_gen").rglob("*.py")), ids=lambda path: path.name)
def test_a_marked_program_means_the_same(path: Path) -> None:
    code = path.read_text("utf-8")
    marked = draw_marks(Program(code), 0.7, 1).code
    assert ast.dump(ast.parse(marked)) == ast.dump(ast.parse(code))
    assert marked_lines(marked) == {
        number
        for number, (line, before) in enumerate(zip(marked.split("\n"), code.split("\n"), strict=True), start=1)
        if line != before
    } | marked_lines(code)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_lines_that_end_in_carriage_returns_are_marked_alike(end: str) -> None:
    code = OWN.replace("\n", end)
    marked, usual = (draw_marks(Program(one), 0.8, 1).code for one in (code, OWN))
    assert ast.dump(ast.parse(marked)) == ast.dump(ast.parse(code))
    assert marked_lines(marked) == marked_lines(usual.replace("\n", end)) == marked_lines(usual) != frozenset()


def test_a_programs_own_marks_are_its_comments_and_no_strings() -> None:
    assert marked_lines(
        "x = 1  # show\ny = '# show'\nz = '''\n# show\n'''  # a note # show\nw = (1,  # show \n 2)\n"
    ) == {1, 5, 6}
    assert marked_lines("x = '''# show\n") == marked_lines("") == frozenset()  # not even a program


def test_a_file_is_traced_with_its_own_marks(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        OWN.replace("found += g(word)", "found += g(word)  # show")
        + "def main():  # << START_OF_TRACE\n    return f('ab')\n"
    )
    task = {"kind": "programs", "path": str(file)}
    data = DataConfig.model_validate({"task": task, "reveal": {"spacing": float("inf"), "at": "marks"}})
    frames = FORMATS["cwm"].read(after_context(example(data, "all", 0).spans)).frames
    states = [frame.locals or {} for frame in frames]
    assert [state["word"] for state in states if state] == ["'a'", "'b'", "'b'"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reveal": {"at": 0.5}}, "at 0.5 does nothing with spacing 1, which keeps every state"),
        ({"reveal": {"at": 0.5, "spacing": 2}, "format": "symbolic"}, "the symbolic format writes without comments"),
        ({"reveal": {"at": 0.5, "spacing": 2}, "format": "repl", "context": False}, "which context: false hides"),
        ({"reveal": {"at": 1.0, "spacing": 2}}, "less than 1"),
    ],
)
def test_what_would_do_nothing_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build(DataConfig, {"task": PERMUTATION, **changes}, "test")


def test_marks_are_asked_of_programs_that_have_some_and_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"code": "def f(x):\n    return x  # show", "input": "1"}) + "\n")
    own = {"kind": "programs", "path": str(path)}
    for task, split in ((PERMUTATION, "train"), ({**own, "rewrites": ["temporaries"]}, "all")):
        data = DataConfig.model_validate({"task": task, "reveal": {"spacing": 2, "at": "marks"}})
        with pytest.raises(ConfigError, match=r"ends in `# show`.*rewrites"):
            example(data, split, 0)
