"""Spans to token ids with roles, and ids back to text, the same for every kind of tokenizer.

Special tokens are placed by id and text is never parsed for them, so a program whose source spells `<|frame_sep|>` cannot
forge one. `string_tokenization: characters` cuts the text of string values into one token per character inside a subword
vocabulary, the text unchanged; `filled` makes subwords of it as long by tokens that stand for no text.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from remedy.checksums import MOST_BYTES, write_json
from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role, Span, Special, spans_text
from remedy.files import readable, replace_file, write_text
from remedy.messages import one_line, shown
from remedy.models.tokenizer_backends import (
    TOKENIZERS,
    Backend,
    Offsets,
    SubwordBackend,
    TokenizerError,
    TokenizerSettings,
    training_examples,
)

FILE = "trace_tokenizer.json"
"""Where a tokenizer is stored in a checkpoint's folder."""
TRIED = 100
"""Training examples whose text has to come back from its ids before anything else is done; of others it has to when they are read."""
CACHED = 100_000
"""How many pieces of text a tokenizer remembers the ids of."""
LONGEST_CACHED = 200
"""Characters of the longest piece that it remembers; longer ones, such as whole programs, seldom come again."""


class Encoded(NamedTuple):
    """Parallel lists over tokens."""

    ids: list[int]
    roles: list[int]
    frames: list[int]
    strings: list[bool]
    """Whether a token overlaps the text of a string value."""


Ranges = tuple[tuple[int, int], ...]
"""Stretches of a text that are a string value's: the first character of each, and the one after its last."""
Piece = tuple[Role, "str | Special", int, "bool | Ranges"]
"""A span, or several that were joined: role, text or special token, frame, and whether or where it is a string's text."""


