"""Messages about mistakes in settings, with suggestions for unknown keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails, PydanticCustomError

from remedy.messages import cut, one_line, shown, suggest

_PLAIN = {
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list, such as [a, b]"),
    **dict.fromkeys(("model_type", "dict_type"), "must be a section, such as {key: value}"),
}
"""Messages by pydantic's error type, in YAML's words."""
DEEP = 2
"""Levels of nested sections that are searched for a key."""
_OTHERS = {
    "learning_rate": "lr max_lr peak_lr",
    "batch_size": "bs batch train_batch_size global_batch_size",
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
    "optim": "optimizer optimizer_name optimizer_type optimiser",
    "precision": "dtype bf16 fp16 amp mixed_precision torch_dtype",
    "micro_batch_size": "gradient_accumulation_steps grad_accum accumulation_steps per_device_train_batch_size",
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
    "report_to": "wandb use_wandb loggers trackers",
}
"""Other tools' names of settings."""
_ABOUT = {
    "optim": " (AdamW by default; it takes Transformers' names)",
    "micro_batch_size": " (rows of a pass; a step has batch_size / (processes x micro_batch_size) passes)",
    "report_to": " (a list: [wandb, tensorboard], or [] for none)",
}
"""What to say of a setting that is suggested."""


def suggest_key(name: str, settings: type[BaseModel]) -> str:
    """Suggest a key here or in nested sections, also by other tools' names."""
    names = dict.fromkeys(
        [name, *(key_of_setting for key_of_setting, others in _OTHERS.items() if name.lower() in others.split())]
    )
    nested = list(_keys(settings, DEEP))
    keys = [key for candidate in names for key in nested if key.rpartition(".")[2] == candidate]
    if keys:
        shortest = min(key.count(".") for key in keys)
        nearest = dict.fromkeys(key for key in keys if key.count(".") == shortest)
        about = _ABOUT.get(keys[0].rpartition(".")[2], "")
        return f"did you mean {' or '.join(map(repr, list(nearest)[:3]))}?{about}"
    return suggest(name, settings.model_fields)


def _keys(settings: type[BaseModel], depth: int, prefix: str = "") -> Iterator[str]:
    yield from (prefix + name for name in settings.model_fields)
    for name, field in settings.model_fields.items():
        for inner in dict.fromkeys(_sections([field.annotation, *field.metadata])) if depth else ():
            path = f"{name}.0" if get_origin(field.annotation) is tuple else name
            yield from _keys(inner, depth - 1, f"{prefix}{path}.")


def _sections(types: Iterable[Any]) -> Iterator[type[BaseModel]]:
    for annotation in types:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        yield from _sections(get_args(annotation))
        registry = getattr(annotation, "registry", None)
        if isinstance(registry, Mapping):
            yield from (
                entry for entry in registry.values() if isinstance(entry, type) and issubclass(entry, BaseModel)
            )


def unknown_keys(hints: Mapping[str, str]) -> PydanticCustomError:
    """Make a validator's error for unknown keys, with `hints` by key."""
    says = "; ".join(_unknown([], key, hint) for key, hint in hints.items())
    return PydanticCustomError("unknown_keys", "{says}", {"says": says, "hints": dict(hints)})


def explain(data: Any, details: Sequence[ErrorDetails]) -> Iterator[str]:
    """Write pydantic's errors, a line for each place and unknown key."""
    by_place: dict[tuple[str, ...], list[ErrorDetails]] = {}
    for detail in details:
        by_place.setdefault(tuple(place_of(data, detail)), []).append(detail)
    # pydantic reports a mistake inside a section for the section too: only the innermost is explained.
    outer = {path[:end] for path in by_place for end in range(len(path))}
    for path, errors in by_place.items():
        if path not in outer:
            yield from map(one_line, _explain_place(path, errors))


def _explain_place(path: tuple[str, ...], errors: Sequence[ErrorDetails]) -> Iterator[str]:
    """Yield one place's lines; several errors are one value of several types."""
    key, first = cut(".".join(path)), errors[0]
    if first["type"] == "unknown_keys":
        for name, hint in first["ctx"]["hints"].items():
            yield _unknown(path, name, hint)
        return
    if all(detail["type"] == "missing" for detail in errors):
        yield f"missing key {key!r}"
        return
    messages = [
        detail["msg"].removeprefix("Value error, ") for detail in errors if detail["type"] in ("value_error", "idle")
    ]
    if messages:  # of this package's validators, whose messages are complete
        yield f"{key}: {messages[0]}" if path else messages[0]
        return
    expected = dict.fromkeys(_PLAIN.get(detail["type"], detail["msg"]) for detail in errors)
    yield f"key {key or '(top level)'!r}: {', or '.join(expected)}, got {shown(first['input'])}"


def _unknown(path: Sequence[str], name: str, hint: str) -> str:
    return f"unknown key {cut('.'.join([*path, name]))!r}; {hint}"


def place_of(data: Any, detail: ErrorDetails) -> list[str]:
    """Return a mistake's path as users write it, without pydantic's union branches."""
    path: list[str] = []
    for part in detail["loc"]:
        in_list = isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data)
        if in_list or (isinstance(data, Mapping) and part in data):
            data = data[part]
        elif detail["type"] != "missing" or part != detail["loc"][-1]:
            continue
        path.append(str(part))
    return path
