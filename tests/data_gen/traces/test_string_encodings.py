"""String encodings can be undone, and mark the strings inside values and source."""

import ast
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.describe import describe
from remedy.data_gen.execution.program import Value
from remedy.data_gen.roles import Role, spans_text
from remedy.data_gen.traces.string_encodings import ENCODINGS, encoded_source, escape, pieces, source_pieces

anything = st.text(alphabet=st.characters(), max_size=30)  # surrogates included


def indexed(text: Any) -> str:
    characters: list[str] = []
    position = 0
    while position < len(text):
        position += len(f"{len(characters)}:")
        characters.append(text[position : position + 1])
        position += 2
    return "".join(characters)


INVERSES: dict[str, Callable[[Any], str]] = {
    "plain": lambda t: t,
    "spaced": lambda t: t[::2],
    "list": "".join,
    "indexed": indexed,
}


@pytest.mark.parametrize("name", INVERSES)
@given(anything)
@example("")
@example(" ")
@example("0:1 1:2")
@example("'\"\\\n")
def test_every_encoding_can_be_undone(name: str, text: str) -> None:
    assert INVERSES[name](ENCODINGS[name](text)) == text
    written = "".join(piece.text for piece in pieces(describe(text), name))
    assert INVERSES[name](ast.literal_eval(json.loads(f'"{written}"'))) == text


@given(
    st.recursive(
        anything | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(anything, inner), max_leaves=8
    )
)
def test_plain_pieces_join_to_the_json_of_the_repr(value: object) -> None:
    described = describe(value)
    assert "".join(piece.text for piece in pieces(described, "plain")) == json.dumps(described.text)[1:-1]


def test_quotes_in_other_reprs_are_left_alone() -> None:
    assert [p.string for p in pieces(Value("[Point('x y')]", "list"), "spaced")] == [False]
    assert [p.string for p in pieces(Value("[b'ab']", "list"), "spaced")] == [False]


@pytest.mark.parametrize("text", ["hello", "['\\x']", "'a' + 'b'"])
@pytest.mark.parametrize("kind", ["str", "list"])
def test_the_repr_of_a_class_that_is_called_as_a_built_in_one_is_left_alone(text: str, kind: str) -> None:
    assert "".join(piece.text for piece in pieces(Value(text, kind), "spaced")) == escape(text)


def test_source_literals_are_marked_but_not_docstrings_or_comments() -> None:
    source = '"""It\'s a docstring."""\nx = \'a b\' + "c"  # don\'t\n'
    assert [p.text for p in source_pieces(source) if p.string] == ["'a b'", '"c"']
    assert "".join(p.text for p in source_pieces(source)) == source


def test_literals_of_source_lines_are_encoded_where_no_prefix_changes_their_meaning() -> None:
    source = """x = 'abc'[::-1] + "d'e"  # 'fgh'\ny = f'{x}' + b'ij'.decode() + ''\n"""
    written = """x = 'a b c'[::-1] + "d ' e"  # 'fgh'\ny = f'{x}' + b'ij'.decode() + ''\n"""
    assert encoded_source(source, "spaced") == written
    assert encoded_source(source, "plain") == source


def test_an_encoded_source_is_what_is_written_and_not_what_runs() -> None:
    task = {"kind": "composition", "family": "string_operations", "parallel": 8, "split_by": "inputs"}
    plain, encoded = (
        examples(
            DataConfig.model_validate({"task": task, "string_encoding": "spaced", "encode_source": flag}), "test", [3]
        )[0]
        for flag in (False, True)
    )
    assert encoded.program == encoded_source(plain.program, "spaced") != plain.program
    assert (encoded.answer, encoded.identity) == (plain.answer, plain.identity)
    assert [one.locals for one in encoded.frames] == [one.locals for one in plain.frames]
    assert [one.source for one in encoded.frames] == [encoded_source(one.source, "spaced") for one in plain.frames]
    assert encoded.program in spans_text([span for span in encoded.spans if span.role is Role.CONTEXT])
