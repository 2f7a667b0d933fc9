"""Hugging Face's training arguments, DeepSpeed's JSON and FSDP2's options, from a run's settings."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.integrations.integration_utils import get_available_reporting_integrations

from remedy.messages import install, one_line
from remedy.models.cpu_training import keep_freed_memory, use_fast_layers
from remedy.models.decoder import Block, DecoderForCausalLM
from remedy.models.protocol import CausalLM
from remedy.processes import module_command, this_process
from remedy.settings import ConfigError, UserError
from remedy.train.config import ADAMW, RunConfig, TrainSettings
from remedy.train.division import DeepSpeedSettings, FsdpSettings, passes
from remedy.train.masters import MasterWeights

JSON_FILE = "deepspeed.json"
FILLED: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,  # else Accelerate replaces an offloaded AdamW by DeepSpeed's own
}
"""The JSON without ZeRO's section; Transformers replaces `auto` by the training arguments' values."""
OFFLOADED = {"none": (), "optimizer": ("offload_optimizer",), "all": ("offload_optimizer", "offload_param")}

LOAD_UNIVERSAL = {"checkpoint": {"load_universal": True}}
"""The section of DeepSpeed's JSON that makes it load a universal checkpoint."""


def deepspeed_json(settings: DeepSpeedSettings) -> dict[str, Any]:
    """Build a run's DeepSpeed JSON from its settings or file.

    Raises:
        ConfigError: the file cannot be read, or repeats other settings.
    """
    # Under stage 3, Accelerate saves whole weights only with this key.
    zero: dict[str, Any] = {"stage": 1, "stage3_gather_16bit_weights_on_model_save": True}
    if settings.file is not None:
        data = _read(settings.file)
        return FILLED | data | {"zero_optimization": zero | data.get("zero_optimization", {})}
    zero["stage"] = settings.stage
    zero |= {part: {"device": "cpu", "pin_memory": True} for part in OFFLOADED[settings.offload]}
    if settings.param_persistence_threshold is not None:
        zero["stage3_param_persistence_threshold"] = settings.param_persistence_threshold
    return FILLED | {"zero_optimization": zero}


def fsdp_arguments(settings: FsdpSettings | None) -> dict[str, Any]:
    """Return Transformers' arguments for FSDP2, whose checkpoints hold whole weights."""
    if settings is None:
        return {}
    options = {"reshard_after_forward": settings.reshard, "cpu_offload": settings.offload}
    return {"fsdp": True, "fsdp_config": {"version": 2, "state_dict_type": "FULL_STATE_DICT", **options}}


def check_fsdp(on_cpu: bool, world_size: int) -> None:
    """Raise a UserError where FSDP2 would divide nothing."""
    if on_cpu:  # Accelerate 1.15 drops it there without a word
        raise UserError(
            "train.fsdp needs GPUs: on CPUs Accelerate divides nothing; use train.deepspeed={stage: 3} here"
        )
    if world_size == 1:
        raise UserError(
            "train.fsdp divides a run over processes, and this is one: start it with torchrun, or remove it"
        )


def zero_stage(settings: TrainSettings) -> int:
    """Return the ZeRO stage of a run; 0 without DeepSpeed."""
    return 0 if settings.deepspeed is None else deepspeed_json(settings.deepspeed)["zero_optimization"]["stage"]


def join(on_cpu: bool) -> None:
    """Join the process group through DeepSpeed, alone if there is no launcher.

    Raises:
        ConfigError: DeepSpeed is not installed.
    """
    try:
        import deepspeed
        from deepspeed.ops import __compatible_ops__
    except ImportError:
        raise ConfigError(f"train.deepspeed: DeepSpeed is not installed: {install('deepspeed')}") from None

    if on_cpu:  # compiling this op takes half a minute, and gloo does the same
        __compatible_ops__["deepspeed_shm_comm"] = False
    if "RANK" not in os.environ:  # DeepSpeed wants a group even of one process
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if not on_cpu:
        torch.cuda.set_device(this_process().local_rank)
    # Before weights exist: ZeRO-3 divides them over the processes that it knows then.
    deepspeed.init_distributed(dist_backend="gloo" if on_cpu else "nccl", auto_mpi_discovery=False, verbose=False)


def gather_by_layer(decoder: DecoderForCausalLM) -> None:
    """Let ZeRO-3 gather weights once per layer call, not per submodule call."""
    from deepspeed.utils import set_z3_leaf_modules

    # A mixer is called for each group of packed examples: processes with different numbers of groups would deadlock.
    set_z3_leaf_modules(decoder, [Block])


