"""Interface of tokenizers: settings that build and restore a backend, and the backend."""

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
"""For each token, the first character that it stands for and the one after the last."""


class TokenizerError(UserError):
    """Error of text that a tokenizer cannot write, or of an unexpected tokenizer."""


class Backend(ABC):
    """Text to ids and back, without roles; text never spells special tokens."""

    merges_text: ClassVar[bool] = False
    """Whether the ids of a text depend on how it is cut into pieces, as those of subwords do."""
    exact: ClassVar[bool] = True
    """Whether any text comes back from its ids as it was; where not, every text is tried."""
    size: int
    """Number of ids, those of special tokens included."""
    special_ids: dict[Special, int]
    new_ids: Sequence[int] = ()
    """Ids of trace tokens that a pretrained vocabulary did not have: a model has never seen them."""

    @abstractmethod
    def text_ids(self, text: str) -> list[int]:
        """Return the ids of a text, in which nothing stands for a special token.

        Raises:
            TokenizerError: the text has no ids.
        """

    @abstractmethod
    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ids that are no special tokens."""

    @abstractmethod
    def stored(self) -> dict[str, Any]:
        """Return JSON that identifies this vocabulary, from which `TokenizerSettings.restore` rebuilds the backend."""

    def save(self, folder: Path) -> None:  # noqa: B027 (most kinds have nothing to add)
        """Write files beside a checkpoint; by default none, since `stored` has everything."""

    def published(self) -> tokenizers.Tokenizer | None:
        """Return the vocabulary for Hugging Face's library, where text can spell special tokens; None if impossible."""
        return None


class SubwordBackend(Backend):
    """Backend whose tokens may span several characters."""

    merges_text = True

    @abstractmethod
    def text_ids_and_offsets(self, text: str) -> tuple[list[int], Offsets]:
        """Return the ids of a text, and the characters that each stands for."""


class TokenizerSettings(Settings, ABC):
    """The `tokenizer` section of one kind."""

    needs_data: ClassVar[bool] = False
    """Whether the vocabulary is made from a run's data."""

    kind: str
    """Which tokenizer."""

    @abstractmethod
    def build(self, data: DataConfig | None) -> Backend:
        """Build a new backend; `data` is the run's, if there is one.

        Raises:
            TokenizerError: the data has no such vocabulary, or files cannot be read.
        """

    @abstractmethod
    def restore(self, stored: Mapping[str, Any], folder: Path) -> Backend:
        """Rebuild the backend that gave `stored` when it was saved to `folder`.

        Raises:
            TokenizerError: files that it needs cannot be read.
            ValueError, KeyError: `stored` is damaged.
        """

    def describe(self) -> str:
        """Describe the tokenizer in a phrase for reports."""
        return self.kind


def training_examples(data: DataConfig, most: int) -> list[Example]:
    """Return the first `most` training examples without a token budget; fewer if there are fewer."""
    unlimited = data.changed({"reveal.max_tokens": None})
    return list(examples(unlimited, "train", range(min(most, data.task.count("train") or most))))


TOKENIZERS: Registry[type[TokenizerSettings]] = Registry("tokenizer")

AnyTokenizer = Annotated[TokenizerSettings, SerializeAsAny(), by_kind(TOKENIZERS, default="chars")]
"""The `tokenizer` section of a configuration: the settings of the kind that it names."""


class SubwordSettings(TokenizerSettings, ABC):
    """Settings of a tokenizer whose tokens may span several characters."""

    string_tokenization: Literal["subword", "characters", "filled"] = "subword"
    """How the text of string values is cut: like all other text, or into one token per character, the text unchanged. `filled`, a
    control for the number of tokens: apart from other text into subwords, each followed by as many fillers, tokens of one new id, as
    it has characters less one."""

    def describe(self) -> str:
        strings = {
            "subword": "",
            "characters": ", strings by characters",
            "filled": ", strings by subwords with fillers",
        }
        return self.kind + strings[self.string_tokenization]
