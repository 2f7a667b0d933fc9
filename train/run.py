"""One training run, from configuration to saved model."""

from __future__ import annotations

import contextlib
import json
import logging
import shlex
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerState, TrainingArguments, set_seed
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging as transformers_logging

from remedy.checksums import write_json
from remedy.data_gen.roles import Role
from remedy.files import write_text
from remedy.models.card import write_card
from remedy.models.config import DecoderSettings, matched
from remedy.models.cpu_training import precision_advice
from remedy.models.decoder import DecoderForCausalLM, parameter_count
from remedy.models.decoder_config import DecoderConfig
from remedy.models.hub_loading import read
from remedy.models.loading import PRECISIONS, load_checkpoint
from remedy.models.mixers.used_kernels import describe_kernels, find_kernels, kernels_of
from remedy.models.model_manifest import CONFIG_FILE, SEAL, TRAINING, Computed, Training, seal_model
from remedy.models.pretrained import build_pretrained, is_in_4bit
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.owner import owned
from remedy.plugins import plugins_section
from remedy.processes import Process, this_process
from remedy.settings import ConfigError, UserError, dump
from remedy.train.arguments import (
    JSON_FILE,
    FixUniversalOptimizerState,
    gather_by_layer,
    hold_in_bf16,
    to_universal,
    training_arguments,
    zero_stage,
)
from remedy.train.checkpoints import Checkpoints, NewSchedule, SealedCheckpoint, copy_model, quarantine, starting_point
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.data import Rows, ShardDataset, TraceDataset
from remedy.train.division import describe_step
from remedy.train.processes import StopOnSignal
from remedy.train.tracking import ProgressLine, Tracking
from remedy.train.trainer import RowTrainer, explained, saving

log = logging.getLogger(__name__)
DTYPES = {**PRECISIONS, "fp16": torch.float16}
SAVED = 200_000_000
"""The most weights that `try_saving` saves and reads: a few seconds."""


def train(config: RunConfig, resume: bool = False) -> Path:
    """Train and save; return the run's folder.

    A run of 0 steps saves the initial model.

    Raises:
        UserError: another process trains into the output, it holds a run without `resume`, resume does not fit, memory
            ran out, the loss became NaN or infinite, or the settings are of several runs (`train.stacked`).
        TrainingStopped: SIGTERM, SIGUSR1 or SIGINT ended the run after a step, with a checkpoint.
    """
    output, process = Path(config.output), this_process()
    if config.train.stacked is not None:
        raise ConfigError(
            f"train.stacked {config.train.stacked}: this is one run's training; `remedy train` makes them all"
        )
    quieten(config)
    with owned(output) if process.is_main else contextlib.nullcontext():
        if config.train.total_steps:
            _train(config, output, process, resume)
        elif process.is_main:
            _keep_untrained(config, output, resume)
    return output


def _train(config: RunConfig, output: Path, process: Process, resume: bool) -> None:
    checkpoint, damaged = starting_point(config, output, resume)
    resharded = (
        checkpoint is not None and checkpoint.world_size != process.world_size and config.train.deepspeed is not None
    )
    arguments = training_arguments(config, process.world_size, resharded)  # joins the other processes
    if process.is_main:
        prepare(config, arguments, checkpoint, damaged)
    if process.world_size > 1:
        dist.barrier()  # `prepare` may convert the checkpoint that all read

    tokenizer = build_tokenizer(config.tokenizer, config.data)
    set_seed(config.train.seed)  # last before the model, so that its weights depend on nothing else
    model = build_model(config, tokenizer)
    decoder, dtype = model if isinstance(model, DecoderForCausalLM) else None, DTYPES[config.train.precision]
    if decoder is not None:  # on every process, and before the Trainer wraps the model
        find_kernels(decoder.mixers(), arguments.device, dtype)
        if config.train.pack > 1 and zero_stage(config.train) == 3:
            gather_by_layer(decoder)
    rows = build_rows(config, tokenizer)
    if process.is_main:
        try_saving(config, model, tokenizer)
    stop, progress, tracking = StopOnSignal(), ProgressLine(config.name), Tracking(config)
    # StopOnSignal first: handlers are set before any sign that training has begun.
    callbacks: list[TrainerCallback] = [stop, tracking, Checkpoints(config), progress]
    if resharded:
        callbacks.append(FixUniversalOptimizerState())
    if checkpoint is not None:
        callbacks.append(NewSchedule(checkpoint))
    show = tracking.samples if config.tracking.wandb else None
    options = hold_in_bf16(config, arguments, model)
    trainer = RowTrainer(config, tokenizer, rows, show, model=model, args=arguments, callbacks=callbacks, **options)
    if process.is_main:
        announce(config, model, arguments.device)
    if not trainer.ended_early(checkpoint.path if checkpoint else None):
        with stop, progress, explained(trainer):
            trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    # Under a launcher, this process does not know the command.
    command = f"remedy train {shlex.quote(str(output / CONFIG_FILE))}"
    stop.check(trainer.state, command if process.world_size == 1 else "the same command, and")
    mixers = kernels_of(decoder.mixers(), arguments.device, dtype) if decoder else {}
    keep_trained(trainer, {"mixers": mixers, "all_logits": trainer.all_logits})


