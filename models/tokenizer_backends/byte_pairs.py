"""Byte-level BPE: trained on a run's data, or the Llama-3 vocabulary from a file."""

from __future__ import annotations

import base64
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import tiktoken
import tokenizers
from pydantic import Field

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import CWM_IDS, Special
from remedy.files import readable
from remedy.models.tokenizer_backends.base import (
    TOKENIZERS,
    Offsets,
    SubwordBackend,
    SubwordSettings,
    TokenizerError,
    training_examples,
)

log = logging.getLogger(__name__)
TRAINING_EXAMPLES = 1000
"""Number of training examples from which a vocabulary is trained."""
# Folder of `make llama3`, on no import path, since the package contains another package `models`.
INSTALLED = Path(sys.prefix, "llama3", "llama_models", "llama3", "tokenizer.model")
_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SIZE = 128256


@TOKENIZERS.register("bpe")
class BytePairSettings(SubwordSettings):
    """Byte-level BPE trained on the first examples of the run's training data."""

    needs_data: ClassVar[bool] = True

    kind: Literal["bpe"] = "bpe"
    """Byte-level BPE trained on the run's data."""
    vocab_size: int = Field(default=512, ge=300, le=1_000_000)
    """Entries of the vocabulary, special tokens included."""

    def build(self, data: DataConfig | None) -> BytePairs:
        if data is None:
            raise TokenizerError("tokenizer.kind bpe is trained on a run's data: use the tokenizer of a run")
        spans = (span for example in training_examples(data, TRAINING_EXAMPLES) for span in example.spans)
        trained = BytePairs.train((span.piece for span in spans if isinstance(span.piece, str)), self.vocab_size)
        if trained.size < self.vocab_size:
            log.warning(
                "tokenizer.vocab_size %d: the data gives a vocabulary of %d entries only", self.vocab_size, trained.size
            )
        return trained

    def restore(self, stored: Mapping[str, Any], folder: Path) -> BytePairs:
        return BytePairs(tokenizers.Tokenizer.from_str(stored["model"]))


class BytePairs(SubwordBackend):
    """Byte-level BPE, with special tokens as ids above the trained vocabulary."""

    def __init__(self, model: tokenizers.Tokenizer) -> None:
        self.model = model
        base = model.get_vocab_size()
        self.special_ids = {special: base + number for number, special in enumerate(Special)}
        self.size = base + len(Special)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> BytePairs:
        """Train on texts, deterministically."""
        model = tokenizers.Tokenizer(tokenizers.models.BPE())
        model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocab_size - len(Special),
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        model.train_from_iterator(texts, trainer)
        return cls(model)

    def text_ids(self, text: str) -> list[int]:
        ids: list[int] = self.model.encode(text, add_special_tokens=False).ids
        return ids

    def text_ids_and_offsets(self, text: str) -> tuple[list[int], Offsets]:
        encoding = self.model.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def text(self, ids: Sequence[int]) -> str:
        text: str = self.model.decode(list(ids), skip_special_tokens=False)
        return text

    def published(self) -> tokenizers.Tokenizer:
        model = tokenizers.Tokenizer.from_str(self.model.to_str())
        model.add_special_tokens([special.value for special in Special])  # these get the next ids, in order
        return model

    def stored(self) -> dict[str, Any]:
        return {"model": self.model.to_str()}


@TOKENIZERS.register("llama3")
class Llama3Settings(SubwordSettings):
    """The vocabulary of Llama 3, which `facebook/cwm` uses."""

    kind: Literal["llama3"] = "llama3"
    """The Llama-3 vocabulary with the trace tokens of `facebook/cwm`."""
    path: str | None = None
    """File of `token rank` lines; by default the one that `make llama3` fetches with the package `llama-models`."""

    def build(self, data: DataConfig | None = None) -> Llama3:
        return Llama3(Path(self.path) if self.path is not None else INSTALLED)


class Llama3(SubwordBackend):
    """The Llama-3 vocabulary from a file of `token rank` lines, with `facebook/cwm`'s trace tokens.

    Text is split by the pattern of Meta's `llama_models.llama3.tokenizer`.
    """

    size = _SIZE

    def __init__(self, path: Path) -> None:
        try:
            lines = readable(path).read_bytes().splitlines()
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
        # A token that begins inside a character gets that character's range.
        return ids, [(start, max(stop, start + 1)) for start, stop in zip(starts, [*starts[1:], len(text)])]

    def text(self, ids: Sequence[int]) -> str:
        return self.encoding.decode(list(ids))

    def stored(self) -> dict[str, Any]:
        return {"vocabulary": "llama3", "size": self.encoding.n_vocab}
