"""Kinds of tokenizer: the settings of each, how they are stored, and a kind that is added from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Special
from remedy.models import tokenizer as tokenizers
from remedy.models.tokenizer import TokenizerError, build_tokenizer
from remedy.models.tokenizer_backends import (
    TOKENIZERS,
    Backend,
    BytePairSettings,
    CharacterSettings,
    SymbolSettings,
    TokenizerSettings,
)
from remedy.settings import ConfigError, build
from remedy.train.config import RunConfig
from tests.models.end_to_end import trained_and_evaluated

DATA = {"task": {"kind": "composition", "depth": [1, 2]}}


class Bytes(Backend):
    """One token per byte of UTF-8."""

    size = 256 + len(Special)

    def __init__(self) -> None:
        self.special_ids = {special: 256 + number for number, special in enumerate(Special)}

    def text_ids(self, text: str) -> list[int]:
        return list(text.encode())

    def text(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def stored(self) -> dict[str, Any]:
        return {}


class ByteSettings(TokenizerSettings):
    kind: Literal["bytes"] = "bytes"

    def build(self, data: DataConfig | None) -> Bytes:
        return Bytes()

    def restore(self, stored: Mapping[str, Any], folder: Path) -> Bytes:
        return Bytes()


@pytest.fixture
def bytes_kind() -> Iterator[None]:
    TOKENIZERS.register("bytes")(ByteSettings)
    yield
    del TOKENIZERS["bytes"]


@pytest.mark.usefixtures("bytes_kind")
def test_a_kind_registered_outside_generates_trains_and_evaluates(tmp_path: Path) -> None:
    records = trained_and_evaluated(tmp_path, tokenizer={"kind": "bytes"})
    assert len(records) == 2
    assert json.loads((tmp_path / "run" / tokenizers.FILE).read_text())["config"] == {"kind": "bytes"}
    with pytest.raises(ConfigError, match="did you mean 'bytes'"):
        build(RunConfig, {"data": DATA, "tokenizer": {"kind": "byte"}}, "x")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"kind": "chars", "vocab_size": 400}, "unknown key 'tokenizer.vocab_size'"),
        ({"kind": "hf"}, "missing key 'tokenizer.name_or_path'"),
    ],
)
def test_a_key_of_another_kind_is_an_unknown_key(section: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as failed:
        build(RunConfig, {"data": DATA, "tokenizer": section}, "x")
    assert says in str(failed.value)


def test_kinds_that_need_data_say_so_without() -> None:
    assert [k for k, kind in TOKENIZERS.items() if kind.needs_data] == ["bpe", "symbols"]
    for settings in (BytePairSettings(), SymbolSettings()):
        with pytest.raises(TokenizerError, match=f"kind {settings.kind}"):
            build_tokenizer(settings)


def test_a_vocabulary_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    build_tokenizer(CharacterSettings()).save(tmp_path)
    path = tmp_path / tokenizers.FILE
    path.write_text(path.read_text().replace("abc", "acb"))
    with pytest.raises(TokenizerError, match="not the one that was stored"):
        tokenizers.load(tmp_path)
