"""Values and names as messages repeat them: short, and on one line."""

from __future__ import annotations

import difflib
import re
import reprlib
import unicodedata
from collections.abc import Iterable
from typing import Any

MOST = 80
"""Characters of a value that a message repeats."""
LINE = 600
"""Characters of a message's line."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of what is not seen but may act: controls (ANSI escapes), direction marks, surrogates, separators."""
_NAMES = 40
"""Valid names that a message lists."""

_OTHERS = {
    "learning_rate": "lr max_lr peak_lr",
    "batch_size": "bs batch train_batch_size per_device_train_batch_size global_batch_size",
    "max_steps": "epochs num_epochs num_train_epochs steps num_steps n_steps iters max_iters total_steps train_steps",
    "hidden_size": "d_model dim width embed_dim n_embd hidden_dim model_dim",
    "num_hidden_layers": "n_layer n_layers layers num_layers depth",
    "num_attention_heads": "n_head n_heads heads num_heads",
    "intermediate_size": "d_ff ffn_dim mlp_dim ffn_hidden_size",
    "weight_decay": "wd",
    "warmup_ratio": "warmup warmup_steps",
    "lr_scheduler_type": "scheduler schedule lr_scheduler lr_schedule",
    "max_grad_norm": "clip grad_clip clip_grad gradient_clipping",
    "adam_beta2": "beta2 betas adam_betas",
    "precision": "dtype bf16 fp16 amp mixed_precision torch_dtype",
    "gradient_accumulation_steps": "grad_accum accumulation_steps accumulate_grad_batches",
    "evaluate_every": "eval_steps eval_every eval_interval eval_strategy validate_every",
    "save_steps": "save_every checkpoint_every save_interval",
    "logging_steps": "log_every log_interval log_steps",
    "dataloader_num_workers": "num_workers n_workers",
    "name_or_path": "model_name model_name_or_path model_path pretrained pretrained_model_name_or_path tokenizer_name",
    "output": "output_dir out out_dir save_dir outdir",
    "mixers": "mixer arch architecture",
    "r": "rank lora_r lora_rank",
    "lora_alpha": "alpha",
    "lora_dropout": "dropout",
    "max_new_tokens": "max_tokens max_length max_gen_tokens",
    "examples": "max_examples num_examples n_examples limit num_samples n_samples",
    "pack": "packing",
    "deepspeed": "zero zero_stage deepspeed_config",
    "patience": "early_stopping early_stopping_patience",
    "seed": "random_seed rng_seed",
    "path": "file data_path dataset dataset_path",
    "wandb": "use_wandb report_to",
}
ALIASES: dict[str, list[str]] = {}
"""Names that other tools have for settings, each with those that it may mean here."""
for _own, _names in _OTHERS.items():
    for _name in _names.split():
        ALIASES.setdefault(_name, []).append(_own)

_repr = reprlib.Repr()
_repr.maxlevel = 4
_repr.maxstring = _repr.maxother = _repr.maxlong = MOST


def shown(value: Any, most: int = MOST) -> str:
    """A value's repr, cut in the middle where it is longer than `most` characters."""
    return cut(_repr.repr(value), most)


def cut(text: str, most: int = MOST) -> str:
    """A text, cut in the middle where it is longer than `most` characters."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def escaped(text: str, keep: str = "") -> str:
    """The text with every control or format character that is not to `keep` as its escape.

    Programs, names and what models write are data: a terminal must not obey them.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in _HIDDEN else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def as_markdown(text: str) -> str:
    """A text that Markdown shows as it is, in which no tag, link or image acts; line breaks stay."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", escaped(text, "\n")).replace("](", "]\\(")


def one_line(text: str, most: int = LINE) -> str:
    """A text on one line of bounded length, without characters that a terminal obeys."""
    return cut(" ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split()), most)


def suggest(name: str, valid: Iterable[str]) -> str:
    """`did you mean X?` when a valid name is near, else the list of valid names."""
    names = list(valid)
    near = difflib.get_close_matches(name[:MOST], names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"valid here: {', '.join(names[:_NAMES])}{more}"
