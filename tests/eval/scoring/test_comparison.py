"""A trace judged by its text alone gets the score that `remedy evaluate` gives it."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.traces.comparison import compare_traces, same_text
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.scoring.common import DecodedExample
from remedy.eval.scoring.frames import answer_indices, score_frames
from remedy.settings import build
from tests.eval.constrained_runs import CHARACTERS as TOKENIZER

CODE = """def f(s, n):
    parts = []
    for i in range(n):
        parts.append(g(s, {i: 1.0}))
        s = s[1:]
    return parts, {n, 0}
def g(t, d):
    if len(t) < 2:
        raise ValueError(t)
    return t.upper()
"""


@pytest.mark.parametrize(
    ("written", "true", "encoding", "same"),
    [
        ("'h j f'", "'hjf'", "spaced", True),
        ("'hjf'", "'hjf'", "spaced", False),
        ("['h', 'j']", "'hj'", "list", True),
        ("[1,'h j']", "[1, 'hj']", "spaced", True),
        ("{2, 1.0}", "{1, 2}", "plain", True),
        ("a=1,b=2", "a=1,b=2", "spaced", True),
        ("a=1,b=3", "a=1,b=2", "plain", False),
    ],
)
def test_texts_of_answers_are_compared_under_their_encoding(written: str, true: str, encoding: str, same: bool) -> None:
    assert same_text(written, true, encoding) is same


FORMS: list[dict[str, Any]] = [
    {"format": "cwm", "reveal": {"locals": "diff"}},
    {"format": "cwm_unseeded", "reveal": {"locals": "diff"}},
    {"format": "cwm_numbered", "reveal": {"spacing": 3}},
    {"format": "cwm", "reveal": {"spacing": 3, "locals": "diff", "frames": "shown", "loops": 1}},
    {"format": "cwm", "reveal": {"answer_only": True}},
    {"format": "repl"},
    {"format": "cwm", "task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 2, "answer": "none"}},
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "own.jsonl"
    path.write_text("".join(json.dumps({"code": CODE, "input": given}) + "\n" for given in ("'abc', 2", "'ab', 3")))
    return path


REPLACED = [("1", "2"), ("a", "b"), ("1", "1.0"), (", ", ","), ("'", '"'), ("{", "["), ("..", "1")]


@st.composite
def changed(draw: st.DrawFn, text: list[Any]) -> list[Any]:
    """Pieces of a trace as a model might have got them wrong."""
    text = list(text)
    for _ in range(draw(st.integers(0, 2))):
        place, other = (draw(st.integers(0, len(text) - 1)) for _ in range(2))
        piece, kind = text[place], draw(st.sampled_from(["drop", "double", "swap", "cut", "order", "text"]))
        if kind in ("drop", "double"):
            text[place : place + 1] = [piece] * (2 * (kind == "double"))
        elif kind == "swap":
            text[place], text[other] = text[other], piece
        elif kind == "cut":
            del text[place + 1 :]
        elif kind == "order" and isinstance(piece, str) and piece.startswith("{"):
            with contextlib.suppress(ValueError):  # another change may have broken it
                text[place] = json.dumps(dict(reversed(json.loads(piece).items())))
        elif isinstance(piece, str):
            text[place] = piece.replace(*draw(st.sampled_from(REPLACED)), 1)
        text = text or [Special.END_OF_TEXT]
    return text


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["format"])
@given(draws=st.data())
@settings(max_examples=30, deadline=None)
def test_equal_to_what_evaluation_says(form: dict[str, Any], programs: Path, draws: st.DataObject) -> None:
    config = build(DataConfig, {"task": {"kind": "programs", "path": str(programs)}, **form}, "test")
    split = "all" if config.task.kind == "programs" else "test"
    example = examples(config, split, [draws.draw(st.integers(0, 0 if config.reveal.answer_only else 1))])[0]
    truth = TOKENIZER.encode(example.spans)
    start = next(place for place, role in enumerate(truth.roles) if role != Role.CONTEXT)
    true = TOKENIZER.pieces(truth.ids[start:])
    written = draws.draw(changed(true))
    ids = TOKENIZER.encode([Span(Role.STRUCTURE, piece) for piece in written]).ids
    runs = [Generated(start, len(truth.ids), ids, [0.0] * len(ids), True)]
    score = score_frames(DecodedExample(example, truth, runs, fed_roles("free"), config), TOKENIZER)
    found = compare_traces(written, true, FORMATS[config.format], answer_indices(example), config.reveal.answer_only)
    said = (found.right, found.valid, found.frames, found.frames_right)
    assert said == (score["right"], score["valid_format"], score["frames"], score["frames_right"])
    assert (found.first_wrong is None) == (score["first_error_frame"] == -1)
    if found.first_wrong not in (None, Role.STRUCTURE):
        assert found.first_wrong.label == score["first_error_role"]
