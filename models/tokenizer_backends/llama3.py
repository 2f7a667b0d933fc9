"""The Llama-3 vocabulary, from a file."""

from __future__ import annotations

import base64
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tiktoken

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import CWM_IDS
from remedy.models.tokenizer_backends.base import TOKENIZERS, Offsets, SubwordBackend, SubwordSettings, TokenizerError

FOLDER = Path(sys.prefix) / "llama3"
"""Where `make llama3` puts the package that holds the vocabulary: on no import path, since it brings a package `models`."""
_FILE = Path("llama_models", "llama3", "tokenizer.model")
_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SIZE = 128256


@TOKENIZERS.register("llama3")
class Llama3Settings(SubwordSettings):
    """The vocabulary of Llama 3, which `facebook/cwm` uses."""

    kind: Literal["llama3"] = "llama3"
    """The Llama-3 vocabulary with the trace tokens of `facebook/cwm`."""
    path: str | None = None
    """File of `token rank` lines; by default the one that `make llama3` fetches with the package `llama-models`."""

    def build(self, data: DataConfig | None = None) -> Llama3:
        return Llama3(Path(self.path) if self.path is not None else _installed_file())

    def restore(self, stored: Mapping[str, Any], folder: Path) -> Llama3:
        return self.build()


class Llama3(SubwordBackend):
    """The Llama-3 vocabulary, which `facebook/cwm` uses with trace tokens of its own, from a file of `token rank` lines.

    The pattern that splits text is the one of Meta's own `llama_models.llama3.tokenizer`.
    """

    size = _SIZE

    def __init__(self, path: Path) -> None:
        try:
            lines = path.read_bytes().splitlines()
            ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
        except (OSError, ValueError) as error:
            raise TokenizerError(
                f"tokenizer llama3: {path} cannot be read ({error}); `make llama3` fetches it, or give the file of a copy as "
                "tokenizer.path"
            ) from None
        self.special_ids = dict(CWM_IDS)
        self.encoding = tiktoken.Encoding("llama3", pat_str=_SPLIT, mergeable_ranks=ranks, special_tokens={})

    def text_ids(self, text: str) -> list[int]:
        return self.encoding.encode_ordinary(text)

    def text_ids_and_offsets(self, text: str) -> tuple[list[int], Offsets]:
        ids = self.text_ids(text)
        _, starts = self.encoding.decode_with_offsets(ids)
        # A token that begins inside a character has that character's offset, and stands for it too.
        return ids, [(start, max(stop, start + 1)) for start, stop in zip(starts, [*starts[1:], len(text)])]

    def text(self, ids: Sequence[int]) -> str:
        return self.encoding.decode(list(ids))

    def stored(self) -> dict[str, Any]:
        return {"vocabulary": "llama3", "size": self.encoding.n_vocab}


def _installed_file() -> Path:
    """The vocabulary's file, in the folder of `make llama3` or else in the installed package."""
    if (FOLDER / _FILE).exists():
        return FOLDER / _FILE
    found = importlib.util.find_spec("llama_models")
    places = list(found.submodule_search_locations or []) if found is not None else []
    return Path(places[0]).parent / _FILE if places else FOLDER / _FILE
