"""One token per symbol of a task that has a finite list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Special
from remedy.models.tokenizer_backends.base import TOKENIZERS, Backend, TokenizerError, TokenizerSettings


@TOKENIZERS.register("symbols")
class SymbolSettings(TokenizerSettings):
    """One token per symbol, for data in the symbolic format."""

    needs_data: ClassVar[bool] = True

    kind: Literal["symbols"] = "symbols"
    """One token per symbol of the task."""

    def build(self, data: DataConfig | None) -> Symbols:
        symbols = data.task.symbols() if data is not None and data.format == "symbolic" else None
        if symbols is None:
            raise TokenizerError(
                "tokenizer.kind symbols needs the symbolic format and a task with a finite list of symbols, as "
                "permutation has; use chars or bpe"
            )
        return Symbols([*Special, *symbols])

    def restore(self, stored: Mapping[str, Any], folder: Path) -> Symbols:
        return Symbols([Special(text) if special else text for text, special in stored["vocabulary"]])


class Symbols(Backend):
    """A fixed list of symbols, each one token."""

    def __init__(self, vocabulary: Sequence[str | Special]) -> None:
        self.vocabulary = list(vocabulary)
        self.size = len(self.vocabulary)
        self.ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        self.special_ids = {piece: number for piece, number in self.ids.items() if isinstance(piece, Special)}

    def text_ids(self, text: str) -> list[int]:
        if text not in self.ids:
            raise TokenizerError(
                f"tokenizer.kind symbols has no symbol {text!r}: it covers symbolic permutation data only; use chars or bpe"
            )
        return [self.ids[text]]

    def text(self, ids: Sequence[int]) -> str:
        return " ".join(str(self.vocabulary[i]) for i in ids)

    def stored(self) -> dict[str, Any]:
        return {"vocabulary": [[p.value, True] if isinstance(p, Special) else [p, False] for p in self.vocabulary]}
