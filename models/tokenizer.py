"""Spans to token ids with roles, and back to text.

Special tokens are placed by id: text that spells `<|frame_sep|>` cannot forge one.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
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
"""File of a tokenizer in a checkpoint's folder."""
CHECKED = 100  # training examples checked at build for text that does not come back; others are checked when read
CACHED = 100_000  # pieces of text whose ids are cached
LONGEST_CACHED = 200  # characters; longer pieces, such as whole programs, seldom recur


class Encoded(NamedTuple):
    """Ids, roles, frames and string flags of tokens, in parallel lists."""

    ids: list[int]
    roles: list[int]
    frames: list[int]
    strings: list[bool]
    """Whether a token overlaps the text of a string value."""


Ranges = tuple[tuple[int, int], ...]
"""Parts of a text that belong to string values: first character, and the one after the last."""
Piece = tuple[Role, "str | Special", int, "bool | Ranges"]
"""A span, or joined spans: role, text or special token, frame, and whether or where it is a string's text."""


class TraceTokenizer:
    """Mapping of spans to ids with roles, and of ids to text."""

    def __init__(self, settings: TokenizerSettings, backend: Backend, stored: dict[str, Any] | None = None) -> None:
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
        """Return the ids of trace tokens and fillers that a pretrained vocabulary lacked."""
        fillers = [] if self.filler_id is None or self.settings.needs_data else [self.filler_id]
        return [*self.backend.new_ids, *fillers]

    def encode(self, spans: Iterable[Span]) -> Encoded:
        """Return the ids of spans, with their roles, frames and string flags.

        Raises:
            TokenizerError: a text has no ids (kind `symbols`), or does not come back from them (kind `hf`).
        """
        ids: list[int] = []
        roles: list[int] = []
        frames: list[int] = []
        strings: list[bool] = []
        spans = list(spans)
        for role, piece, frame, string in self._mergeable(spans):
            new, flags = self._cut(piece, string)
            ids += new
            roles += [int(role)] * len(new)
            frames += [frame] * len(new)
            strings += flags
        if not self.backend.exact and self.pieces(ids) != _runs(spans):
            name = getattr(self.settings, "name_or_path", self.settings.kind)
            texts = [spans_text(spans), self.decode(ids)]
            position = len(os.path.commonprefix(texts))  # noqa: RUF071 (of characters)
            original, decoded = (shown(text[max(0, position - 20) : position + 20]) for text in texts)
            raise TokenizerError(
                f"tokenizer {name} does not give text back as it is: {original} comes back as {decoded}; a model that writes every "
                "token of a trace would be wrong: take one of bytes, as Llama-3's, Qwen's and GPT-2's are"
            )
        return Encoded(ids, roles, frames, strings)

    def _mergeable(self, spans: Iterable[Span]) -> Iterable[Piece]:
        """Join spans at strings for a subword tokenizer, as it was trained."""
        return _joined(spans) if self._subwords is not None and self._strings == "subword" else spans

    def _cut(self, text: str | Special, string: bool | Ranges) -> tuple[list[int], list[bool]]:
        """Return a piece's ids and string flags. `string`: whether, or where, it is one."""
        if isinstance(text, Special):
            return [self.special_ids[text]], [False]
        encoded = self._cache.get((text, string))
        if encoded is not None:
            return encoded
        if string and isinstance(string, tuple):
            assert self._subwords is not None
            ids, offsets = self._subwords.text_ids_and_offsets(text)
            encoded = ids, _overlapping(offsets, string)
        elif string and self.filler_id is not None:
            ids = self._filled(text, self.filler_id)
            encoded = ids, [True] * len(ids)
        else:
            parts = text if string and self._strings == "characters" else [text]
            ids = [token for part in parts for token in self.backend.text_ids(part)]
            encoded = ids, [bool(string)] * len(ids)
        if len(text) <= LONGEST_CACHED and len(self._cache) < CACHED:
            self._cache[text, string] = encoded
        return encoded

    def _filled(self, text: str, filler: int) -> list[int]:
        assert self._subwords is not None
        ids: list[int] = []
        end = 0
        for token, (_, stop) in zip(*self._subwords.text_ids_and_offsets(text)):
            ids += [token, *[filler] * (stop - end - 1)]
            end = max(end, stop)
        return ids

    def string_ids(self, text: str) -> list[int]:
        return self._cut(text, self._strings != "subword")[0]

    def count(self, spans: Iterable[Span]) -> int:
        return sum(self.count_by_role(spans))

    def count_by_role(self, spans: Iterable[Span]) -> list[int]:
        """Count the tokens of spans by role number."""
        counts = [0] * len(Role)
        if not self.backend.exact:
            for role in self.encode(spans).roles:
                counts[role] += 1
            return counts
        for role, piece, _, string in self._mergeable(spans):
            counts[role] += len(self._cut(piece, string)[0])
        return counts

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, with names of special tokens, without fillers."""
        return "".join(piece.value if isinstance(piece, Special) else piece for piece in self.pieces(ids))

    def pieces(self, ids: Iterable[int]) -> list[str | Special]:
        """Return ids as runs of text and special tokens.

        Raises:
            TokenizerError: an id is not in the vocabulary; a pretrained model may have more ids than its tokenizer.
        """
        tokens = list(map(int, ids))
        if self.backend.exact and tokens and not 0 <= min(tokens) <= max(tokens) < self.vocab_size:
            raise TokenizerError(
                f"ids from {min(tokens)} to {max(tokens)} are not all of a vocabulary of {self.vocab_size}"
            )
        tokens = [token for token in tokens if token != self.filler_id]
        pieces: list[str | Special] = []
        start = 0
        for position in [position for position, token in enumerate(tokens) if token in self._special_of]:
            if position > start:
                pieces.append(self.backend.text(tokens[start:position]))
            pieces.append(self._special_of[tokens[position]])
            start = position + 1
        return [*pieces, self.backend.text(tokens[start:])] if start < len(tokens) else pieces

    def is_special(self, token: int) -> bool:
        return token in self._special_of

    @property
    def fingerprint(self) -> str:
        """Return a hash of the mapping from spans to ids."""
        text = json.dumps(self.stored, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def save(self, directory: Path) -> None:
        write_text(directory / FILE, json.dumps(self.stored, ensure_ascii=False))
        self.backend.save(directory)

    def publish(self, directory: Path) -> None:
        """Write a new vocabulary for Transformers if possible; there, text can spell special tokens."""
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


def _joined(spans: Iterable[Span]) -> Iterable[Piece]:
    """Join a string's text to its neighbours in frame and role, with its range."""
    pieces: list[tuple[Role, str | Special, int, Ranges]] = []
    for role, piece, frame, string in spans:
        ranges: Ranges = ((0, len(piece)),) if string and isinstance(piece, str) else ()
        if pieces and isinstance(piece, str):
            last_role, last_piece, last_frame, last_ranges = pieces[-1]
            touches = (last_ranges or ranges) and last_role is role and last_frame == frame
            if touches and isinstance(last_piece, str):
                start = len(last_piece)
                ranges = tuple((first + start, after + start) for first, after in ranges)
                pieces[-1] = role, last_piece + piece, frame, last_ranges + ranges
                continue
        pieces.append((role, piece, frame, ranges))
    return pieces


