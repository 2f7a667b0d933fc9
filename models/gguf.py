"""One GGUF file to a folder of safetensors with its tokenizer, for models whose hub copy cannot be reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.quantization_config import GgufConfig


def convert(file: Path, out: Path) -> None:
    """Dequantise a GGUF model to bfloat16 and write it with its tokenizer to `out`.

    GGUF keeps a byte-level tokenizer's merges but not that it splits digits first, as SmolLM2's does; that is put back.
    """
    quantization: Any = GgufConfig(dequantize=True)
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(file.parent), gguf_file=file.name, quantization_config=quantization, dtype="bfloat16"
    )
    model.save_pretrained(out)
    tokenizer: Any = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.save_pretrained(out)