class TraceTokenizer:
    """Spans to ids with roles, and ids back to text."""

    def __init__(self, settings: TokenizerSettings, backend: Backend, stored: dict[str, Any] | None = None) -> None:
        """`stored`: what it was read from, to be written again as it is."""
        self.settings = settings
        self.backend = backend
        self._strings = getattr(settings, "string_tokenization", "subword")
        self.filler_id = backend.size if self._strings == "filled" else None
        self.vocab_size = backend.size + (self.filler_id is not None)
        self.special_ids = backend.special_ids
        self.stored = stored or {"config": settings.model_dump(), "backend": backend.stored()}
        self._special_of = {token: special for special, token in self.special_ids.items()}
        self._subwords = backend if isinstance(backend, SubwordBackend) else None
        self._cache: dict[tuple[str, bool | Ranges], tuple[list[int], list[bool]]] = {}

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
        """Ids of trace tokens and fillers that a pretrained vocabulary did not have."""
        fillers = [] if self.filler_id is None or self.settings.needs_data else [self.filler_id]
        return [*self.backend.new_ids, *fillers]

    def encode(self, spans: Iterable[Span]) -> Encoded:
        """Ids with the role and frame of each, and whether it lies in a string.

        Raises:
            TokenizerError: a piece of text has no ids (kind `symbols` only), or the text does not come back from them (kind `hf` only).
        """
        ids: list[int] = []
        roles: list[int] = []
        frames: list[int] = []
        strings: list[bool] = []
        spans = list(spans)
        for role, piece, frame, string in self._whole(spans):
            new, flags = self._cut(piece, string) if isinstance(piece, str) else ([self.special_ids[piece]], [False])
            ids += new
            roles += [int(role)] * len(new)
            frames += [frame] * len(new)
            strings += flags
        if not self.backend.exact and self.pieces(ids) != _runs(spans):
            name = getattr(self.settings, "name_or_path", self.settings.kind)
            texts = [spans_text(spans), self.decode(ids)]
            at = len(os.path.commonprefix(texts))  # noqa: RUF071 (of characters)
            around, found = (shown(text[max(0, at - 20) : at + 20]) for text in texts)
            raise TokenizerError(
                f"tokenizer {name} does not give text back as it is: {around} comes back as {found}; a model that writes every "
                "token of a trace would be wrong: take one of bytes, as Llama-3's, Qwen's and GPT-2's are"
            )
        return Encoded(ids, roles, frames, strings)

    def _whole(self, spans: Iterable[Span]) -> Iterable[Piece]:
        """The spans as this tokenizer cuts text: at the borders of strings only if it does not merge over them.

        A subword tokenizer would otherwise see text in other pieces than it was trained on.
        """
        return _joined(spans) if self._subwords is not None and self._strings == "subword" else spans

    def _cut(self, text: str, string: bool | Ranges) -> tuple[list[int], list[bool]]:
        """Ids of a text that is or is not a string's, or has ranges that are; and whether each id overlaps one."""
        found = self._cache.get((text, string))
        if found is not None:
            return found
        if isinstance(string, tuple):
            assert self._subwords is not None
            ids, offsets = self._subwords.text_ids_and_offsets(text)
            found = ids, _overlapping(offsets, string)
        elif string and self.filler_id is not None:
            ids = self._filled(text, self.filler_id)
            found = ids, [True] * len(ids)
        else:
            parts = text if string and self._strings == "characters" else [text]
            ids = [token for part in parts for token in self.backend.text_ids(part)]
            found = ids, [string] * len(ids)
        if len(text) <= LONGEST_CACHED and len(self._cache) < CACHED:
            self._cache[text, string] = found
        return found

    def _filled(self, text: str, filler: int) -> list[int]:
        """Ids of a text's subwords, each followed by fillers for its characters after the first."""
        assert self._subwords is not None
        ids: list[int] = []
        end = 0
        for token, (_, stop) in zip(*self._subwords.text_ids_and_offsets(text)):
            ids += [token, *[filler] * (stop - end - 1)]
            end = max(end, stop)
        return ids

    def string_ids(self, text: str) -> list[int]:
        """Ids of the text of a string value, as this tokenizer cuts it."""
        return self._cut(text, self._strings != "subword")[0]

    def count(self, spans: Iterable[Span]) -> int:
        """Return how many tokens the spans have."""
        return sum(self.count_by_role(spans))

    def count_by_role(self, spans: Iterable[Span]) -> list[int]:
        """Return how many tokens of each role the spans have, by the roles' numbers."""
        counts = [0] * len(Role)
        if not self.backend.exact:
            for role in self.encode(spans).roles:
                counts[role] += 1
            return counts
        for role, piece, _, string in self._whole(spans):
            counts[role] += len(self._cut(piece, string)[0]) if isinstance(piece, str) else 1
        return counts

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids; special tokens appear under their names, fillers not at all."""
        return "".join(piece.value if isinstance(piece, Special) else piece for piece in self.pieces(ids))

    def pieces(self, ids: Iterable[int]) -> list[str | Special]:
        """The ids as runs of text and special tokens, which text that spells their names is not taken for.

        Raises:
            TokenizerError: there is no such id. A pretrained model's may lie beyond its tokenizer's.
        """
        read = list(map(int, ids))
        if self.backend.exact and read and not 0 <= min(read) <= max(read) < self.vocab_size:
            raise TokenizerError(
                f"ids from {min(read)} to {max(read)} are not all of a vocabulary of {self.vocab_size}"
            )
        read = [token for token in read if token != self.filler_id]
        found: list[str | Special] = []
        start = 0
        for at in [at for at, token in enumerate(read) if token in self._special_of]:
            if at > start:
                found.append(self.backend.text(read[start:at]))
            found.append(self._special_of[read[at]])
            start = at + 1
        return [*found, self.backend.text(read[start:])] if start < len(read) else found

    def is_special(self, token: int) -> bool:
        return token in self._special_of

    @property
    def fingerprint(self) -> str:
        """Identifies the mapping from spans to ids; two tokenizers with equal fingerprints are interchangeable."""
        text = json.dumps(self.stored, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def save(self, directory: Path) -> None:
        """Write the tokenizer beside a checkpoint."""
        write_text(directory / FILE, json.dumps(self.stored, ensure_ascii=False))
        self.backend.save(directory)

    def publish(self, directory: Path) -> None:
        """Write the vocabulary of a model that was trained from scratch as Transformers reads it (`AutoTokenizer`, `pipeline`), where
        the kind can be said so. There, and there alone, the names of special tokens are taken for these in text."""
        model = self.backend.published() if self.filler_id is None else None
        if model is None:
            return
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": Special.BEGIN_OF_TEXT.value,
            "eos_token": Special.END_OF_TEXT.value,
            "pad_token": Special.PAD.value,
            "padding_side": "left",
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
        }
        replace_file(directory / "tokenizer.json", lambda partial: model.save(str(partial)))
        write_json(directory / "tokenizer_config.json", settings)


def _joined(spans: Iterable[Span]) -> Iterator[Piece]:
    """The spans with a string's text joined to what is around it in the same frame and role, and where the strings are."""
    last: Span | None = None
    ranges: Ranges = ()
    for span in spans:
        role, piece, frame, string = span
        if last is not None:
            touches = (last.string or string) and last.role is role and last.frame == frame
            if touches and isinstance(last.piece, str) and isinstance(piece, str):
                if string:
                    ranges += ((len(last.piece), len(last.piece) + len(piece)),)
                last = Span(role, last.piece + piece, frame, True)
                continue
            yield last if not ranges else (last.role, last.piece, last.frame, ranges)
        last = span
        ranges = ((0, len(piece)),) if string and isinstance(piece, str) else ()
    if last is not None:
        yield last if not ranges else (last.role, last.piece, last.frame, ranges)


