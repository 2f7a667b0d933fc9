"""The kinds of tokenizer: text to ids and back, special tokens by id, and how each is stored."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import tiktoken
import tokenizers

from remedy.data_gen.roles import CWM_IDS, Special
from remedy.data_gen.settings import UserError


class TokenizerError(UserError):
    """Text that a tokenizer cannot write, or a tokenizer that is not what was expected."""


class Backend(Protocol):
    """What a kind of tokenizer provides: text to ids and back, and how it is stored."""

    size: int
    special_ids: dict[Special, int]

    def text_ids(self, text: str) -> list[int]: ...

    def text(self, ids: Sequence[int]) -> str: ...

    def stored(self) -> dict[str, Any]: ...


class Symbols:
    """A fixed list of symbols, each one token."""

    def __init__(self, vocabulary: Sequence[str | Special]) -> None:
        self.vocabulary = list(vocabulary)
        self.size = len(self.vocabulary)
        self.ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        self.special_ids = {piece: number for piece, number in self.ids.items() if isinstance(piece, Special)}

    def text_ids(self, text: str) -> list[int]:
        if text not in self.ids:
            raise TokenizerError(
                f"tokenizer.kind symbols has no symbol {text!r}: it covers symbolic permutation data only; use chars or bpe"
            )
        return [self.ids[text]]

    def text(self, ids: Sequence[int]) -> str:
        return " ".join(str(self.vocabulary[i]) for i in ids)

    def stored(self) -> dict[str, Any]:
        return {"vocabulary": [[p.value, True] if isinstance(p, Special) else [p, False] for p in self.vocabulary]}


class Characters:
    """Printable ASCII and Latin-1 characters, newline and tab; every other character as its UTF-8 bytes."""

    alphabet = "\n\t" + "".join(chr(c) for c in [*range(32, 127), *range(161, 256)])

    def __init__(self) -> None:
        self.special_ids = {special: number for number, special in enumerate(Special)}
        first = len(Special)
        self.byte0 = first + len(self.alphabet)
        self.size = self.byte0 + 256
        self.ids = {character: first + number for number, character in enumerate(self.alphabet)}

    def text_ids(self, text: str) -> list[int]:
        ids: list[int] = []
        for character in text:
            token = self.ids.get(character)
            if token is None:
                ids += [self.byte0 + byte for byte in character.encode("utf-8", "surrogatepass")]
            else:
                ids.append(token)
        return ids

    def text(self, ids: Sequence[int]) -> str:
        out = bytearray()
        for token in ids:
            if token >= self.byte0:
                out.append(token - self.byte0)
            else:
                out += self.alphabet[token - len(Special)].encode()
        return out.decode("utf-8", "replace")

    def stored(self) -> dict[str, Any]:
        return {"alphabet": self.alphabet}


class BytePairs:
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

    def text(self, ids: Sequence[int]) -> str:
        text: str = self.model.decode(list(ids), skip_special_tokens=False)
        return text

    def stored(self) -> dict[str, Any]:
        return {"model": self.model.to_str()}


LLAMA3_FOLDER = Path(sys.prefix) / "llama3"
"""Where `make llama3` puts the package that holds the vocabulary: on no import path, since it brings a package `models`."""
_LLAMA3_FILE = Path("llama_models", "llama3", "tokenizer.model")
_LLAMA3_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3_SIZE = 128256


class Llama3:
    """The Llama-3 vocabulary, which `facebook/cwm` uses with trace tokens of its own, from a file of `token rank` lines.

    The pattern that splits text is the one of Meta's own `llama_models.llama3.tokenizer`.
    """

    size = _LLAMA3_SIZE

    def __init__(self, name: str | None) -> None:
        path = Path(name) if name is not None else _installed_llama3()
        try:
            lines = path.read_bytes().splitlines()
            ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
        except (OSError, ValueError) as error:
            raise TokenizerError(
                f"tokenizer llama3: {path} cannot be read ({error}); `make llama3` fetches it, or give a copy as `name`"
            ) from None
        self.special_ids = dict(CWM_IDS)
        self.encoding = tiktoken.Encoding("llama3", pat_str=_LLAMA3_SPLIT, mergeable_ranks=ranks, special_tokens={})

    def text_ids(self, text: str) -> list[int]:
        return self.encoding.encode_ordinary(text)

    def text(self, ids: Sequence[int]) -> str:
        return self.encoding.decode(list(ids))

    def stored(self) -> dict[str, Any]:
        return {"vocabulary": "llama3", "size": self.encoding.n_vocab}


def _installed_llama3() -> Path:
    """The vocabulary's file, in the folder of `make llama3` or else in the installed package."""
    if (LLAMA3_FOLDER / _LLAMA3_FILE).exists():
        return LLAMA3_FOLDER / _LLAMA3_FILE
    found = importlib.util.find_spec("llama_models")
    places = list(found.submodule_search_locations or []) if found is not None else []
    return Path(places[0]).parent / _LLAMA3_FILE if places else LLAMA3_FOLDER / _LLAMA3_FILE


class HuggingFace:
    """A pretrained tokenizer; trace tokens it already has are re-used, code world models' own by their ids, others added."""

    def __init__(self, name: str) -> None:
        from transformers import AutoTokenizer

        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise TokenizerError(
                f"tokenizer {name!r} cannot be loaded: give the folder of a local copy as `name`, or check the hub's "
                f"access ({str(error).splitlines()[0]})"
            ) from None
        self.tokenizer = tokenizer
        self.new_ids: list[int] = []
        """Ids of trace tokens that were added: a model has never seen them."""
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

    def text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        return text

    def stored(self) -> dict[str, Any]:
        digest = hashlib.sha256(json.dumps(self.tokenizer.get_vocab(), sort_keys=True).encode()).hexdigest()
        return {"special_ids": {s.value: i for s, i in self.special_ids.items()}, "vocabulary_sha256": digest}
