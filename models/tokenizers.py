"""Tokenizers behind one interface that turns spans into (ids, roles, frames).

Special tokens are placed by id and text is never parsed for them, so a program whose source spells `<|frame_sep|>` cannot
forge one. `string_tokens: characters` cuts the text of string values into one token per character inside a subword
vocabulary, the text unchanged. To add a kind, write a backend and register it in `build` and `load`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import tokenizers
from pydantic import BaseModel, ConfigDict, Field, model_validator

from remedy.data_gen import symbolic
from remedy.data_gen.config import UserError
from remedy.data_gen.examples import DataConfig, examples
from remedy.data_gen.permutation import PermutationConfig
from remedy.data_gen.roles import CWM_IDS, Span, Special

FILE = "trace_tokenizer.json"
BPE_EXAMPLES = 1000
"""How many training examples a BPE vocabulary is learnt from."""


class TokenizerConfig(BaseModel):
    """`symbols`: one token per symbol of a permutation task. `chars`: one per character. `bpe`: byte-level BPE trained on
    the generated data, with `vocab_size` entries. `hf`: any Hugging Face tokenizer by `name` or path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["symbols", "chars", "bpe", "hf"] = "chars"
    vocab_size: int = Field(default=512, ge=300)
    name: str | None = None
    string_tokens: Literal["subword", "characters"] = "subword"

    @model_validator(mode="after")
    def _named(self) -> TokenizerConfig:
        if (self.kind == "hf") != (self.name is not None):
            raise ValueError("`name` is needed for kind hf, and only there")
        return self


class TokenizerError(UserError):
    """Text that a tokenizer cannot write, or a tokenizer that is not what was expected."""


class Encoded(NamedTuple):
    """Parallel lists over tokens."""

    ids: list[int]
    roles: list[int]
    frames: list[int]


class Backend(Protocol):
    """What a kind of tokenizer provides: text to ids and back, and how it is stored."""

    size: int
    special_ids: dict[Special, int]

    def text_ids(self, text: str) -> list[int]: ...

    def text(self, ids: Sequence[int]) -> str: ...

    def stored(self) -> dict[str, Any]: ...


class TraceTokenizer:
    """Spans to ids with roles, and ids back to text."""

    def __init__(self, config: TokenizerConfig, backend: Backend) -> None:
        self.config = config
        self.backend = backend
        self.vocab_size = backend.size
        self.special_ids = backend.special_ids
        self._special_of = {token: special for special, token in self.special_ids.items()}
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

    def encode(self, spans: Iterable[Span]) -> Encoded:
        """Ids with the role and frame of each.

        Raises:
            TokenizerError: a piece of text has no ids (kind `symbols` only).
        """
        ids: list[int] = []
        roles: list[int] = []
        frames: list[int] = []
        for span in spans:
            if isinstance(span.piece, Special):
                new = [self.special_ids[span.piece]]
            else:
                new = self._text_ids(span.piece, span.string and self.config.string_tokens == "characters")
            ids += new
            roles += [int(span.role)] * len(new)
            frames += [span.frame] * len(new)
        return Encoded(ids, roles, frames)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids; special tokens appear under their names."""
        parts: list[str] = []
        run: list[int] = []
        for token in ids:
            special = self._special_of.get(int(token))
            if special is None:
                run.append(int(token))
                continue
            parts += [self.backend.text(run), special.value]
            run = []
        return "".join([*parts, self.backend.text(run)])

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
        known = self.tokenizer.get_vocab()
        if known.get(Special.BEGIN_OF_TEXT.value) == CWM_IDS[Special.BEGIN_OF_TEXT] and len(known) > max(
            CWM_IDS.values()
        ):
            self.special_ids = dict(CWM_IDS)
        else:
            self.tokenizer.add_tokens([s.value for s in Special if s.value not in known], special_tokens=True)
            self.special_ids = {s: int(self.tokenizer.convert_tokens_to_ids(s.value)) for s in Special}
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
    else:
        assert config.name is not None
        backend = HuggingFace(config.name)
    return TraceTokenizer(config, backend)


def build_tokenizer(config: TokenizerConfig, data: DataConfig) -> TraceTokenizer:
    """The tokenizer of a data configuration: a function of the two, so every process builds the same.

    Raises:
        TokenizerError: as `build`.
    """
    vocabulary: list[str | Special] = []
    if isinstance(data.task, PermutationConfig) and data.format == "symbolic":
        vocabulary = symbolic.vocabulary(data.task)
    texts = (
        span.piece
        for example in (examples(data, "train", range(BPE_EXAMPLES)) if config.kind == "bpe" else [])
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
        elif config.kind == "bpe":
            backend = BytePairs(tokenizers.Tokenizer.from_str(kept["model"]))
        else:
            backend = HuggingFace(str(directory))
    except FileNotFoundError:
        raise TokenizerError(f"{path}: no tokenizer is stored there") from None
    except (ValueError, KeyError, OSError) as error:
        raise TokenizerError(f"{path}: damaged tokenizer file: {error}") from None
    return TraceTokenizer(config, backend)
