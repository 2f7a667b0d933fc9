"""Number of tokens that a model can read, or was made to read."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from remedy.models.protocol import CausalLM
from remedy.settings import UserError

SETTINGS = ("max_position_embeddings", "n_positions", "n_ctx", "context_length", "max_seq_len", "seq_length")
"""Under which names Transformers' configurations say it."""
_SPARE = 8
"""Rows that a table of positions may have beyond them: OPT's has two."""


class ContextLimit(NamedTuple):
    """The tokens of a sequence that a model's configuration speaks of, and under which name.

    `hard`: there is a table of positions that ends there, as GPT-2's. Others compute positions, and read on untrained.
    """

    tokens: int
    setting: str
    hard: bool


def context_limit(model: CausalLM) -> ContextLimit | None:
    """The limit of a model; None where its configuration names none."""
    config = model.config
    config = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    for setting in SETTINGS:
        tokens = getattr(config, setting, None)
        if isinstance(tokens, int) and tokens > 0:
            stored = (setting, *(n for n in SETTINGS if getattr(config, "attribute_map", {}).get(setting) == n))[-1]
            return ContextLimit(tokens, stored, _has_table(model, tokens))
    return None


def refuse_longer(limit: ContextLimit | None, tokens: float) -> None:
    """Refuse to train on an example of so many tokens, where a model has a table of positions that ends before.

    Raises:
        UserError: it has.
    """
    if limit is not None and limit.hard and tokens > limit.tokens:
        raise UserError(
            f"an example of {tokens:,.0f} tokens is longer than the model's table of {limit.tokens:,} positions ({limit.setting} in "
            "its config.json): make examples shorter (data.task, data.reveal.max_tokens)"
        )


def _has_table(model: CausalLM, tokens: int) -> bool:
    """Say if a module looks positions up: in an embedding beside that of the vocabulary, or in a buffer, by their number."""
    vocabulary = {id(table) for table in (model.get_input_embeddings(), model.get_output_embeddings())}
    for _, module in model.named_modules():
        rows = module.num_embeddings if isinstance(module, nn.Embedding) and id(module) not in vocabulary else 0
        if tokens <= rows <= tokens + _SPARE:
            return True
        if any(value is not None and value.ndim == 2 and len(value) == tokens for value in module._buffers.values()):
            return True
    return False
