"""Pretrained tokenizers of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tokenizers

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import CWM_IDS, Special
from remedy.messages import shown
from remedy.models.tokenizer_backends.base import TOKENIZERS, Offsets, SubwordBackend, SubwordSettings, TokenizerError

log = logging.getLogger(__name__)
ROLES = {
    "bos_token": Special.BEGIN_OF_TEXT,
    "eos_token": Special.END_OF_TEXT,
    "pad_token": Special.PAD,
}
"""Transformers' names of the tokens that begin, end and pad a text."""


@TOKENIZERS.register("hf")
class HuggingFaceSettings(SubwordSettings):
    """A pretrained tokenizer, with the trace tokens that it lacks added."""

    kind: Literal["hf"] = "hf"
    """A pretrained tokenizer of Hugging Face."""
    name_or_path: str
    """Name on the hub, or a folder."""

    def build(self, data: DataConfig | None = None) -> HuggingFace:
        backend = HuggingFace(self.name_or_path)
        if self.string_tokenization == "filled" and not backend.tokenizer.is_fast:
            raise TokenizerError(
                f"tokenizer {self.name_or_path!r} does not say which characters a token stands for, so it has no number of fillers: "
                "use another, or another tokenizer.string_tokenization than filled"
            )
        begin = backend.tokenizer.bos_token
        if (
            begin != Special.BEGIN_OF_TEXT.value
            and backend.tokenizer.bos_token_id == backend.special_ids[Special.BEGIN_OF_TEXT]
        ):
            log.info("tokenizer %s: traces begin with its own %s", self.name_or_path, begin)
        return backend

    def restore(self, stored: Mapping[str, Any], folder: Path) -> HuggingFace:
        return HuggingFace(str(folder))


class HuggingFace(SubwordBackend):
    """A pretrained tokenizer, to which missing trace tokens are added.

    A trace begins with the tokenizer's own first token, if any; the saved tokenizer ends and pads as traces do.
    """

    exact = False

    def __init__(self, name: str) -> None:
        from transformers import AutoTokenizer

        from remedy.models.hub_loading import cannot_load, read, refuse_vast

        refuse_vast(name)
        tokenizer: Any = read(
            cannot_load("tokenizer", name, "tokenizer.name_or_path"),
            lambda: AutoTokenizer.from_pretrained(name, trust_remote_code=False),
            TokenizerError,
        )
        self.name, self.tokenizer = name, tokenizer
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None and isinstance(backend.normalizer, tokenizers.normalizers.NFC):
            backend.normalizer = None  # it would change text that is not composed
        known = self.tokenizer.get_vocab()
        if known.get(Special.BEGIN_OF_TEXT.value) == CWM_IDS[Special.BEGIN_OF_TEXT] and len(known) > max(
            CWM_IDS.values()
        ):
            self.special_ids = dict(CWM_IDS)
        else:
            names = {special: special.value for special in Special}
            if (bos_token := self.tokenizer.bos_token) is not None and bos_token not in names.values():
                names[Special.BEGIN_OF_TEXT] = bos_token
            added = [special for special, token in names.items() if token not in known]
            self.tokenizer.add_tokens([names[special] for special in added], special_tokens=True)
            self.special_ids = {s: self.tokenizer.convert_tokens_to_ids(token) for s, token in names.items()}
            self.new_ids = sorted(self.special_ids[s] for s in added)
        highest = max(self.special_ids.values())
        if highest > 2 * len(self.tokenizer):
            raise TokenizerError(
                f"tokenizer {name!r}: has {len(self.tokenizer):,} tokens, and the id {highest:,}: it is damaged"
            )
        self.size = max(len(self.tokenizer), highest + 1)
        for role, special in ROLES.items():
            setattr(self.tokenizer, role, self.tokenizer.convert_ids_to_tokens(self.special_ids[special]))

    def text_ids(self, text: str) -> list[int]:
        return self._encoded(text)["input_ids"]  # type: ignore[no-any-return]

    def text_ids_and_offsets(self, text: str) -> tuple[list[int], Offsets]:
        if not self.tokenizer.is_fast:  # without offsets, every token counts as the whole text
            ids = self.text_ids(text)
            return ids, [(0, len(text))] * len(ids)
        encoding = self._encoded(text, return_offsets_mapping=True)
        return encoding["input_ids"], encoding["offset_mapping"]

    def text(self, ids: Sequence[int]) -> str:
        if self.tokenizer.is_fast:  # ten times as fast as Transformers' decode
            return self.tokenizer.backend_tokenizer.decode(list(ids), skip_special_tokens=False)  # type: ignore[no-any-return]
        text: str = self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        return text

    def stored(self) -> dict[str, Any]:
        digest = hashlib.sha256(json.dumps(self.tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()
        return {"special_ids": {s.value: i for s, i in self.special_ids.items()}, "vocabulary_sha256": digest}

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)

    def _encoded(self, text: str, **options: bool) -> Any:
        from remedy.models.hub_loading import read

        return read(
            f"tokenizer {self.name!r} fails on the text {shown(text)}",
            lambda: self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, **options),
            TokenizerError,
        )
