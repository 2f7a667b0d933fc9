"""A code world model small enough for tests and first tries: the 32B model's architecture and trace tokens, random weights."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import CwmConfig, CwmForCausalLM, PreTrainedTokenizerFast

from remedy.data_gen.roles import Special
from tests.tiny_models import byte_pairs


def write_tiny_cwm(folder: Path, hidden: int = 32, layers: int = 4, seed: int = 0) -> Path:
    """Write a `CwmForCausalLM` of full and sliding-window layers, and a tokenizer that has the trace tokens; returns `folder`."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_pairs(320).model,
        bos_token=Special.BEGIN_OF_TEXT.value,
        eos_token=Special.END_OF_TEXT.value,
        pad_token=Special.PAD.value,
        additional_special_tokens=[s.value for s in Special],
    )
    tokenizer.save_pretrained(folder)
    ids = {s: tokenizer.get_vocab()[s.value] for s in Special}
    config = CwmConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden // 4,
        sliding_window=64,
        layer_types=["full_attention" if i % 4 == 0 else "sliding_attention" for i in range(layers)],
        bos_token_id=ids[Special.BEGIN_OF_TEXT],
        eos_token_id=ids[Special.END_OF_TEXT],
        pad_token_id=ids[Special.PAD],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        CwmForCausalLM(config).save_pretrained(folder)
    return folder
