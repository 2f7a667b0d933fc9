"""String encodings can be undone, and mark the strings inside values and source."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remedy.data_gen.examples import DataConfig, examples
from remedy.data_gen.execution.describe import describe
from remedy.data_gen.execution.program import Value
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import ConfigError, build
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.traces.string_encodings import ENCODINGS, Encoding, decode_value, pieces, source_pieces
from remedy.launch.trace import trace as trace_file
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends.characters import CharacterSettings

REVERSE = Path(__file__).resolve().parents[3] / "examples" / "reverse.py"

anything = st.text(alphabet=st.characters(), max_size=30)  # surrogates included


@pytest.mark.parametrize("name", ENCODINGS)
@given(anything)
@example("")
@example(" ")
@example("0:1 1:2")
@example("'\"\\\n")
def test_decode_inverts_encode(name: str, text: str) -> None:
    encoding = ENCODINGS[name]
    assert encoding.decode(encoding.encode(text)) == text


@pytest.mark.parametrize("name", ENCODINGS)
@given(anything)
def test_a_string_value_in_a_trace_can_be_read_back(name: str, text: str) -> None:
    written = "".join(piece.text for piece in pieces(describe(text), name))
    assert decode_value(json.loads(f'"{written}"'), name) == repr(text)


@given(
    st.recursive(
        anything | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(anything, inner), max_leaves=8
    )
)
def test_plain_pieces_join_to_the_json_of_the_repr(value: object) -> None:
    described = describe(value)
    assert "".join(piece.text for piece in pieces(described, "plain")) == json.dumps(described.text)[1:-1]


def test_strings_inside_containers_are_encoded_and_marked() -> None:
    found = pieces(describe({"key": ["ab", 1]}), "spaced")
    assert [piece.text for piece in found if piece.string] == ["'k e y'", "'a b'"]
    assert "".join(piece.text for piece in found) == "{'k e y': ['a b', 1]}"


def test_quotes_in_other_reprs_are_left_alone() -> None:
    assert [p.string for p in pieces(Value("[Point('x y')]", "list"), "spaced")] == [False]
    assert [p.string for p in pieces(Value("[b'ab']", "list"), "spaced")] == [False]


def test_model_output_that_is_no_literal_comes_back_unchanged() -> None:
    for text in ("'unclosed", "__import__('os')", "[1, 2]", "", "(" * 500):
        assert decode_value(text, "list") == text


def test_source_literals_are_marked_but_not_docstrings_or_comments() -> None:
    source = '"""It\'s a docstring."""\nx = \'a b\' + "c"  # don\'t\n'
    assert [p.text for p in source_pieces(source) if p.string] == ["'a b'", '"c"']
    assert "".join(p.text for p in source_pieces(source)) == source


def hexadecimal(text: str | list[str]) -> str:
    assert isinstance(text, str)
    return bytes.fromhex(text).decode("utf-8", "surrogatepass")


@pytest.fixture
def hex_encoding() -> Iterator[str]:
    ENCODINGS.register("hex")(Encoding(lambda s: s.encode("utf-8", "surrogatepass").hex(), hexadecimal))
    yield "hex"
    del ENCODINGS["hex"]


def test_an_encoding_from_outside_is_generated_traced_tokenized_and_undone(hex_encoding: str) -> None:
    task = {"kind": "composition", "depth": 1, "functions": ["mirror_str"]}
    data = build(DataConfig, {"task": task, "string_encoding": hex_encoding}, "test")
    example = examples(data, "train", [0])[0]
    tokens = build_tokenizer(CharacterSettings(), data).encode(example.spans)
    assert len(tokens.ids) > len(example.answer)
    read = FORMATS["cwm"].read(span.piece for span in example.spans if span.role is not Role.CONTEXT)
    assert decode_value(read.frames[-1].value or "", hex_encoding) == example.answer
    assert "\"'636261'\"" in trace_file(REVERSE, [f"string_encoding={hex_encoding}"])
    assert decode_value("'no hex'", hex_encoding) == "'no hex'"
    with pytest.raises(ConfigError, match="unknown string encoding 'hexx'; did you mean 'hex'"):
        build(DataConfig, {"task": task, "string_encoding": "hexx"}, "test")
