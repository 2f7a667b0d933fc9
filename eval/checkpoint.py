"""Checkpoints under evaluation: model, description, identity and data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

from remedy.data_gen.config import DataConfig, read_stored_run
from remedy.data_gen.held_out import draws_other_pairs
from remedy.data_gen.tasks import Task
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.generators.speculative import LocalGenerator
from remedy.eval.records.folder import Checkpoint
from remedy.models.config import SHAPE, DecoderSettings
from remedy.models.flops import token_cost, weight_count
from remedy.models.loading import load_checkpoint, load_outline, weights_of
from remedy.models.mixers import MIXERS
from remedy.models.model_manifest import CONFIG_FILE, read_training, recorded_weights
from remedy.models.pretrained import is_in_4bit
from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import ConfigError, apply_changes, build

PIECE = 1 << 20
"""Values of a tensor that are hashed at a time, to bound memory."""


def describe(model: CausalLM, tokenizer: TraceTokenizer, weights: str = "") -> Checkpoint:
    """Describe a loaded checkpoint; `weights`: their digest, if one was recorded."""
    settings = model.config
    mixers = dict.fromkeys(getattr(settings, "layer_mixers", None) or ())
    cost = token_cost(model)
    return {
        "model_type": settings.model_type,
        "mixers": {mixer: MIXERS[mixer].eigenvalue_range(settings.eigenvalues) for mixer in mixers},
        "decoder": _unpublished(model),
        "num_hidden_layers": settings.num_hidden_layers,
        "hidden_size": settings.hidden_size,
        "parameters": sum(map(weight_count, model.parameters())),
        "flops_per_token": cost.flops if cost else None,
        "flops_by_length": cost.flops_by_length if cost else None,
        "state_floats": cost.state_floats if cost else None,
        "state_by_length": cost.state_by_length if cost else None,
        "weights": (weights or weights_digest(model)) + ("-nf4" if is_in_4bit(model) else ""),
        "tokenizer": cast("Any", tokenizer.settings.model_dump(mode="json")),
        "tokenizer_fingerprint": tokenizer.fingerprint,
    }


def _unpublished(model: CausalLM) -> dict[str, Any]:
    """Return the decoder settings used by its mixers that differ from their defaults."""
    used = frozenset[str]().union(
        *(MIXERS[mixer].reads.uses for mixer in getattr(model.config, "layer_mixers", None) or ())
    )
    return {
        name: value
        for name, field in DecoderSettings.model_fields.items()
        if name in used - SHAPE - {"eigenvalues"} and (value := getattr(model.config, name)) != field.default
    }


def load_evaluated(checkpoint: str, config: EvalConfig) -> tuple[CausalLM, TraceTokenizer]:
    """Load model and tokenizer; with a backend, the model without weights.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    if config.backend is not None:
        return load_outline(checkpoint)
    return load_checkpoint(checkpoint, None, config.precision, config.load_in_4bit, config.device_map)


def generator_of(
    model: CausalLM, tokenizer: TraceTokenizer, config: EvalConfig, name: str
) -> LocalGenerator | ServedGenerator:
    """Make the generator: the model here, or its server; `name`: for messages."""
    if config.backend is not None:
        return ServedGenerator(config.backend, tokenizer, name, config.batch_size)
    return LocalGenerator(ModelReader(model, name), tokenizer, config.batch_size)


def weights_digest(model: CausalLM) -> str:
    """Hash all parameters and buffers.

    Half-precision values are hashed as float32, so that the precision of loading does not matter.
    """
    digest = hashlib.sha256()
    for name, tensor in weights_of(model).items():
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        for piece in tensor.detach().reshape(-1).split(PIECE):
            exact = piece.float() if piece.is_floating_point() and piece.itemsize < 4 else piece
            digest.update(exact.cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def for_checkpoint(
    checkpoint: str,
    config: EvalConfig,
    chosen: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
) -> CheckpointInfo:
    """Read a checkpoint's data configuration and training, and apply the evaluation's `set`.

    `chosen`: settings chosen on validation. `own`: the run's settings, if the caller trained it, in place of stored ones.

    Raises:
        ConfigError: no data configuration is stored or set, or a change does not fit it.
    """
    path = Path(checkpoint) / CONFIG_FILE
    written = own or read_stored_run(path)
    stored = written["data"]
    if not stored and "task" not in config.set:
        missing = "" if Path(checkpoint).exists() else "there is no such folder here, and a model of the hub "
        raise ConfigError(
            f"{checkpoint}: {missing}stores no data configuration: give one under `set` in the evaluation's config"
        )
    trained_on: Task | None = config.trained_on
    trained = build(DataConfig, stored, str(path)) if stored and trained_on is None else None
    data = build(DataConfig, apply_changes(stored, config.set, "set"), f"data of {checkpoint}")
    if trained is not None:
        trained_on = trained.task
        if draws_other_pairs(trained, data):
            raise ConfigError("set: another seed, n or moves draws other pairs than training held out: remove it")
    section = config.set.get("task")
    task_keys = [f"task.{key}" for key in section] if isinstance(section, dict) else []
    for key in [*config.set, *task_keys]:
        if key.startswith("task.held_out_") and (
            key != "task.held_out_pairs" or getattr(trained_on, "held_out_pairs", False)
        ):
            raise ConfigError(f"set.{key} does nothing in an evaluation, which reads no training split: remove it")
    _refuse_other_splits(data.task, trained_on)
    recorded = read_training(Path(checkpoint))
    train = written.get("train")
    stages = train.get("curriculum") or [] if isinstance(train, dict) else []
    training = {**recorded, "chosen": dict(chosen or {}), "curriculum": stages} if recorded is not None else None
    return CheckpointInfo(data, trained_on, recorded_weights(Path(checkpoint)), training)


def _refuse_other_splits(task: Task, trained_on: Task | None) -> None:
    """Raise a ConfigError if test programs may have been trained on."""
    if trained_on is None or trained_on.name != task.name or task.splits_by == trained_on.splits_by:
        return
    raise ConfigError(
        f"set.task.split_by: test programs by {task.splits_by} may stand in the training of this checkpoint, which was split by "
        f"{trained_on.splits_by}: write that"
    )