def quieten(config: RunConfig) -> None:
    """Set this process's threads and silence libraries."""
    # What libraries will rename among themselves is nothing to a user.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch|transformers|peft|deepspeed")
    transformers_logging.disable_progress_bar()
    if config.train.threads:
        torch.set_num_threads(config.train.threads)


def try_saving(config: RunConfig, model: CausalLM, tokenizer: TraceTokenizer) -> None:
    """Save and read the model in a temporary folder, to fail before training.

    Weights are left out above SAVED, in 4 bits or if divided over processes.

    Raises:
        UserError: it cannot be saved or read.
    """
    weights = sum(part.numel() for part in model.parameters())
    with_weights = weights <= SAVED and zero_stage(config.train) != 3 and not is_in_4bit(model)
    part: Any = model if with_weights else model.config

    def attempt() -> None:
        _begin(config, folder)
        with saving(folder):
            part.save_pretrained(folder)
        _finish(config, folder, tokenizer, TrainerState(), None)
        if with_weights:
            load_checkpoint(str(folder), "cpu")

    # In the output, so that its disk is tried. Reading a model draws random numbers, which training must not notice.
    with tempfile.TemporaryDirectory(prefix=".trial-", dir=config.output) as name, torch.random.fork_rng(devices=[]):
        folder = Path(name)
        read(f"{config.output}: the model cannot be saved and read again, which was tried before training", attempt)


def keep_trained(trainer: RowTrainer, computed: Computed) -> None:
    """Save a trained model, the last or best, on every process."""
    config, output = trainer.config, Path(trainer.config.output)
    best = trainer.state.best_global_step if config.train.keep_best else None
    if best is None:
        trainer.save_model(str(output))
    if this_process().is_main:
        if best is not None:
            copy_model(output / f"{PREFIX_CHECKPOINT_DIR}-{best}", output)
        _finish(config, output, trainer.tokenizer, trainer.state, computed)


def _keep_untrained(config: RunConfig, output: Path, resume: bool) -> None:
    """Save the initial model; new adapters change nothing."""
    starting_point(config, output, resume)
    _begin(config, output)
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    set_seed(config.train.seed)
    model: Any = build_model(config, tokenizer)
    log.info("%s: 0 steps, so the model is kept as it is", config.name)
    model.save_pretrained(output)
    _finish(config, output, tokenizer, TrainerState(), None)


def _finish(
    config: RunConfig, output: Path, tokenizer: TraceTokenizer, state: TrainerState, computed: Computed | None
) -> None:
    """Write the files beside a finished model, the seal last."""
    if (output / CONFIG_FILE).read_text(encoding="utf-8") != dump(config):
        raise UserError(
            f"{output / CONFIG_FILE}: was changed while this run trained, by another training or by hand, so that the model is not "
            "sealed: give the same command with --resume, and one output to each run"
        )
    tokenizer.save(output)
    if isinstance(config.model, DecoderSettings):
        tokenizer.publish(output)
    account = training_account(config, tokenizer, state, computed)
    write_json(output / TRAINING, {**account, **plugins_section()})
    write_card(output)
    seal_model(output)


def build_model(config: RunConfig, tokenizer: TraceTokenizer) -> CausalLM:
    """Build the model that the run trains.

    Raises:
        UserError: as `build_pretrained`.
    """
    if isinstance(config.model, DecoderSettings):
        return DecoderForCausalLM(model_config(config.model, tokenizer))
    sharded = zero_stage(config.train) == 3
    return build_pretrained(config.model, tokenizer, DTYPES[config.train.precision], sharded)


