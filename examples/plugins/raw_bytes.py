"""A tokenizer of your own: one token for each byte of the UTF-8 text.

How to add: write a `Backend` from text to ids and back, and its settings with `build` and `restore`. Register the
settings, give this file by `--plugin`, and name the kind in `tokenizer.kind`. Special tokens have ids that no text
has.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Special
from remedy.models.tokenizer_backends.base import TOKENIZERS, Backend, TokenizerSettings


class RawBytes(Backend):
    """Ids 0 to 255 for bytes, then the special tokens."""

    size = 256 + len(Special)
    special_ids = {special: 256 + number for number, special in enumerate(Special)}

    def text_ids(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))

    def text(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def stored(self) -> dict[str, Any]:
        return {}


@TOKENIZERS.register("raw_bytes")
class RawByteSettings(TokenizerSettings):
    """One token per byte of the text."""

    kind: Literal["raw_bytes"] = "raw_bytes"

    def build(self, data: DataConfig | None) -> RawBytes:
        return RawBytes()

    def restore(self, stored: Mapping[str, Any], folder: Path) -> RawBytes:
        return RawBytes()
