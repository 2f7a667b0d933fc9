"""Tokenizers behind one interface that turns spans into (ids, roles, frames).

Special tokens are placed by id and text is never parsed for them, so a program whose source spells `<|frame_sep|>` cannot
forge one. `string_tokenization: characters` cuts the text of string values into one token per character inside a subword
vocabulary, the text unchanged. To add a kind, write a backend in `backends` and register it in `build` and `load`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import tokenizers
from pydantic import Field, model_validator

from remedy.data_gen.examples import DataConfig, example_count, examples
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.settings import Settings
from remedy.data_gen.tasks import permutation_arrays as symbolic
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.models.tokenizer_backends import (
    Backend,
    BytePairs,
    Characters,
    HuggingFace,
    Llama3,
    Symbols,
    TokenizerError,
)

FILE = "trace_tokenizer.json"
BPE_EXAMPLES = 1000
"""How many training examples a BPE vocabulary is learnt from."""


class TokenizerConfig(Settings):
    """`symbols`: one token per symbol of a permutation task. `chars`: one per character. `bpe`: byte-level BPE trained on
    the generated data, with `vocab_size` entries. `hf`: any Hugging Face tokenizer by `name_or_path`. `llama3`: the Llama-3
    vocabulary that `facebook/cwm` uses, from the package `llama-models` (`make llama3`) or the file `name_or_path`."""

    former: ClassVar = {"string_tokens": "string_tokenization", "name": "name_or_path"}

    kind: Literal["symbols", "chars", "bpe", "hf", "llama3"] = "chars"
    vocab_size: int = Field(default=512, ge=300)
    name_or_path: str | None = None
    string_tokenization: Literal["subword", "characters"] = "subword"

    @model_validator(mode="after")
    def _named(self) -> TokenizerConfig:
        if self.kind != "llama3" and (self.kind == "hf") != (self.name_or_path is not None):
            raise ValueError("`name_or_path` is needed for kind hf, and may be given for llama3 only")
        return self


class Encoded(NamedTuple):
    """Parallel lists over tokens."""

    ids: list[int]
    roles: list[int]
    frames: list[int]


class TraceTokenizer:
    """Spans to ids with roles, and ids back to text."""

    def __init__(self, config: TokenizerConfig, backend: Backend) -> None:
        self.config = config
        self.backend = backend
        self.vocab_size = backend.size
        self.special_ids = backend.special_ids
        self._special_of = {token: special for special, token in self.special_ids.items()}
        self._cuts_strings = config.string_tokenization == "characters"
        self._merges = config.kind not in ("symbols", "chars")
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
        return self.backend.new_ids if isinstance(self.backend, HuggingFace) else []

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
        return spans if self._cuts_strings or not self._merges else _joined(spans)

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
        text = json.dumps(self._stored(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def save(self, directory: Path) -> None:
        """Write the tokenizer beside a checkpoint."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / FILE).write_text(json.dumps(self._stored(), ensure_ascii=False), encoding="utf-8")
        if isinstance(self.backend, HuggingFace):
            self.backend.tokenizer.save_pretrained(directory)

    def _stored(self) -> dict[str, Any]:
        return {"config": self.config.model_dump(), "backend": self.backend.stored()}

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


def build(config: TokenizerConfig, vocabulary: Sequence[str | Special], texts: Iterable[str]) -> TraceTokenizer:
    """A new tokenizer. `vocabulary`: the task's symbols, empty where it has no finite list; `texts`: training text of
    kind `bpe`, read only then.

    Raises:
        TokenizerError: `symbols` for a task without a finite list, or an `hf` tokenizer that cannot be loaded.
    """
    backend: Backend
    if config.kind == "symbols":
        if not vocabulary:
            raise TokenizerError("tokenizer.kind symbols needs a permutation task in symbolic format; use chars or bpe")
        backend = Symbols(vocabulary)
    elif config.kind == "chars":
        backend = Characters()
    elif config.kind == "bpe":
        backend = BytePairs.train(texts, config.vocab_size)
    elif config.kind == "llama3":
        backend = Llama3(config.name_or_path)
    else:
        assert config.name_or_path is not None
        backend = HuggingFace(config.name_or_path)
    return TraceTokenizer(config, backend)


def build_tokenizer(config: TokenizerConfig, data: DataConfig) -> TraceTokenizer:
    """The tokenizer of a data configuration: a function of the two, so every process builds the same.

    Raises:
        TokenizerError: as `build`.
    """
    vocabulary: list[str | Special] = []
    if isinstance(data.task, PermutationTask) and data.format == "symbolic":
        vocabulary = symbolic.vocabulary(data.task)
    unlimited = data.model_copy(update={"reveal": data.reveal.model_copy(update={"max_tokens": None})})
    count = BPE_EXAMPLES
    if config.kind == "bpe":
        count = min(count, example_count(data, "train") or count)
    texts = (
        span.piece
        for example in (examples(unlimited, "train", range(count)) if config.kind == "bpe" else [])
        for span in example.spans
        if isinstance(span.piece, str)
    )
    return build(config, vocabulary, texts)


def load(directory: Path) -> TraceTokenizer:
    """The tokenizer stored beside a checkpoint.

    Raises:
        TokenizerError: there is none, or it is damaged.
    """
    path = directory / FILE
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        config = TokenizerConfig.model_validate(stored["config"])
        kept = stored["backend"]
        backend: Backend
        if config.kind == "symbols":
            backend = Symbols([Special(text) if special else text for text, special in kept["vocabulary"]])
        elif config.kind == "chars":
            backend = Characters()
        elif config.kind == "llama3":
            backend = Llama3(config.name_or_path)
        elif config.kind == "bpe":
            backend = BytePairs(tokenizers.Tokenizer.from_str(kept["model"]))
        else:
            backend = HuggingFace(str(directory))
    except FileNotFoundError:
        raise TokenizerError(f"{path}: no tokenizer is stored there") from None
    except (ValueError, KeyError, OSError) as error:
        raise TokenizerError(f"{path}: damaged tokenizer file: {error}") from None
    return TraceTokenizer(config, backend)
