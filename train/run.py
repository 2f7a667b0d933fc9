"""One training run, from a resolved configuration to a saved model; the same code in one process and under any launcher."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainingArguments, set_seed

from remedy.data_gen.settings import UserError, dump, load
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM, parameter_count
from remedy.models.decoder_config import DecoderConfig
from remedy.models.flops import device_peak
from remedy.models.kernels import describe
from remedy.models.pretrained import build_pretrained
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.train.checkpoints import Checkpoints, Sealed, set_aside, survey
from remedy.train.config import RunConfig
from remedy.train.data import Collator, TraceDataset
from remedy.train.deepspeed import JSON_FILE, deepspeed_json, join, zero_stage
from remedy.train.resharding import MendAfterResharding, to_universal, universal_json
from remedy.train.shards import ShardDataset
from remedy.train.stopping import StopOnSignal, Stopped
from remedy.train.tracking import MetricsFile, WandbRun
from remedy.train.trainer import NotFinite, RowTrainer

CONFIG_FILE = "config.yaml"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def train(config: RunConfig, resume: bool = False) -> Path:
    """Train and save; returns the run's folder, which holds model, tokenizer, resolved config and metrics.

    Raises:
        UserError: the output holds another run's checkpoints and `resume` was not asked for, resume does not fit, memory ran
            out, or the loss became no number.
        Stopped: SIGTERM or SIGUSR1 ended the run after a step, with a checkpoint to resume from.
    """
    # What these libraries will rename among themselves is not for a user to read at every step.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch|transformers|peft|deepspeed")
    output = Path(config.output)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    main = int(os.environ.get("RANK", "0")) == 0
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    checkpoint, damaged = _starting_point(config, output, resume)
    resharded = checkpoint is not None and checkpoint.world_size != world and config.train.deepspeed is not None
    arguments = training_arguments(config, world, resharded)  # joins the other processes
    if main:
        _prepare(config, output, arguments, checkpoint, damaged, world)
    if world > 1:
        dist.barrier()

    tokenizer = build_tokenizer(config.tokenizer, config.data)
    set_seed(config.train.seed)
    model = build_model(config, tokenizer)
    rows = build_rows(config, tokenizer)
    stop = StopOnSignal()
    tracking = [MetricsFile(output), *([WandbRun(config, output)] if config.tracking.wandb else [])]
    trainer = RowTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=Collator(tokenizer.pad_id, config.train.supervised()),
        callbacks=[
            *tracking,
            Checkpoints(config.train.save_total_limit),
            stop,
            *([MendAfterResharding()] if resharded else []),
        ],
        peak=device_peak(config.tracking.peak_tflops),
    )
    if main:
        _announce(config, model)
    with _explained(trainer, rows, config, output):
        trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    if stop.received and trainer.state.global_step < config.train.total_steps:
        raise Stopped(
            f"{stop.received} after step {stop.step} of {config.train.total_steps}; --resume goes on from there"
        )
    trainer.save_model(str(output))
    if main:
        tokenizer.save(output)
    return output


def build_model(config: RunConfig, tokenizer: TraceTokenizer) -> Any:
    """What the run trains.

    Raises:
        UserError: as `build_pretrained`.
    """
    if isinstance(config.model, DecoderSettings):
        return DecoderForCausalLM(model_config(config.model, tokenizer))
    return build_pretrained(
        config.model, tokenizer, DTYPES[config.train.precision], sharded=zero_stage(config.train) == 3
    )


def build_rows(config: RunConfig, tokenizer: TraceTokenizer) -> TraceDataset | ShardDataset:
    """What the run trains on, in order.

    Raises:
        UserError: as `ShardDataset`, or shards are given with a mixture.
    """
    if not config.shards:
        return TraceDataset(config, tokenizer)
    if config.mixture:
        raise UserError("shards: hold one data configuration; remove `shards` or the mixture")
    return ShardDataset(Path(config.shards), config.data, tokenizer, config.train)


def model_config(config: DecoderSettings, tokenizer: TraceTokenizer) -> DecoderConfig:
    """The decoder's configuration for a tokenizer."""
    return DecoderConfig.from_settings(
        config,
        tokenizer.vocab_size,
        tokenizer.fingerprint,
        pad_token_id=tokenizer.pad_id,
        bos_token_id=tokenizer.bos_id,
        eos_token_id=tokenizer.eos_id,
    )


def training_arguments(config: RunConfig, world: int, resharded: bool = False) -> TrainingArguments:
    """Hugging Face's arguments for a run over `world` processes; making them joins the process group.

    Raises:
        UserError: the batch cannot be divided over the processes, or this machine cannot compute as asked.
    """
    settings = config.train
    if settings.batch_size % (world * settings.gradient_accumulation_steps):
        raise UserError(
            f"train.batch_size ({settings.batch_size}) is not a multiple of {world} processes x train.gradient_accumulation_steps "
            f"({settings.gradient_accumulation_steps}); choose a multiple of {world * settings.gradient_accumulation_steps}"
        )
    on_cpu = not torch.cuda.is_available()
    if on_cpu and settings.precision == "fp16":
        raise UserError("train.precision fp16 needs a CUDA device; use bf16 or fp32 here")
    deepspeed: dict[str, Any] | None = None
    if settings.deepspeed is not None:
        deepspeed = deepspeed_json(settings, world) | (universal_json() if resharded else {})
        join(on_cpu)
    stage = deepspeed["zero_optimization"]["stage"] if deepspeed is not None else 0
    return TrainingArguments(
        output_dir=config.output,
        max_steps=settings.total_steps,
        per_device_train_batch_size=settings.batch_size // (world * settings.gradient_accumulation_steps),
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.lr_scheduler_type,
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
        save_steps=settings.save_steps,
        save_total_limit=None,  # `Checkpoints` prunes, once a checkpoint is sealed
        report_to=[],
        remove_unused_columns=False,
        dataloader_num_workers=settings.dataloader_num_workers,
        ddp_find_unused_parameters=False,
        use_cpu=on_cpu,
        deepspeed=deepspeed,
    )


