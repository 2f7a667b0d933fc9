"""Models small enough for tests, with random weights: our decoders with a tokenizer of the data, and other architectures, of two or
three layers of width 32 and diverse output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS, BytePairs, BytePairSettings

ATTENTION = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 64}
WINDOW = {"sliding_window": 16}
DELTA = {
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
SSD = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 16}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": ATTENTION,
    "mistral": {**ATTENTION, **WINDOW},
    "gemma3_text": {**ATTENTION, **WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "qwen3": ATTENTION,
    "qwen3_next": {
        **ATTENTION,
        **DELTA,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
    "olmo2": ATTENTION,
    "olmo_hybrid": {**ATTENTION, **DELTA},
    "gpt2": {"n_head": 2},
    "opt": {"num_attention_heads": 2, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "gpt_neox": ATTENTION,
    "bloom": {"n_head": 2},
    "gpt_oss": {**ATTENTION, **WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1},
    "mamba": {"state_size": 4},
    "mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1, "chunk_size": 16},
    "falcon_mamba": {"state_size": 4},
    "rwkv": {"attention_hidden_size": 32},
    "recurrent_gemma": {**ATTENTION, "num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 16},
    "jamba": {
        **ATTENTION,
        "num_experts": 2,
        "mamba_d_state": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "falcon_h1": {**ATTENTION, **SSD, "mamba_d_head": 8, "mamba_d_ssm": 32},
    "bamba": {**ATTENTION, **SSD, "attn_layer_indices": [1]},
    "granitemoehybrid": {
        **ATTENTION,
        **SSD,
        "layer_types": ["mamba", "attention"],
        "num_local_experts": 0,
        "shared_intermediate_size": 64,
    },
    "zamba2": {
        **ATTENTION,
        "mamba_d_state": 8,
        "n_mamba_heads": 4,
        "mamba_headdim": 16,
        "mamba_ngroups": 1,
        "chunk_size": 16,
        "layers_block_type": ["mamba", "hybrid"],
        "num_mem_blocks": 1,
        "use_mem_rope": True,
    },
    "lfm2": {**ATTENTION, "layer_types": ["conv", "full_attention"]},
    "minimax": {
        **ATTENTION,
        "num_local_experts": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "block_size": 16,
    },
    "xlstm": {"num_heads": 2, "num_blocks": 2, "embedding_dim": 32},
    "openai-gpt": {"n_head": 2},
}
"""Settings by Transformers' name of the architecture; windows are shorter than the tests' prompts."""


def tokenizer_for(data: DataConfig, kind: str = "") -> TraceTokenizer:
    """A tokenizer of this kind; if none is named, of symbols or characters as the format has them."""
    kind = kind or ("symbols" if data.format == "symbolic" else "chars")
    return build_tokenizer(TOKENIZERS[kind].model_validate({"kind": kind}), data)


@cache
def byte_pairs(vocab_size: int) -> BytePairs:
    """A vocabulary of string programs."""
    return BytePairSettings(vocab_size=vocab_size).build(DataConfig(task=CompositionTask(depth=(1, 2))))


def bpe(**settings: Any) -> TraceTokenizer:
    """A tokenizer of some 400 subwords."""
    return TraceTokenizer(BytePairSettings(vocab_size=400, **settings), byte_pairs(400))


def small_decoder(
    tokenizer: TraceTokenizer, mixers: Sequence[str] = ("gru",), hidden_size: int = 16, seed: int = 0
) -> DecoderForCausalLM:
    torch.manual_seed(seed)
    settings = DecoderSettings(mixers=tuple(mixers), hidden_size=hidden_size)
    config = DecoderConfig.from_settings(settings, tokenizer.vocab_size, tokenizer.fingerprint)
    return DecoderForCausalLM(config).eval()


def tiny_model(family: str, vocab_size: int, seed: int = 0, **settings: Any) -> Any:
    """A model in evaluation mode. Its matrices are larger than a fresh model's, or it would write one token again and again."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": vocab_size}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = AutoConfig.for_model(family, **{**sizes, **ids, **FAMILIES.get(family, {}), **settings})
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim == 2 and not name.endswith("A_log") and family != "xlstm":
                    parameter += 0.15 * torch.randn_like(parameter)
    return model
