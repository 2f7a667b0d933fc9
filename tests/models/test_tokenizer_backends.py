"""Kinds of tokenizer: the settings of each, how they are stored, and a kind that is added from outside."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from remedy.models import tokenizer as tokenizers
from remedy.models.tokenizer import TokenizerError, build_tokenizer
from remedy.models.tokenizer_backends import (
    TOKENIZERS,
    BytePairSettings,
    CharacterSettings,
    SymbolSettings,
)
from remedy.settings import ConfigError, build
from remedy.train.config import RunConfig
from tests.models.end_to_end import trained_and_evaluated

ROOT = Path(__file__).resolve().parents[2]
DATA = {"task": {"kind": "composition", "depth": [1, 2]}}


@pytest.fixture
def bytes_kind() -> Iterator[None]:
    runpy.run_path(str(ROOT / "examples" / "plugins" / "raw_bytes.py"))
    yield
    del TOKENIZERS["raw_bytes"]


@pytest.mark.usefixtures("bytes_kind")
def test_a_kind_registered_outside_generates_trains_and_evaluates(tmp_path: Path) -> None:
    records = trained_and_evaluated(tmp_path, tokenizer={"kind": "raw_bytes"})
    assert len(records) == 2
    assert json.loads((tmp_path / "run" / tokenizers.FILE).read_text())["config"] == {"kind": "raw_bytes"}
    with pytest.raises(ConfigError, match="did you mean 'raw_bytes'"):
        build(RunConfig, {"data": DATA, "tokenizer": {"kind": "raw_byte"}}, "x")


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