@contextlib.contextmanager
def _explained(trainer: RowTrainer, rows: Any, config: RunConfig, output: Path) -> Iterator[None]:
    """Turns what a user can put right during training into a message that says how."""
    settings = config.train
    try:
        yield
    except NotFinite as error:
        step = error.step
        examples = rows.describe(range((step - 1) * settings.batch_size, step * settings.batch_size))
        kept, _ = survey(output)
        rest = f"{kept.path.name} is the last good checkpoint" if kept else "no checkpoint was written before"
        raise UserError(
            f"step {step}: the loss is not a number ({examples}); {rest}. Lower train.learning_rate or train.max_grad_norm, raise "
            "train.warmup_ratio, or use fp32"
        ) from None
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and "allocate memory" not in str(error):
            raise
        batch, length = trainer.shape or (settings.batch_size, 0)
        raise UserError(
            f"out of memory at {batch} rows of {length} tokens in a process: raise train.gradient_accumulation_steps "
            f"(now {settings.gradient_accumulation_steps}), "
            "lower train.batch_size, make examples shorter (data.task, data.reveal.max_tokens), or set "
            "train.gradient_checkpointing=true; with several GPUs, train.deepspeed.stage=3"
        ) from None


def _announce(config: RunConfig, model: Any) -> None:
    """What is trained, and by which kernels."""
    print(f"{config.name}: {parameter_count(model):,} trained parameters, {config.train.total_steps} steps", flush=True)
    if isinstance(model, DecoderForCausalLM):
        settings = model.config
        line = describe(settings.layer_mixers, settings.eigenvalues, config.train.precision)
        print(f"mixers: {line}", flush=True)


def _prepare(
    config: RunConfig,
    output: Path,
    arguments: TrainingArguments,
    checkpoint: Sealed | None,
    damaged: dict[Path, str],
    world: int,
) -> None:
    """What one process does for all before training: the settings into the run's folder, its checkpoints into order."""
    output.mkdir(parents=True, exist_ok=True)
    partial = output / f".{CONFIG_FILE}.partial"  # other processes may be reading the one there is
    partial.write_text(dump(config), encoding="utf-8")
    os.replace(partial, output / CONFIG_FILE)
    if arguments.deepspeed is not None:
        (output / JSON_FILE).write_text(json.dumps(arguments.deepspeed, indent=2), encoding="utf-8")
    for sentence in set_aside(output, checkpoint, damaged):
        print(f"{output}: {sentence}", file=sys.stderr, flush=True)
    if checkpoint is not None and checkpoint.world_size != world:
        print(f"{checkpoint.path.name}: written by {checkpoint.world_size} processes, read by {world}", flush=True)
        if arguments.deepspeed is not None:
            to_universal(checkpoint.path, checkpoint.step)


def finish(status: int = 0) -> None:
    """Leave a distributed run cleanly, with an exit status.

    Two gloo processes sometimes abort while the interpreter shuts down, after all work is done; ending the process here
    avoids that.
    """
    if dist.is_available() and dist.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
        os._exit(status)
    if status:
        sys.exit(status)


FREE_ON_RESUME = {
    "logging_steps",
    "save_steps",
    "save_total_limit",
    "threads",
    "dataloader_num_workers",
    "torch_compile",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
}
"""Training settings that may change when a run is resumed: what is computed stays the same. Any other makes it another run."""


def _same_run(config: RunConfig, output: Path) -> None:
    path = output / CONFIG_FILE
    if not path.exists():
        return
    before, now = load(RunConfig, path).model_dump(), config.model_dump()
    for key in ("data", "mixture", "tokenizer", "model", "shards"):
        if before[key] != now[key]:
            raise UserError(f"--resume: `{key}` differs from that of the run in {output} ({path}); use another output")
    for key, value in now["train"].items():
        if key not in FREE_ON_RESUME and before["train"][key] != value:
            raise UserError(
                f"--resume: train.{key} is {value} but was {before['train'][key]} in {path}; use another output"
            )


def _starting_point(config: RunConfig, output: Path, resume: bool) -> tuple[Sealed | None, dict[Path, str]]:
    """The checkpoint to go on from, and those that cannot be; changes nothing, since other processes look as well."""
    checkpoint, damaged = survey(output)
    if resume:
        _same_run(config, output)
        return checkpoint, damaged
    if checkpoint is not None:
        raise UserError(
            f"output: {output} already holds {checkpoint.path.name}; pass --resume to continue it, or choose another output"
        )
    return None, {}
