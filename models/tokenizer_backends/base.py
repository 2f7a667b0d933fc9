"""Interface of tokenizers: a backend, and the settings that build and restore it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tokenizers
from pydantic import SerializeAsAny

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.roles import Special
from remedy.registry import Registry, by_kind
from remedy.settings import Settings, UserError

Offsets = Sequence[tuple[int, int]]
"""Range of characters of each token: the first, and the one after the last."""


class TokenizerError(UserError):
    """Error of text that a tokenizer cannot encode, or of an unusable tokenizer."""


class Backend(ABC):
    """Mapping between text and ids, without roles; text never encodes to special tokens."""

    merges_text: ClassVar[bool] = False
    """Whether a text's ids depend on how it is cut into pieces, as with subwords."""
    exact: ClassVar[bool] = True
    """Whether decoding restores every text; otherwise every text is checked."""
    size: int
    """Number of ids, special tokens included."""
    special_ids: dict[Special, int]
    new_ids: Sequence[int] = ()
    """Ids of trace tokens that a pretrained vocabulary did not have."""

    @abstractmethod
    def text_ids(self, text: str) -> list[int]:
        """Return the ids of a text, none of them special tokens.

        Raises:
            TokenizerError: the text has no ids.
        """

    @abstractmethod
    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ids without special tokens."""

    @abstractmethod
    def stored(self) -> dict[str, Any]:
        """Return JSON that identifies this vocabulary, for `TokenizerSettings.restore`."""

    def save(self, folder: Path) -> None:  # noqa: B027 (most kinds have nothing to add)
        """Write files beside a checkpoint; none by default."""

    def published(self) -> tokenizers.Tokenizer | None:
        """Return the vocabulary for Hugging Face's library, where text can spell special tokens, or None."""
        return None


class SubwordBackend(Backend):
    """Backend whose tokens may span several characters."""

    merges_text = True

    @abstractmethod
    def text_ids_and_offsets(self, text: str) -> tuple[list[int], Offsets]:
        """Return the ids of a text, and each one's range of characters."""


class TokenizerSettings(Settings, ABC):
    """Settings of one kind of tokenizer."""

    needs_data: ClassVar[bool] = False
    """Whether the vocabulary is made from a run's data."""

    kind: str
    """Kind of tokenizer."""

    @abstractmethod
    def build(self, data: DataConfig | None) -> Backend:
        """Build a new backend; `data` is the run's, if any.

        Raises:
            TokenizerError: the data has no such vocabulary, or files cannot be read.
        """

    def restore(self, stored: Mapping[str, Any], folder: Path) -> Backend:
        """Rebuild the backend that gave `stored` when it was saved to `folder`.

        By default, build it without data.

        Raises:
            TokenizerError: files that it needs cannot be read.
            ValueError, KeyError: `stored` is damaged.
        """
        return self.build(None)

    def describe(self) -> str:
        """Describe the tokenizer for reports."""
        return self.kind


def training_examples(data: DataConfig, most: int) -> list[Example]:
    """Return the first `most` training examples, or all if fewer, without a token budget."""
    unlimited = data.changed({"reveal.max_tokens": None})
    return list(examples(unlimited, "train", range(min(most, data.task.count("train") or most))))


TOKENIZERS: Registry[type[TokenizerSettings]] = Registry("tokenizer")

AnyTokenizer = Annotated[TokenizerSettings, SerializeAsAny(), by_kind(TOKENIZERS, default="chars")]
"""The `tokenizer` section of a configuration: the settings of the kind that it names."""


class SubwordSettings(TokenizerSettings, ABC):
    """Settings of a tokenizer whose tokens may span several characters."""

    string_tokenization: Literal["subword", "characters", "filled"] = "subword"
    """How the text of string values is cut: like all other text, or into one token per character, the text unchanged. `filled`, a
    control for the number of tokens: into subwords apart from other text, each followed by one filler token (a new id) per further
    character."""

    def describe(self) -> str:
        strings = {
            "subword": "",
            "characters": ", strings by characters",
            "filled": ", strings by subwords with fillers",
        }
        return self.kind + strings[self.string_tokenization]