def _runs(spans: Iterable[Span]) -> list[str | Special]:
    runs: list[str | Special] = []
    for span in spans:
        if runs and isinstance(runs[-1], str) and isinstance(span.piece, str):
            runs[-1] += span.piece
        elif span.piece:
            runs.append(span.piece)
    return runs


def _overlapping(offsets: Offsets, ranges: Ranges) -> list[bool]:
    """Say for each token if it overlaps a range; both are in order."""
    flags = [False] * len(offsets)
    if offsets:
        starts, stops = zip(*offsets)
        for begin, end in ranges:
            first, after = bisect_right(stops, begin), bisect_left(starts, end)
            flags[first:after] = [True] * (after - first)
    return flags


def build_tokenizer(settings: TokenizerSettings, data: DataConfig | None = None) -> TraceTokenizer:
    """Build a tokenizer from settings and the run's data, the same in every process.

    Raises:
        TokenizerError: the data has no such vocabulary, files cannot be read, or text does not come back.
    """
    tokenizer = TraceTokenizer(settings, settings.build(data))
    if data is not None and not tokenizer.backend.exact:
        for example in training_examples(data, CHECKED):
            tokenizer.encode(example.spans)
    return tokenizer


def load(directory: Path | str) -> TraceTokenizer:
    """Load the tokenizer from the folder of a checkpoint or data set.

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
        raise TokenizerError(f"{path}: is missing; is this the folder of a finished run or a data set?") from None
    except Exception as error:  # a damaged vocabulary can raise anything in the libraries that read it
        raise TokenizerError(f"{path}: damaged tokenizer file: {one_line(str(error))}") from None
    return TraceTokenizer(settings, backend, stored)
