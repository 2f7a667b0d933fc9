"""Number of tokens that a model can read, or was trained to read."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from remedy.models.protocol import CausalLM
from remedy.settings import UserError

SETTINGS = ("max_position_embeddings", "n_positions", "n_ctx", "context_length", "max_seq_len", "seq_length")
"""Names of this length in Transformers' configurations."""
_SPARE = 8  # extra rows in a table of positions: OPT has two


class ContextLimit(NamedTuple):
    """A sequence length in a model's configuration, and the name of its setting.

    `hard`: a table of positions ends there, as in GPT-2.
    """

    tokens: int
    setting: str
    hard: bool


def context_limit(model: CausalLM) -> ContextLimit | None:
    config = model.config
    config = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    for setting in SETTINGS:
        tokens = getattr(config, setting, None)
        if isinstance(tokens, int) and tokens > 0:
            name = (
                setting,
                *(alias for alias in SETTINGS if getattr(config, "attribute_map", {}).get(setting) == alias),
            )[-1]
            return ContextLimit(tokens, name, _has_table(model, tokens))
    return None


def refuse_longer(limit: ContextLimit | None, tokens: float) -> None:
    """Refuse an example longer than the model's table of positions.

    Raises:
        UserError: it is longer.
    """
    if limit is not None and limit.hard and tokens > limit.tokens:
        raise UserError(
            f"an example of {tokens:,.0f} tokens is longer than the model's table of {limit.tokens:,} positions ({limit.setting} in "
            "its config.json): make examples shorter (data.task, data.reveal.max_tokens)"
        )


def _has_table(model: CausalLM, tokens: int) -> bool:
    """Say if a buffer or an embedding, not the vocabulary's, has a row per position."""
    vocabulary = {id(table) for table in (model.get_input_embeddings(), model.get_output_embeddings())}
    for _, module in model.named_modules():
        rows = module.num_embeddings if isinstance(module, nn.Embedding) and id(module) not in vocabulary else 0
        if tokens <= rows <= tokens + _SPARE:
            return True
        if any(value is not None and value.ndim == 2 and len(value) == tokens for value in module._buffers.values()):
            return True
    return False
