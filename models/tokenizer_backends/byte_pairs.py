"""Byte-level BPE, trained on a run's own data."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import tokenizers
from pydantic import Field

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Special
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
"""How many training examples a vocabulary is learnt from."""


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
        trained = BytePairs.train(_training_texts(data), self.vocab_size)
        if trained.size < self.vocab_size:
            log.warning(
                "tokenizer.vocab_size %d: the data gives a vocabulary of %d entries only", self.vocab_size, trained.size
            )
        return trained

    def restore(self, stored: Mapping[str, Any], folder: Path) -> BytePairs:
        return BytePairs(tokenizers.Tokenizer.from_str(stored["model"]))


def _training_texts(data: DataConfig) -> Iterator[str]:
    for example in training_examples(data, TRAINING_EXAMPLES):
        for span in example.spans:
            if isinstance(span.piece, str):
                yield span.piece


class BytePairs(SubwordBackend):
    """Byte-level BPE; special tokens live above the trained vocabulary, outside the text model."""

    def __init__(self, model: tokenizers.Tokenizer) -> None:
        self.model = model
        base = model.get_vocab_size()
        self.special_ids = {special: base + number for number, special in enumerate(Special)}
        self.size = base + len(Special)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> BytePairs:
        """Train on texts; deterministic."""
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
        found = self.model.encode(text, add_special_tokens=False)
        return found.ids, found.offsets

    def text(self, ids: Sequence[int]) -> str:
        text: str = self.model.decode(list(ids), skip_special_tokens=False)
        return text

    def published(self) -> tokenizers.Tokenizer:
        model = tokenizers.Tokenizer.from_str(self.model.to_str())
        model.add_special_tokens([special.value for special in Special])  # these get the next ids, in order
        return model

    def stored(self) -> dict[str, Any]:
        return {"model": self.model.to_str()}
