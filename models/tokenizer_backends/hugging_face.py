"""Any pretrained tokenizer of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import CWM_IDS, Special
from remedy.models.tokenizer_backends.base import TOKENIZERS, Offsets, SubwordBackend, SubwordSettings, TokenizerError


@TOKENIZERS.register("hf")
class HuggingFaceSettings(SubwordSettings):
    """A pretrained tokenizer, with the trace tokens that it lacks added."""

    kind: Literal["hf"] = "hf"
    """A pretrained tokenizer of Hugging Face."""
    name_or_path: str
    """Name on the hub, or a folder."""

    def build(self, data: DataConfig | None = None) -> HuggingFace:
        return HuggingFace(self.name_or_path)

    def restore(self, stored: Mapping[str, Any], folder: Path) -> HuggingFace:
        return HuggingFace(str(folder))


class HuggingFace(SubwordBackend):
    """A pretrained tokenizer; trace tokens it already has are re-used, code world models' own by their ids, others added."""

    def __init__(self, name: str) -> None:
        from transformers import AutoTokenizer

        from remedy.models.foreign import read

        tokenizer: Any = read(
            f"tokenizer {name!r} cannot be loaded: give the folder of a local copy as tokenizer.name_or_path, or check the hub's "
            "access",
            lambda: AutoTokenizer.from_pretrained(name, trust_remote_code=False),
            TokenizerError,
        )
        self.tokenizer = tokenizer
        known = self.tokenizer.get_vocab()
        if known.get(Special.BEGIN_OF_TEXT.value) == CWM_IDS[Special.BEGIN_OF_TEXT] and len(known) > max(
            CWM_IDS.values()
        ):
            self.special_ids = dict(CWM_IDS)
        else:
            added = [s for s in Special if s.value not in known]
            self.tokenizer.add_tokens([s.value for s in added], special_tokens=True)
            self.special_ids = {s: int(self.tokenizer.convert_tokens_to_ids(s.value)) for s in Special}
            self.new_ids = sorted(self.special_ids[s] for s in added)
        self.size = max(len(self.tokenizer), max(self.special_ids.values()) + 1)
        self.name = name

    def text_ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return ids

    def text_ids_and_offsets(self, text: str) -> tuple[list[int], Offsets]:
        if not self.tokenizer.is_fast:  # it does not say: every token counts as the whole text
            ids = self.text_ids(text)
            return ids, [(0, len(text))] * len(ids)
        found = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
        return found["input_ids"], found["offset_mapping"]

    def text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        return text

    def stored(self) -> dict[str, Any]:
        digest = hashlib.sha256(json.dumps(self.tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()
        return {"special_ids": {s.value: i for s, i in self.special_ids.items()}, "vocabulary_sha256": digest}

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
