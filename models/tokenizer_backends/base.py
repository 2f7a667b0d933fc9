"""Interface of every kind of tokenizer: a settings class that builds and restores a backend, and the backend itself."""

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
    """Text that a tokenizer cannot write, or a tokenizer that is not what was expected."""


class Backend(ABC):
    """Text to ids and back, without roles or special tokens in the text."""

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
        """Ids of a text, in which nothing is taken for a special token.

        Raises:
            TokenizerError: the text has no ids.
        """

    @abstractmethod
    def text(self, ids: Sequence[int]) -> str:
        """Text of ids that are no special tokens."""

    @abstractmethod
    def stored(self) -> dict[str, Any]:
        """Tell this vocabulary from any other, as JSON; with it `TokenizerSettings.restore` builds the backend again."""

    def save(self, folder: Path) -> None:  # noqa: B027 (most kinds have nothing to add)
        """Write files of its own beside a checkpoint; by default there are none, and `stored` says everything."""

    def published(self) -> tokenizers.Tokenizer | None:
        """The same vocabulary as Hugging Face's library reads it, which takes the names of special tokens for these; None where it
        cannot be said so."""
        return None


class SubwordBackend(Backend):
    """A backend whose tokens may span several characters."""

    merges_text = True

    @abstractmethod
    def text_ids_and_offsets(self, text: str) -> tuple[list[int], Offsets]:
        """Ids of a text, and which of its characters each stands for."""


class TokenizerSettings(Settings, ABC):
    """The `tokenizer` section of one kind."""

    needs_data: ClassVar[bool] = False
    """Whether the vocabulary is made from a run's data."""

    kind: str
    """Which tokenizer."""

    @abstractmethod
    def build(self, data: DataConfig | None) -> Backend:
        """A new backend; `data` is given wherever there is a run, and may be ignored unless `needs_data`.

        Raises:
            TokenizerError: the data has no such vocabulary, or files cannot be read.
        """

    @abstractmethod
    def restore(self, stored: Mapping[str, Any], folder: Path) -> Backend:
        """The backend that gave `stored` when it was saved to `folder`.

        Raises:
            TokenizerError: files that it needs cannot be read.
            ValueError, KeyError: `stored` is damaged.
        """

    def describe(self) -> str:
        """A phrase for reports."""
        return self.kind


def training_examples(data: DataConfig, most: int) -> list[Example]:
    """The first training examples, as they are without a token budget; fewer, where there are fewer."""
    unlimited = data.changed({"reveal.max_tokens": None})
    return list(examples(unlimited, "train", range(min(most, data.task.count("train") or most))))


TOKENIZERS: Registry[type[TokenizerSettings]] = Registry("tokenizer")

AnyTokenizer = Annotated[TokenizerSettings, SerializeAsAny(), by_kind(TOKENIZERS, default="chars")]
"""The `tokenizer` section of a configuration: the settings of the kind that it names."""


class SubwordSettings(TokenizerSettings, ABC):
    """A tokenizer whose tokens may span several characters."""

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
