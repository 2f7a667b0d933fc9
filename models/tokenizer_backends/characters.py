"""One token per character, or per symbol of a task with finitely many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import tokenizers

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Special
from remedy.models.tokenizer_backends.base import TOKENIZERS, Backend, TokenizerError, TokenizerSettings


@TOKENIZERS.register("chars")
class CharacterSettings(TokenizerSettings):
    """One token per character of a fixed alphabet; bytes for all others."""

    kind: Literal["chars"] = "chars"
    """One token per character."""

    def build(self, data: DataConfig | None = None) -> Characters:
        return Characters()


class Characters(Backend):
    """Printable ASCII and Latin-1, newline and tab; other characters as UTF-8 bytes."""

    alphabet = "\n\t" + "".join(chr(c) for c in [*range(32, 127), *range(161, 256)])

    def __init__(self) -> None:
        self.special_ids = {special: number for number, special in enumerate(Special)}
        first = len(Special)
        self.byte0 = first + len(self.alphabet)
        self.size = self.byte0 + 256
        self.ids = {character: first + number for number, character in enumerate(self.alphabet)}

    def text_ids(self, text: str) -> list[int]:
        ids: list[int] = []
        for character in text:
            token = self.ids.get(character)
            if token is None:
                ids += [self.byte0 + byte for byte in character.encode("utf-8", "surrogatepass")]
            else:
                ids.append(token)
        return ids

    def text(self, ids: Sequence[int]) -> str:
        out = bytearray()
        for token in ids:
            if token >= self.byte0:
                out.append(token - self.byte0)
            else:
                out += self.alphabet[token - len(Special)].encode()
        return out.decode("utf-8", "replace")

    def published(self) -> tokenizers.Tokenizer:
        special = {token.value: number for token, number in self.special_ids.items()}
        raw = {f"<0x{byte:02X}>": self.byte0 + byte for byte in range(256)}  # names that BPE's byte fallback expects
        model = tokenizers.Tokenizer(tokenizers.models.BPE({**special, **self.ids, **raw}, [], byte_fallback=True))
        model.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()])
        model.add_special_tokens(list(special))
        return model

    def stored(self) -> dict[str, Any]:
        return {"alphabet": self.alphabet}


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