def _read(file: str) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"train.deepspeed.file: {file}: cannot be read as JSON ({error})") from None
    if not isinstance(data, dict) or not isinstance(data.get("zero_optimization", {}), dict):
        raise ConfigError(f"train.deepspeed.file: {file}: must be a mapping, and so must its `zero_optimization`")
    for section, why in (
        ("optimizer", "train.optim, learning_rate, weight_decay and adam_beta2"),
        ("scheduler", "train.lr_scheduler_type and warmup_ratio"),
    ):
        if section in data:
            raise ConfigError(f"{file}: `{section}` is set by {why} here; remove the section")
    return data


def to_universal(checkpoint: Path, step: int) -> None:
    """Convert a checkpoint to DeepSpeed's universal form.

    Raises:
        UserError: DeepSpeed cannot convert it; the message ends with its reason.
    """
    source, target = checkpoint / f"global_step{step}", checkpoint / f"global_step{step}_universal"
    shutil.rmtree(target, ignore_errors=True)
    folders = ["--input_folder", str(source), "--output_folder", str(target)]
    command = module_command("deepspeed.checkpoint.ds_to_universal", "--inject_missing_state", *folders)
    conversion = subprocess.run(command, capture_output=True, text=True, check=False)
    if conversion.returncode:
        lines = [line for line in conversion.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise UserError(
            f"{checkpoint}: cannot be read by another number of processes ({lines[-1].strip()}); resume on as many as wrote it"
        )


class FixUniversalOptimizerState(TrainerCallback):
    """Workaround for two bugs in loading universal checkpoints under ZeRO-3 (DeepSpeed 0.19.8)."""

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer = kwargs["optimizer"]
        while hasattr(optimizer, "optimizer"):  # Accelerate's wrapper, then DeepSpeed's
            optimizer = optimizer.optimizer
        # All parameters share one step counter, which each advances, so that Adam's bias correction runs ahead.
        for values in optimizer.state.values():
            if torch.is_tensor(values.get("step")):
                values["step"] = values["step"].clone()
        # Trainer's two groups, what decays and what does not, were both given the hyperparameters of the first.
        for group, decay in zip(optimizer.param_groups, (args.weight_decay, 0.0)):
            group["weight_decay"] = decay


def hold_in_bf16(config: RunConfig, arguments: TrainingArguments, model: CausalLM) -> dict[str, Any]:
    """Prepare a pretrained model for bfloat16 on a CPU; return the Trainer's options."""
    adapted = hasattr(model, "get_base_model")
    base: Any = model.get_base_model() if adapted else model  # type: ignore[attr-defined]
    in_float32 = base._keep_in_fp32_modules or base._keep_in_fp32_modules_strict
    if not (arguments.bf16 and arguments.use_cpu) or arguments.deepspeed:
        return {}
    if isinstance(base, DecoderForCausalLM) or in_float32:
        return {}
    # Autocast alone would cast the weights in every step.
    if not adapted:  # autocast remains, and keeps activations in float32
        # Output embeddings may share the input's weights, which stay in float32.
        tables = {id(module.weight) for module in base.modules() if isinstance(module, nn.Embedding)}
        linear = [module.weight for module in base.modules() if isinstance(module, nn.Linear)]
        rounded = [weight for weight in linear if id(weight) not in tables]
    else:  # without autocast, activations are in bfloat16, as the frozen weights are
        arguments.bf16, arguments.mixed_precision = False, "no"
        rounded = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in rounded:  # PEFT leaves whole embeddings in the precision of frozen weights
        weight.data = weight.data.float()
    keep_freed_memory()
    if not config.train.torch_compile:
        use_fast_layers(model)
    optimizer, options = Trainer.get_optimizer_cls_and_kwargs(arguments)
    if optimizer is not torch.optim.AdamW:
        raise UserError(
            f"train.optim {config.train.optim}: bf16 on a CPU needs AdamW here; use it, or train.precision=fp32"
        )
    return {"optimizer_cls_and_kwargs": (MasterWeights, {**options, "rounded": rounded})}


def training_arguments(config: RunConfig, world_size: int, resharded: bool = False) -> TrainingArguments:
    """Build Hugging Face's arguments and join the process group.

    Raises:
        UserError: the batch cannot be divided over the processes; the machine lacks precision, optimizer, tracker,
            DeepSpeed or FSDP2; or the DeepSpeed JSON contradicts the settings.
    """
    settings = config.train
    count = passes(settings.batch_size, settings.micro_batch_size, world_size)
    on_cpu = not torch.cuda.is_available()
    if on_cpu and settings.precision == "fp16":
        raise UserError("train.precision fp16 needs a CUDA device; use bf16 or fp32 here")
    if settings.fsdp is not None:
        check_fsdp(on_cpu, world_size)
    elif os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true":  # it would be used on GPUs, and dropped on CPUs
        raise UserError(
            "accelerate launch was given FSDP, which is read from train.fsdp here: set train.fsdp={}, or take it out of accelerate's "
            "configuration"
        )
    deepspeed: dict[str, Any] | None = None
    if settings.deepspeed is not None:
        deepspeed = deepspeed_json(settings.deepspeed) | (LOAD_UNIVERSAL if resharded else {})
        join(on_cpu)
    stage = deepspeed["zero_optimization"]["stage"] if deepspeed is not None else 0
    arguments = TrainingArguments(
        output_dir=config.output,
        max_steps=settings.total_steps,
        per_device_train_batch_size=settings.batch_size // (world_size * count),
        gradient_accumulation_steps=count,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine_with_min_lr" if settings.min_lr_ratio else settings.lr_scheduler_type,
        lr_scheduler_kwargs={"min_lr_rate": settings.min_lr_ratio} if settings.min_lr_ratio else None,
        warmup_steps=round(settings.warmup_ratio * settings.total_steps),  # of the ratio 1, Trainer would make 1 step
        weight_decay=settings.weight_decay,
        adam_beta2=settings.adam_beta2,
        max_grad_norm=settings.max_grad_norm,
        optim=settings.optim,
        bf16=settings.precision == "bf16",
        fp16=settings.precision == "fp16",
        gradient_checkpointing=settings.gradient_checkpointing,
        # ZeRO-3 has divided the weights again when activations are recomputed: only the reentrant form allows that.
        gradient_checkpointing_kwargs={"use_reentrant": stage == 3},
        torch_compile=settings.torch_compile,
        train_sampling_strategy="sequential",  # the row's number decides its stage and example
        seed=settings.seed,
        logging_steps=settings.logging_steps,
        logging_nan_inf_filter=False,  # it would log the mean of earlier losses in place of a NaN
        disable_tqdm=True,  # `progress` shows one line instead
        eval_strategy="steps" if settings.evaluate_every else "no",
        eval_steps=settings.evaluate_every,
        metric_for_best_model=settings.keep_best or ("loss" if settings.patience is not None else None),
        save_steps=settings.save_steps,
        save_total_limit=None,  # `Checkpoints` prunes, once a checkpoint is sealed
        report_to=config.tracking.others,  # `Tracking` logs to W&B, and resumes the same run there
        run_name=config.name,
        project=config.tracking.project,
        remove_unused_columns=False,
        dataloader_num_workers=settings.dataloader_num_workers,
        ddp_find_unused_parameters=False,
        use_cpu=on_cpu,
        deepspeed=deepspeed,
        **fsdp_arguments(settings.fsdp),
    )
    if settings.deepspeed is not None and (differ := arguments.hf_deepspeed_config.mismatches):
        conflicts = "; ".join(line.removeprefix("- ds ").replace(" vs hf ", ", but train's ") for line in differ)
        raise ConfigError(f'{settings.deepspeed.file}: {conflicts}: make them agree, or write "auto" in the file')
    _check_optimizer(settings, arguments)
    others = config.tracking.others
    if missing := sorted(set(others) - set(get_available_reporting_integrations())) if others else []:
        raise UserError(
            f"tracking.report_to: {missing[0]} is not installed: run `pip install {missing[0]}`, or remove it"
        )
    # One GPU per process: Transformers would copy the model to all visible ones, and multiply the batch.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def _check_optimizer(settings: TrainSettings, arguments: TrainingArguments) -> None:
    if settings.optim == ADAMW:
        return
    try:
        options = Trainer.get_optimizer_cls_and_kwargs(arguments)[1]
    except (ImportError, ValueError) as error:
        raise UserError(f"train.optim {settings.optim} cannot be used here: {one_line(str(error))}") from None
    beta2 = settings.adam_beta2
    if "betas" not in options and beta2 != TrainSettings.model_fields["adam_beta2"].default:
        raise ConfigError(f"train.adam_beta2 {beta2:g} does nothing with train.optim {settings.optim}: remove it")
