"""Hugging Face's training arguments from a run's settings."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainingArguments

from remedy.settings import UserError
from remedy.train.config import RunConfig, TrainSettings
from remedy.train.deepspeed import LOAD_UNIVERSAL, deepspeed_json, join, refuse_mismatches


def rows_at_once(settings: TrainSettings, world_size: int) -> int:
    """Rows that each of so many processes computes at once.

    Raises:
        UserError: the batch cannot be divided over the processes.
    """
    pieces = world_size * settings.gradient_accumulation_steps
    if settings.batch_size % pieces:
        raise UserError(
            f"train.batch_size ({settings.batch_size}) is not a multiple of {world_size} processes x "
            f"train.gradient_accumulation_steps ({settings.gradient_accumulation_steps}); choose a multiple of {pieces}"
        )
    return settings.batch_size // pieces


def training_arguments(config: RunConfig, world_size: int, resharded: bool = False) -> TrainingArguments:
    """Hugging Face's arguments for a run over `world_size` processes; making them joins the process group.

    Raises:
        UserError: the batch cannot be divided over the processes, or this machine cannot compute as asked.
    """
    settings = config.train
    rows = rows_at_once(settings, world_size)
    on_cpu = not torch.cuda.is_available()
    if on_cpu and settings.precision == "fp16":
        raise UserError("train.precision fp16 needs a CUDA device; use bf16 or fp32 here")
    deepspeed: dict[str, Any] | None = None
    if settings.deepspeed is not None:
        deepspeed = deepspeed_json(settings.deepspeed) | (LOAD_UNIVERSAL if resharded else {})
        join(on_cpu)
    stage = deepspeed["zero_optimization"]["stage"] if deepspeed is not None else 0
    arguments = TrainingArguments(
        output_dir=config.output,
        max_steps=settings.total_steps,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine_with_min_lr" if settings.min_lr_ratio else settings.lr_scheduler_type,
        lr_scheduler_kwargs={"min_lr_rate": settings.min_lr_ratio} if settings.min_lr_ratio else None,
        warmup_steps=round(settings.warmup_ratio * settings.total_steps),
        weight_decay=settings.weight_decay,
        adam_beta2=settings.adam_beta2,
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.precision == "bf16",
        fp16=settings.precision == "fp16",
        gradient_checkpointing=settings.gradient_checkpointing,
        # Under ZeRO-3 a weight is in pieces again when activations are computed anew, which only the reentrant form allows.
        gradient_checkpointing_kwargs={"use_reentrant": stage == 3},
        torch_compile=settings.torch_compile,
        seed=settings.seed,
        logging_steps=settings.logging_steps,
        logging_nan_inf_filter=False,
        disable_tqdm=True,  # `progress` shows one line instead
        eval_strategy="steps" if settings.evaluate_every else "no",
        eval_steps=settings.evaluate_every,
        metric_for_best_model=settings.keep_best,
        save_steps=settings.save_steps,
        save_total_limit=None,  # `Checkpoints` prunes, once a checkpoint is sealed
        report_to=[],
        remove_unused_columns=False,
        dataloader_num_workers=settings.dataloader_num_workers,
        ddp_find_unused_parameters=False,
        use_cpu=on_cpu,
        deepspeed=deepspeed,
    )
    if settings.deepspeed is not None:
        refuse_mismatches(arguments, settings.deepspeed.file)
    # One GPU for a process: with several in sight Transformers would copy the model to all of them, and multiply the batch.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments
