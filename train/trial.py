"""Cost of a training, estimated from a few real steps."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from transformers import TrainerCallback, TrainerState, TrainingArguments, set_seed

from remedy.data_gen.tokens import Tokens
from remedy.models.flops import training_flops
from remedy.models.tokenizer import build_tokenizer
from remedy.settings import UserError
from remedy.train.arguments import training_arguments
from remedy.train.config import RunConfig
from remedy.train.data import Collator, Rows, parted
from remedy.train.run import build_model, build_rows, quieten
from remedy.train.trainer import RowTrainer, explained

SECONDS = 5.0
"""Seconds after which no further step begins."""


class Cost(NamedTuple):
    """Cost of one run; None is unknown.

    `tokens`: without padding. `computed`: with padding. `memory`: peak bytes of a process. `remark`: what is unknown, or
    measured otherwise.
    """

    tokens: float | None = None
    computed: float | None = None
    flops: float | None = None
    seconds: float | None = None
    memory: int | None = None
    remark: str = ""


class _Sample(Rows):
    def __init__(self, rows: Sequence[Tokens]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        return [self.rows[row] for row in rows]

    def describe(self, rows: range) -> str:
        return "rows of a trial"


class _Clock(TrainerCallback):
    """Callback that notes the times of steps, saves nothing and ends after SECONDS."""

    def __init__(self) -> None:
        self.begin, self.times = time.perf_counter(), list[float]()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self.begin = time.perf_counter()
        self._note(args.device)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self._note(args.device)
        control.should_save = False
        if time.perf_counter() - self.begin > SECONDS:
            control.should_training_stop = True

    def _note(self, device: torch.device) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()
            self.times.append(time.perf_counter())
        else:  # the processor's time, which depends less on other programs
            self.times.append(time.process_time() / torch.get_num_threads())


def cost(config: RunConfig, processes: int = 1, threads: int = 1) -> Cost:
    """Estimate a run's cost by steps in this process, without validation.

    `processes`: those that share each batch. `threads`: used where `train.threads` is not set.
    """
    torch.set_num_threads(threads)
    quieten(config)
    unmeasured = [key for key in ("deepspeed", "fsdp", "torch_compile") if getattr(config.train, key)]
    estimate = Cost(remark=f"measured without {' and '.join(unmeasured)}" if unmeasured else "")
    # 256 is the default: another number without validation is refused.
    validation = {"evaluate_every": None, "keep_best": None, "patience": None, "validation_examples": 256}
    one_process = {
        "deepspeed": None,
        "fsdp": None,
        "torch_compile": False,
        "batch_size": max(1, config.train.batch_size // processes),
    }
    changes = {f"train.{key}": value for key, value in {**validation, **one_process}.items()}
    with tempfile.TemporaryDirectory() as folder:
        trial_config = config.changed({**changes, "output": folder, "tracking": {"report_to": []}})
        ends = trial_config.train.stage_ends()
        steps = [end - start for start, end in zip([0, *ends], ends)]
        try:
            tokenizer = build_tokenizer(trial_config.tokenizer, trial_config.data)
            batches, making = _first_batches(build_rows(trial_config, tokenizer), trial_config)
            tokens = [sum(row.size for row in batch) for batch in batches]
            estimate = estimate._replace(tokens=processes * _total(steps, tokens))
            set_seed(trial_config.train.seed)
            model = build_model(trial_config, tokenizer)
            flops = [training_flops(model).of([part.size for row in b for part in parted(row)]) for b in batches]
            estimate = estimate._replace(flops=processes * _total(steps, flops))
            # Each batch twice, since the first step of a width is slower.
            short = trial_config.changed({"train.max_steps": 2 * len(batches), "train.curriculum": ()})
            sample, clock = _Sample([row for batch in batches for row in [*batch, *batch]]), _Clock()
            arguments = training_arguments(short, 1)
            trainer = RowTrainer(short, tokenizer, sample, model=model, args=arguments, callbacks=[clock])
            computed = [_computed(batch, short, cast(Collator, trainer.data_collator)) for batch in batches]
            estimate = estimate._replace(computed=processes * _total(steps, computed))
            with explained(trainer):
                trainer.train()
        except UserError as error:
            return estimate._replace(remark=f"not measured: {str(error).partition(' (')[0]}")
    seconds = _seconds(clock, computed)
    # Workers make rows while the model computes.
    combine = max if trial_config.train.dataloader_num_workers else sum
    seconds_of_step = [combine(pair) for pair in zip(seconds, making)]
    return estimate._replace(seconds=_total(steps, seconds_of_step), memory=_peak(arguments.device))


def _first_batches(rows: Rows, config: RunConfig) -> tuple[list[list[Tokens]], list[float]]:
    """Return each stage's first batch, and the seconds to make it, shared among workers."""
    size, batches, making = config.train.batch_size, [], []
    rows.__getitems__(range(size))  # a warm-up, which is not timed
    for start in [0, *config.train.stage_ends()[:-1]]:
        begin = time.perf_counter()
        batches.append(rows.__getitems__(range(start * size, (start + 1) * size)))
        making.append((time.perf_counter() - begin) / max(1, config.train.dataloader_num_workers))
    return batches, making


def _seconds(clock: _Clock, computed: Sequence[int]) -> list[float]:
    """Return each stage's seconds per step; stages not reached go by tokens."""
    times = [after - before for before, after in zip(clock.times, clock.times[1:])]
    seconds = [min(times[index : index + 2]) for index in range(0, len(times), 2)]
    rate = seconds[-1] / computed[len(seconds) - 1]
    return seconds + [rate * tokens for tokens in computed[len(seconds) :]]


def _total(steps: Sequence[int], per_step: Sequence[float]) -> float:
    return float(sum(count * value for count, value in zip(steps, per_step)))


def _computed(batch: Sequence[Tokens], config: RunConfig, collator: Collator) -> int:
    """Count a step's tokens with padding, in its pieces."""
    sizes, settings = [row.size for row in batch], config.train
    if settings.pack == 1:  # as `by_length` does
        sizes.sort(reverse=True)
    piece = settings.micro_batch_size or settings.batch_size
    pieces = [sizes[start : start + piece] for start in range(0, len(sizes), piece)]
    return sum(len(rows) * collator.width(max(rows)) for rows in pieces)


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_reserved(device))
    # In bytes on macOS, in KiB elsewhere.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
