"""Spans to token ids with roles, and ids back to text, the same for every kind of tokenizer.

Special tokens are placed by id and text is never parsed for them, so a program whose source spells `<|frame_sep|>` cannot
forge one. `string_tokenization: characters` cuts the text of string values into one token per character inside a subword
vocabulary, the text unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.settings import ConfigError
from remedy.models.tokenizer_backends import TOKENIZERS, Backend, TokenizerError, TokenizerSettings

FILE = "trace_tokenizer.json"
"""Where a tokenizer is stored in a checkpoint's folder."""


class Encoded(NamedTuple):
    """Parallel lists over tokens."""

    ids: list[int]
    roles: list[int]
    frames: list[int]


class TraceTokenizer:
    """Spans to ids with roles, and ids back to text."""

    def __init__(self, settings: TokenizerSettings, backend: Backend, stored: dict[str, Any] | None = None) -> None:
        """`stored`: what it was read from, to be written again as it is."""
        self.settings = settings
        self.backend = backend
        self.vocab_size = backend.size
        self.special_ids = backend.special_ids
        self.stored = stored or {"config": settings.model_dump(), "backend": backend.stored()}
        self._special_of = {token: special for special, token in self.special_ids.items()}
        self._cuts_strings = settings.cuts_strings
        self._joins = backend.merges_text and not settings.cuts_strings
        self._cache: dict[tuple[str, bool], list[int]] = {}

    @property
    def pad_id(self) -> int:
        return self.special_ids[Special.PAD]

    @property
    def bos_id(self) -> int:
        return self.special_ids[Special.BEGIN_OF_TEXT]

    @property
    def eos_id(self) -> int:
        return self.special_ids[Special.END_OF_TEXT]

    @property
    def new_ids(self) -> list[int]:
        """Ids of trace tokens that a pretrained vocabulary did not have."""
        return list(self.backend.new_ids)

    def encode(self, spans: Iterable[Span]) -> Encoded:
        """Ids with the role and frame of each.

        Raises:
            TokenizerError: a piece of text has no ids (kind `symbols` only).
        """
        ids: list[int] = []
        roles: list[int] = []
        frames: list[int] = []
        cuts = self._cuts_strings
        for role, piece, frame, string in self._whole(spans):
            new = self._text_ids(piece, string and cuts) if isinstance(piece, str) else [self.special_ids[piece]]
            ids += new
            roles += [int(role)] * len(new)
            frames += [frame] * len(new)
        return Encoded(ids, roles, frames)

    def _whole(self, spans: Iterable[Span]) -> Iterable[Span]:
        """The spans as this tokenizer cuts text: at the borders of strings only if strings are to be cut into characters.

        A subword tokenizer would otherwise see text in other pieces than it was trained on.
        """
        return _joined(spans) if self._joins else spans

    def string_ids(self, text: str) -> list[int]:
        """Ids of the text of a string value, as this tokenizer cuts it."""
        return self._text_ids(text, self._cuts_strings)

    def count(self, spans: Iterable[Span]) -> int:
        """How many tokens the spans have."""
        return sum(self.count_by_role(spans))

    def count_by_role(self, spans: Iterable[Span]) -> list[int]:
        """How many tokens of each role the spans have, by the roles' numbers."""
        counts = [0] * len(Role)
        cuts = self._cuts_strings
        for role, piece, _, string in self._whole(spans):
            counts[role] += len(self._text_ids(piece, string and cuts)) if isinstance(piece, str) else 1
        return counts

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids; special tokens appear under their names."""
        return "".join(piece.value if isinstance(piece, Special) else piece for piece in self.pieces(ids))

    def pieces(self, ids: Iterable[int]) -> list[str | Special]:
        """The ids as runs of text and special tokens, which text that spells their names is not taken for."""
        found: list[str | Special] = []
        run: list[int] = []
        for token in ids:
            special = self._special_of.get(int(token))
            if special is None:
                run.append(int(token))
                continue
            if run:
                found.append(self.backend.text(run))
                run = []
            found.append(special)
        return [*found, self.backend.text(run)] if run else found

    def is_special(self, token: int) -> bool:
        return token in self._special_of

    @property
    def fingerprint(self) -> str:
        """Identifies the mapping from spans to ids; two tokenizers with equal fingerprints are interchangeable."""
        text = json.dumps(self.stored, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def save(self, directory: Path) -> None:
        """Write the tokenizer beside a checkpoint."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / FILE).write_text(json.dumps(self.stored, ensure_ascii=False), encoding="utf-8")
        self.backend.save(directory)

    def _text_ids(self, text: str, characters: bool) -> list[int]:
        key = (text, characters)
        found = self._cache.get(key)
        if found is None:
            if characters:
                found = [token for character in text for token in self.backend.text_ids(character)]
            else:
                found = self.backend.text_ids(text)
            if len(self._cache) < 100_000:
                self._cache[key] = found
        return found


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans with a string's text joined to what is around it in the same frame and role."""
    last: Span | None = None
    for span in spans:
        if last is not None:
            touches = (last.string or span.string) and last.role is span.role and last.frame == span.frame
            if touches and isinstance(last.piece, str) and isinstance(span.piece, str):
                last = Span(span.role, last.piece + span.piece, span.frame, True)
                continue
            yield last
        last = span
    if last is not None:
        yield last


def build_tokenizer(settings: TokenizerSettings, data: DataConfig | None = None) -> TraceTokenizer:
    """A new tokenizer: a function of its settings and the run's data, so every process builds the same. Kinds that do not need
    data can be built without.

    Raises:
        TokenizerError: the data has no vocabulary of this kind, or its files cannot be read.
    """
    return TraceTokenizer(settings, settings.build(data))


def load(directory: Path) -> TraceTokenizer:
    """The tokenizer stored beside a checkpoint.

    Raises:
        TokenizerError: there is none, or it is damaged.
    """
    path = directory / FILE
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        settings = _read_settings(stored["config"])
        backend = settings.restore(stored["backend"], directory)
        if backend.stored() != stored["backend"]:
            raise ValueError("its vocabulary is not the one that was stored")
    except FileNotFoundError:
        raise TokenizerError(f"{path}: no tokenizer is stored there") from None
    except (ValueError, KeyError, OSError, ConfigError) as error:
        raise TokenizerError(f"{path}: damaged tokenizer file: {error}") from None
    return TraceTokenizer(settings, backend, stored)


def _read_settings(stored: dict[str, Any]) -> TokenizerSettings:
    """Stored settings, also those of earlier versions, in which every kind had all keys and some had other names."""
    kind = TOKENIZERS[stored["kind"]]
    renamed = {kind.former.get(key, key): value for key, value in stored.items()}
    return kind.model_validate({key: value for key, value in renamed.items() if key in kind.model_fields})