def _runs(spans: Iterable[Span]) -> list[str | Special]:
    """Special tokens, and the text between them."""
    found: list[str | Special] = []
    for _, group in groupby(
        (span.piece for span in spans), lambda piece: piece if isinstance(piece, Special) else None
    ):
        pieces = [*group]
        text = "".join(piece for piece in pieces if not isinstance(piece, Special))
        found += [text] if text else [piece for piece in pieces if isinstance(piece, Special)]
    return found


def _overlapping(offsets: Offsets, ranges: Ranges) -> list[bool]:
    """Say if each token, by its offsets, overlaps one of the ranges; both in order."""
    flags = [False] * len(offsets)
    if offsets:
        starts, stops = zip(*offsets)
        for begin, end in ranges:
            first, after = bisect_right(stops, begin), bisect_left(starts, end)
            flags[first:after] = [True] * (after - first)
    return flags


def build_tokenizer(settings: TokenizerSettings, data: DataConfig | None = None) -> TraceTokenizer:
    """A new tokenizer: a function of its settings and the run's data, so every process builds the same. Kinds that do not need
    data can be built without.

    Raises:
        TokenizerError: the data has no vocabulary of this kind, its files cannot be read, or it does not give the data's text back.
    """
    tokenizer = TraceTokenizer(settings, settings.build(data))
    if data is not None and not tokenizer.backend.exact:
        for example in training_examples(data, TRIED):
            tokenizer.encode(example.spans)
    return tokenizer


def load(directory: Path | str) -> TraceTokenizer:
    """The tokenizer stored in the folder of a checkpoint or a data set.

    Raises:
        TokenizerError: there is none, or it is damaged.
    """
    path = Path(directory) / FILE
    try:
        stored = json.loads(readable(path, MOST_BYTES).read_text(encoding="utf-8"))
        settings = TOKENIZERS[stored["config"]["kind"]].model_validate(stored["config"])
        backend = settings.restore(stored["backend"], path.parent)
        if backend.stored() != stored["backend"]:
            raise ValueError("its vocabulary is not the one that was stored")
    except FileNotFoundError:
        raise TokenizerError(f"{path}: no tokenizer is stored there") from None
    except Exception as error:  # whatever a damaged vocabulary does to the libraries that read it
        raise TokenizerError(f"{path}: damaged tokenizer file: {one_line(str(error))}") from None
    return TraceTokenizer(settings, backend, stored)
