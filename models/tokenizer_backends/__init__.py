"""Kinds of tokenizer.

To add one, write its `Backend` and settings in a file here, with `@TOKENIZERS.register(kind)`, and import it below.
"""

from remedy.models.tokenizer_backends.base import (
    TOKENIZERS,
    AnyTokenizer,
    Backend,
    Offsets,
    SubwordBackend,
    SubwordSettings,
    TokenizerError,
    TokenizerSettings,
    training_examples,
)
from remedy.models.tokenizer_backends.byte_pairs import BytePairs, BytePairSettings, Llama3, Llama3Settings
from remedy.models.tokenizer_backends.characters import Characters, CharacterSettings, Symbols, SymbolSettings
from remedy.models.tokenizer_backends.hugging_face import HuggingFace, HuggingFaceSettings

__all__ = [
    "TOKENIZERS",
    "AnyTokenizer",
    "Backend",
    "BytePairSettings",
    "BytePairs",
    "CharacterSettings",
    "Characters",
    "HuggingFace",
    "HuggingFaceSettings",
    "Llama3",
    "Llama3Settings",
    "Offsets",
    "SubwordBackend",
    "SubwordSettings",
    "SymbolSettings",
    "Symbols",
    "TokenizerError",
    "TokenizerSettings",
    "training_examples",
]