def model_config(config: DecoderSettings, tokenizer: TraceTokenizer) -> DecoderConfig:
    ids = {"pad_token_id": tokenizer.pad_id, "bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id}
    return DecoderConfig.from_settings(config, tokenizer.vocab_size, tokenizer.fingerprint, **ids)


def training_account(
    config: RunConfig, tokenizer: TraceTokenizer, state: TrainerState, computed: Computed | None
) -> Training:
    settings = config.train
    best = state.best_global_step if settings.keep_best else None
    step = state.global_step if best is None else best
    validated = {record["step"]: record for record in state.log_history if "eval_loss" in record}
    figures = {n.removeprefix("eval_"): f for n, f in validated.get(step, {}).items() if n.startswith("eval_")}
    account: Training = {
        "steps": state.global_step,
        "examples": state.global_step * settings.batch_size * settings.pack,
        "tokens": state.num_input_tokens_seen,
        "flops": float(state.total_flos),
        "learning_rate": settings.learning_rate,
        "seed": settings.seed,
        "data_seed": settings.data_seed,
        "kept_step": step,
        "stopped_early": state.global_step < settings.total_steps,
        "validation": figures or None,
        "curve": [(number, metrics["eval_loss"], metrics["eval_exact_match"]) for number, metrics in validated.items()],
        "computed": computed,
    }
    # A model that knew the trace tokens before may write roles that this run leaves out.
    if isinstance(config.model, DecoderSettings) or tokenizer.new_ids:
        account["supervised"] = list(settings.loss_roles)
    return account


def build_rows(config: RunConfig, tokenizer: TraceTokenizer) -> Rows:
    """Build the rows that the run trains on.

    Raises:
        UserError: as `ShardDataset`, nothing is trained, or the first batch has no token to learn.
    """
    if not config.train.total_steps:
        raise ConfigError("train.max_steps 0: this run trains nothing and reads no rows: give it steps")
    rows: Rows = TraceDataset(config, tokenizer)
    if config.shards is not None:
        rows = ShardDataset(Path(config.shards), config.data, tokenizer, config.train)
    supervised, roles = config.train.supervised(), set[Role]()
    for number in range(min(len(rows), config.train.batch_size)):
        roles |= {Role(role) for role in set(rows[number].roles.tolist())}
        if roles & supervised:
            return rows
    raise ConfigError(
        f"train.loss_roles [{', '.join(config.train.loss_roles)}]: no token of the first batch has such a role; "
        f"its roles are {', '.join(role.label for role in sorted(roles))}"
    )


def announce(config: RunConfig, model: CausalLM, device: torch.device) -> None:
    count, settings = f"{parameter_count(model):,}", config.train
    step = describe_step(settings.batch_size, settings.micro_batch_size, this_process().world_size)
    log.info("%s: %s trained parameters, %d steps of %s", config.name, count, settings.total_steps, step)
    advice = precision_advice(settings.precision) if device.type == "cpu" else None
    if advice is not None and not isinstance(config.model, DecoderSettings):
        log.warning("%s", advice)
    if isinstance(config.model, DecoderSettings) and config.model.match is not None:
        log.info("%s", matched(config.model).sentence(config.model.match))
    if isinstance(model, DecoderForCausalLM):
        log.info("mixers: %s", describe_kernels(model.mixers(), device, DTYPES[config.train.precision]))


def prepare(
    config: RunConfig, arguments: TrainingArguments, checkpoint: SealedCheckpoint | None, damaged: dict[Path, str]
) -> None:
    """Write settings into the run's folder and sort out its checkpoints."""
    output = Path(config.output)
    _begin(config, output)
    if arguments.deepspeed is not None:
        write_text(output / JSON_FILE, json.dumps(arguments.hf_deepspeed_config.config, indent=2))
    for sentence in quarantine(output, checkpoint, damaged):
        log.warning("%s: %s", output, sentence)
    if checkpoint is not None and checkpoint.world_size != arguments.world_size:
        counts = checkpoint.world_size, arguments.world_size
        log.info("%s: written by %d processes, read by %d", checkpoint.path.name, *counts)
        if arguments.deepspeed is not None:
            to_universal(checkpoint.path, checkpoint.step)


def _begin(config: RunConfig, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    (output / SEAL).unlink(missing_ok=True)  # until training ends again
    (output / DIVERGED).unlink(missing_ok=True)
    # Atomically, since other processes may be reading it.
    write_text(output / CONFIG_FILE, dump(config))
