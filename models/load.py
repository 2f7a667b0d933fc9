"""Load a checkpoint for evaluation: a run of ours, or any Hugging Face causal language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM

from remedy.data_gen.config import UserError
from remedy.models import decoder, tokenizers  # noqa: F401 (the decoder registers itself)
from remedy.models.checkpoint import RemedyConfig
from remedy.models.tokenizers import TokenizerConfig, TraceTokenizer


def load_checkpoint(path: str, device: str | None = None) -> tuple[Any, TraceTokenizer]:
    """The model, in evaluation mode on `device` (default: a GPU if there is one), and its tokenizer.

    Raises:
        UserError: the checkpoint cannot be read, or its tokenizer is not the one it was trained with.
    """
    folder = Path(path)
    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"checkpoint {path}: not a model folder or a reachable model ({str(error).splitlines()[0]})"
        ) from None
    if (folder / tokenizers.FILE).exists():
        tokenizer = tokenizers.load(folder)
    elif isinstance(config, RemedyConfig):
        raise UserError(f"checkpoint {path}: {tokenizers.FILE} is missing; is this a finished run's folder?")
    else:
        tokenizer = tokenizers.build(TokenizerConfig(kind="hf", name=path), [], [])
    if isinstance(config, RemedyConfig) and config.tokenizer_fingerprint != tokenizer.fingerprint:
        raise UserError(
            f"checkpoint {path}: trained with tokenizer {config.tokenizer_fingerprint}, "
            f"but {tokenizers.FILE} is {tokenizer.fingerprint}; put the run's own file back"
        )
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(path, trust_remote_code=False, use_safetensors=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"checkpoint {path}: weights cannot be read ({str(error).splitlines()[0]})") from None
    rows = model.get_input_embeddings().weight.shape[0]
    if tokenizer.vocab_size > rows:
        model.resize_token_embeddings(tokenizer.vocab_size)
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return model.to(chosen).eval(), tokenizer
