"""One training run, from a resolved configuration to a saved model; the same code in one process and under any launcher."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainingArguments, set_seed

from remedy.data_gen.config import UserError, dump, load
from remedy.models.checkpoint import RemedyConfig
from remedy.models.decoder import RemedyForCausalLM, parameter_count
from remedy.models.tokenizers import TraceTokenizer, build_tokenizer
from remedy.train.config import RunConfig, TrainConfig
from remedy.train.data import Collator, TraceDataset
from remedy.train.shards import ShardDataset
from remedy.train.tracking import MetricsFile, WandbRun
from remedy.train.trainer import MarkComplete, RowTrainer, last_complete_checkpoint

CONFIG_FILE = "config.yaml"


def train(config: RunConfig, resume: bool = False) -> Path:
    """Train and save; returns the run's folder, which holds model, tokenizer, resolved config and metrics.

    Raises:
        UserError: the output holds another run's checkpoints and `resume` was not asked for, or resume does not fit.
    """
    output = Path(config.output)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    main = int(os.environ.get("RANK", "0")) == 0
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    checkpoint = _starting_point(config, output, resume)
    if main:
        output.mkdir(parents=True, exist_ok=True)
        partial = output / f".{CONFIG_FILE}.partial"  # other processes may be reading the one there is
        partial.write_text(dump(config), encoding="utf-8")
        os.replace(partial, output / CONFIG_FILE)

    tokenizer = build_tokenizer(config.tokenizer, config.data)
    set_seed(config.train.seed)
    arguments = training_arguments(config, world)
    model = RemedyForCausalLM(model_config(config, tokenizer))
    rows: Any = TraceDataset(config.data, tokenizer, config.train)
    if config.shards:
        rows = ShardDataset(Path(config.shards), config.data, tokenizer, config.train)
    trainer = RowTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=Collator(tokenizer.pad_id, config.train.loss_roles()),
        callbacks=[MetricsFile(output), MarkComplete(), *([WandbRun(config, output)] if config.tracking.wandb else [])],
    )
    if main:
        print(f"{config.name}: {parameter_count(model):,} parameters, {config.train.total_steps} steps", flush=True)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_model(str(output))
    if main:
        tokenizer.save(output)
    return output


def model_config(config: RunConfig, tokenizer: TraceTokenizer) -> RemedyConfig:
    """The decoder's configuration for a tokenizer."""
    return RemedyConfig.from_model(
        config.model,
        tokenizer.vocab_size,
        tokenizer.fingerprint,
        pad_token_id=tokenizer.pad_id,
        bos_token_id=tokenizer.bos_id,
        eos_token_id=tokenizer.eos_id,
    )


def training_arguments(config: RunConfig, world: int) -> TrainingArguments:
    """Hugging Face's arguments for a run over `world` processes."""
    settings = config.train
    if settings.batch_size % (world * settings.accumulate):
        raise UserError(
            f"train.batch_size ({settings.batch_size}) is not a multiple of {world} processes x train.accumulate "
            f"({settings.accumulate}); choose a multiple of {world * settings.accumulate}"
        )
    return TrainingArguments(
        output_dir=config.output,
        max_steps=settings.total_steps,
        per_device_train_batch_size=settings.batch_size // (world * settings.accumulate),
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=round(settings.warmup * settings.total_steps),
        weight_decay=settings.weight_decay,
        adam_beta2=settings.beta2,
        max_grad_norm=settings.clip,
        bf16=settings.bf16,
        seed=settings.seed,
        logging_steps=settings.log_every,
        logging_nan_inf_filter=False,
        save_steps=settings.save_every,
        save_total_limit=settings.keep_last,
        report_to=[],
        remove_unused_columns=False,
        dataloader_num_workers=0,
        ddp_find_unused_parameters=False,
        use_cpu=not torch.cuda.is_available(),
        deepspeed=deepspeed_config(settings) if settings.zero_stage is not None else None,
    )


def deepspeed_config(settings: TrainConfig) -> dict[str, Any]:
    """DeepSpeed's JSON from ours; what both know is left to Trainer to fill in from ours."""
    assert settings.zero_stage is not None
    from deepspeed.ops import __compatible_ops__

    # On a CPU this op would be compiled for half a minute at first use; gloo does the same work.
    if not torch.cuda.is_available():
        __compatible_ops__["deepspeed_shm_comm"] = False
    if "RANK" not in os.environ:  # plain `python`: a world of one
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    return {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "zero_optimization": {
            "stage": settings.zero_stage,
            "stage3_gather_16bit_weights_on_model_save": True,
        },
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


def finish() -> None:
    """Leave a distributed run cleanly.

    Two gloo processes sometimes abort while the interpreter shuts down, after all work is done; ending the process here
    avoids that.
    """
    if dist.is_available() and dist.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
        os._exit(0)


FREE_ON_RESUME = {"log_every", "save_every", "keep_last", "threads"}
"""Training settings that may change when a run is resumed; any other would make it another run."""


def _same_run(config: RunConfig, output: Path) -> None:
    path = output / CONFIG_FILE
    if not path.exists():
        return
    before, now = load(RunConfig, path).model_dump(), config.model_dump()
    for key in ("data", "tokenizer", "model", "shards"):
        if before[key] != now[key]:
            raise UserError(f"--resume: `{key}` differs from that of the run in {output} ({path}); use another output")
    for key, value in now["train"].items():
        if key not in FREE_ON_RESUME and before["train"][key] != value:
            raise UserError(
                f"--resume: train.{key} is {value} but was {before['train'][key]} in {path}; use another output"
            )


def _starting_point(config: RunConfig, output: Path, resume: bool) -> Path | None:
    checkpoint = last_complete_checkpoint(output)
    if not resume:
        if checkpoint is not None:
            raise UserError(
                f"output: {output} already holds {checkpoint.name}; pass --resume to continue it, or choose another output"
            )
        return None
    _same_run(config, output)
    if checkpoint is None:
        for partial in output.glob("checkpoint-*"):
            shutil.rmtree(partial, ignore_errors=True)
    return checkpoint
