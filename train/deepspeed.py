"""DeepSpeed's JSON from our configuration, or a hand-written one that must agree with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from remedy.models.block import Block
from remedy.models.decoder import DecoderForCausalLM
from remedy.processes import this_process
from remedy.settings import ConfigError
from remedy.train.config import TrainSettings
from remedy.train.processes import ensure_launched

JSON_FILE = "deepspeed.json"


def deepspeed_json(settings: TrainSettings, world: int) -> dict[str, Any]:
    """The whole JSON of a run over `world` processes, nothing left to `auto`.

    Raises:
        ConfigError: the hand-written file cannot be read or contradicts the configuration.
    """
    assert settings.deepspeed is not None
    chosen = settings.deepspeed
    ours = _ours(settings, world)
    if chosen.file is None:
        return ours
    theirs = _read(chosen.file)
    for section, why in (
        ("optimizer", "train.learning_rate, weight_decay and adam_beta2"),
        ("scheduler", "train.lr_scheduler_type and warmup_ratio"),
    ):
        if section in theirs:
            raise ConfigError(f"{chosen.file}: `{section}` is set by {why} here; remove the section")
    given = theirs.get("zero_optimization", {})
    if chosen.stage is None and given.get("stage", "auto") != "auto":
        ours["zero_optimization"]["stage"] = given["stage"]
    if chosen.offload is None:
        ours["zero_optimization"] = {k: v for k, v in ours["zero_optimization"].items() if not k.startswith("offload")}
        ours["zero_optimization"].update({k: v for k, v in given.items() if k.startswith("offload")})
    try:
        chosen.check_used(ours["zero_optimization"]["stage"])
    except ValueError as error:
        raise ConfigError(f"train.deepspeed: {error}") from None
    return _merged(theirs, ours, chosen.file, "")


def zero_stage(settings: TrainSettings) -> int:
    """The ZeRO stage of a run; 0 without DeepSpeed."""
    if settings.deepspeed is None:
        return 0
    stage: int = deepspeed_json(settings, settings.batch_size)["zero_optimization"]["stage"]
    return stage


def join(on_cpu: bool) -> None:
    """Join the other processes through DeepSpeed; a world of one where no launcher made a larger one.

    Raises:
        ConfigError: DeepSpeed is not installed.
    """
    try:
        import deepspeed
        import torch
        from deepspeed.ops import __compatible_ops__
    except ImportError:
        raise ConfigError("train.deepspeed: DeepSpeed is not installed; pip install 'cwm-remedy[deepspeed]'") from None

    if on_cpu:  # this op would be compiled for half a minute at first use; gloo does the same work
        __compatible_ops__["deepspeed_shm_comm"] = False
    ensure_launched()
    if not on_cpu:
        torch.cuda.set_device(this_process().local_rank)
    # Before any weights are made: ZeRO-3 divides them over the processes it knows of then.
    deepspeed.init_distributed(dist_backend="gloo" if on_cpu else "nccl", auto_mpi_discovery=False, verbose=False)


def gather_by_layer(decoder: DecoderForCausalLM) -> None:
    """Let ZeRO-3 make a layer's weights whole once in a call of the layer, not in every call of a module in it: the mixer is called for
    each group of packed examples, and processes whose numbers of groups differ would wait for one another for ever."""
    from deepspeed.utils import set_z3_leaf_modules

    set_z3_leaf_modules(decoder, [Block])


OFFLOADED = {"none": (), "optimizer": ("offload_optimizer",), "all": ("offload_optimizer", "offload_param")}


def _ours(settings: TrainSettings, world: int) -> dict[str, Any]:
    chosen = settings.deepspeed
    assert chosen is not None
    zero: dict[str, Any] = {
        "stage": 1 if chosen.stage is None else chosen.stage,
        "stage3_gather_16bit_weights_on_model_save": True,
    }
    for part in OFFLOADED[chosen.offload or "none"]:
        zero[part] = {"device": "cpu", "pin_memory": True}
    if chosen.param_persistence_threshold is not None:
        zero["stage3_param_persistence_threshold"] = chosen.param_persistence_threshold
    return {
        "train_batch_size": settings.batch_size,
        "train_micro_batch_size_per_gpu": settings.batch_size // (world * settings.gradient_accumulation_steps),
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "gradient_clipping": settings.max_grad_norm,
        "bf16": {"enabled": settings.precision == "bf16"},
        "fp16": {"enabled": settings.precision == "fp16"},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


SETTINGS = {
    "train_batch_size": "train.batch_size",
    "train_micro_batch_size_per_gpu": "train.batch_size / (processes x train.gradient_accumulation_steps)",
    "gradient_accumulation_steps": "train.gradient_accumulation_steps",
    "gradient_clipping": "train.max_grad_norm",
    "bf16.enabled": "train.precision",
    "fp16.enabled": "train.precision",
    "zero_optimization.stage": "train.deepspeed.stage",
    "zero_optimization.offload_optimizer": "train.deepspeed.offload",
    "zero_optimization.offload_param": "train.deepspeed.offload",
    "zero_optimization.stage3_param_persistence_threshold": "train.deepspeed.param_persistence_threshold",
}
"""Which of our settings stands behind a key of DeepSpeed's, for messages."""


def _merged(theirs: dict[str, Any], ours: dict[str, Any], file: str, path: str) -> dict[str, Any]:
    merged = dict(theirs)
    for key, value in ours.items():
        where = f"{path}{key}"
        given = theirs.get(key, "auto")
        if isinstance(value, dict) and isinstance(given, dict) and where not in SETTINGS:
            merged[key] = _merged(given, value, file, f"{where}.")
        elif given == "auto" or where not in SETTINGS:
            merged[key] = value if given == "auto" else given
        elif given != value:
            raise ConfigError(
                f"{file}: {where} is {json.dumps(given)}, but {SETTINGS[where]} gives {json.dumps(value)}; "
                'make them agree, or write "auto" in the file'
            )
    for key in ("offload_optimizer", "offload_param"):
        if path == "zero_optimization." and key in theirs and key not in ours:
            raise ConfigError(
                f"{file}: zero_optimization.{key} is set, but train.deepspeed.offload says not to; make them agree"
            )
    return merged


def _read(file: str) -> dict[str, Any]:
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"train.deepspeed.file: {file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"train.deepspeed.file: {file}: not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"train.deepspeed.file: {file}: expected a JSON object")
    return data
