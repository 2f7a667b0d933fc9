"""Evaluate a checkpoint: one Parquet file of records per condition, and a summary; interrupted and rerun, it continues. Several
processes write parts of every condition, and the first puts them together as if it had found what an interrupted evaluation left."""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from remedy.checksums import DamagedFile, digest_of
from remedy.data_gen.examples import Example
from remedy.data_gen.splits import text_hash
from remedy.data_gen.window_examples import longest_seen
from remedy.eval.checkpoint import Subject, describe
from remedy.eval.conditions import conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.constraints import check_interpreter
from remedy.eval.decoding.forcings import constraint_of
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.horizon import solved_horizons
from remedy.eval.distributed import PAUSE, FolderTally, Rank
from remedy.eval.generators import Generator, Journal, Kept, LocalGenerator, ServedGenerator
from remedy.eval.progress import Meter, Tally, Underway
from remedy.eval.records.folder import (
    GENERATIONS,
    RECORDS,
    SUMMARY,
    UNFINISHED,
    claim,
    keep_reading,
    refuse_unprintable,
)
from remedy.eval.records.generations import Generation, read_generations, write_generations
from remedy.eval.records.remarks import of_condition, untrained
from remedy.eval.records.schema import CURE, read_records, token_counts, write_records
from remedy.eval.records.summary import ConditionSummary, summarise, write_summary
from remedy.eval.scoring import score_batch
from remedy.eval.work_split import POOL, pools, warn_of_long, write_part
from remedy.models.pretrained import is_in_4bit
from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.owner import owned

log = logging.getLogger(__name__)


class ConditionDone(NamedTuple):
    """An evaluated condition, for whoever waits: which of how many, and what was found."""

    number: int
    of: int
    condition: Condition
    summary: ConditionSummary

    def __str__(self) -> str:
        said, left_out = of_condition(self.summary), sum(self.summary["untraced"].values())
        said += [f"{left_out} programs that could not be run are left out"] if left_out else []
        return f"{self.number}/{self.of} {self.result}" + (f" ({'; '.join(said)})" if said else "")

    @property
    def finished(self) -> float:
        """Count the conditions that are done."""
        return self.number

    @property
    def result(self) -> str:
        """`permutation, length 16, spacing 4, action_forced: 93.0%`."""
        labels = self.condition.labels
        shown = {**self.condition.own_labels, "spacing": f"{labels['spacing']:g}", "forcing": labels["forcing"]}
        if labels["answer_only"]:
            shown = {**self.condition.own_labels, "answer": "answer only"}
        words = [
            value if isinstance(value, str) and key not in ("spacing", "memory") else f"{key} {value}"
            for key, value in shown.items()
        ]
        right, per_frame = self.summary["right"], self.summary["per_frame"]
        rate = f"{right['mean']:.1%}" if right is not None else "nothing could be run"
        if right is None and per_frame:
            rate = ", ".join(f"{what} {share['mean']:.1%}" for what, share in per_frame.items())
        return f"{', '.join([self.condition.diagnostic, *filter(None, words)])}: {rate}"


def evaluate(
    model: CausalLM,
    tokenizer: TraceTokenizer,
    subject: Subject,
    config: EvalConfig,
    directory: Path,
    name: str,
    progress: Callable[[ConditionDone | Underway], None] = lambda done: None,
    variant: str = "",
    rank: Rank | None = None,
) -> Path:
    """Run every condition that has no records yet, or damaged ones, then write the summary; returns its path.

    `progress` is told of each condition that is done, and now and then of the one that is evaluated. `variant`: what the run shares
    with others of other seeds, for reports to put them together. `rank`: this one of the processes that evaluate together; all but
    the first return when their parts are written.

    Raises:
        UserError: the folder holds the evaluation of another checkpoint or configuration, another process writes there, or the model
            is not causal.
    """
    refuse_unprintable(name, str(directory))
    if config.threads:
        torch.set_num_threads(config.threads)
    conditions = conditions_of(config, subject)
    for condition in conditions:
        if constraint := constraint_of(condition.forcing):
            check_interpreter(constraint, condition.data)
    rank = rank or Rank()
    config.refuse_on(rank.process.world_size)
    generator = _generator(model, tokenizer, config, name)
    why = untrained(subject.training, len(tokenizer.new_ids))
    work = _Work(generator, tokenizer, config, directory, name, conditions, progress, rank, why)

    def request() -> dict[str, Any]:
        return {
            "run": name,
            "variant": variant,
            "checkpoint": describe(model, tokenizer, subject.weights or _served_weights(generator)),
            "data": subject.data.model_dump(mode="json"),
            "training": subject.training,
            "trained_on": subject.trained_on.model_dump(mode="json") if subject.trained_on else None,
            "evaluation": config.asked,
            "conditions": [condition.slug for condition in conditions],
            **({"backend": generator.identity} if isinstance(generator, ServedGenerator) else {}),
            **({"quantization": "nf4"} if is_in_4bit(model) else {}),
            **({"new_tokens": len(tokenizer.new_ids)} if tokenizer.new_ids else {}),
        }

    path = directory / SUMMARY
    with contextlib.ExitStack() as held:
        found = work.run(request, held)
        if rank.is_main:
            summaries = [one for records in found for one in summarise(records, why)]
            write_summary(path, name, summaries, work.evaluation, {"solved_horizons": solved_horizons(summaries)})
    return path


@dataclass
class _Work:
    """Work of an evaluation. `untrained`: why the model cannot know traces, if so; `evaluation`: the evaluation's digest."""

    generator: Generator
    tokenizer: TraceTokenizer
    config: EvalConfig
    directory: Path
    name: str
    conditions: Sequence[Condition]
    progress: Callable[[ConditionDone | Underway], None]
    rank: Rank
    untrained: str
    evaluation: str = ""
    long_was_said: bool = False

    def run(self, request: Callable[[], dict[str, Any]], folder: contextlib.ExitStack) -> list[pd.DataFrame]:
        """The records of all conditions; of a process that is not the first none, when its parts are written. `folder`: what lets go
        of it at the end."""
        held: dict[str, pd.DataFrame] = {}

        asked = request()
        self.evaluation = digest_of(asked)
        if self.rank.is_main:
            folder.enter_context(owned(self.directory))
            self._begin(asked)
        pending = self._pending(held)
        if self.rank.several:
            self.rank.keep_beating(self.directory / UNFINISHED)
        parts = self._parts(pending)
        if not self.rank.is_main:
            deque(parts, maxlen=0)
            return []
        for number, condition in enumerate(self.conditions, start=1):
            if condition.slug in pending:
                self._wait(number, condition, parts)
                held[condition.slug] = self._put_together(number, condition)
            else:
                self._journal(condition).clear()  # of one that was killed between the records and this
            self.progress(
                ConditionDone(
                    number, len(self.conditions), condition, summarise(held[condition.slug], self.untrained)[0]
                )
            )
        shutil.rmtree(self.directory / UNFINISHED, ignore_errors=True)
        return [held[condition.slug] for condition in self.conditions]

    def _begin(self, request: dict[str, Any]) -> None:
        """Make the folder this evaluation's."""
        claim(self.directory, request)
        self.tokenizer.save(self.directory)  # for `remedy show`: what was written is kept as token ids
        keep_reading(self.directory, self.generator.report)

    def _pending(self, held: dict[str, pd.DataFrame]) -> list[str]:
        """The conditions that have to be evaluated; records of others are `held`."""
        for condition in self.conditions:
            if (records := _kept(self.directory, condition, self.evaluation)) is not None:
                held[condition.slug] = records
        return [condition.slug for condition in self.conditions if condition.slug not in held]

    def _parts(self, pending: Sequence[str]) -> Iterator[str]:
        """Write this process's part of one condition after another; alone it has none."""
        for number, condition in enumerate(self.conditions, start=1):
            if self.rank.several and condition.slug in pending:
                self._folder(condition).mkdir(parents=True, exist_ok=True)
                meter = self._meter(number, condition, FolderTally(self._folder(condition)))
                kept = Kept(self.generator, self._journal(condition), meter)
                write_part(kept, self.tokenizer, condition, self.config, self.rank, meter)
                self.rank.finish(self._folder(condition))
                yield condition.slug

    def _wait(self, number: int, condition: Condition, parts: Iterator[str]) -> None:
        """Until all parts of a condition are written, write further ones of this process."""
        folder = self._folder(condition)
        meter = self._meter(number, condition, FolderTally(folder))
        while ranks := self.rank.unfinished(folder):
            if next(parts, None) is None:
                self.rank.listen(folder.parent, ranks)
                meter.look()
                time.sleep(PAUSE)

    def _put_together(self, number: int, condition: Condition) -> pd.DataFrame:
        """Score a condition and write its records; what no process has written yet is written by this one."""
        journal, meter = self._journal(condition), self._meter(number, condition)
        if len(journal) and not self.rank.several:
            log.info("%s: %d traces of a condition that was not done are kept", journal.folder, len(journal))
        ran = run_condition(Kept(self.generator, journal, meter), self.tokenizer, condition, self.config, meter)
        self.long_was_said = warn_of_long(self.generator, condition, ran.lengths, self.long_was_said)
        path = self.directory / RECORDS / f"{condition.slug}.parquet"
        # Records come last: where they are, so is what they lead to.
        write_generations(self.directory / GENERATIONS / path.name, ran.kept, self.evaluation)
        write_records(path, self.name, ran.rows, condition.labels, self.evaluation)
        journal.clear()
        return read_records(path, self.evaluation)

    def _folder(self, condition: Condition) -> Path:
        return self.directory / UNFINISHED / condition.slug

    def _journal(self, condition: Condition) -> Journal:
        return Journal(self._folder(condition), self.evaluation, self.rank.process.rank)

    def _meter(self, number: int, condition: Condition, tally: Tally | None = None) -> Meter:
        say = self.progress if self.rank.is_main else lambda done: None
        return Meter(number, len(self.conditions), condition.examples, say, tally)


def _generator(
    model: CausalLM, tokenizer: TraceTokenizer, config: EvalConfig, name: str
) -> LocalGenerator | ServedGenerator:
    if config.backend is not None:
        return ServedGenerator(config.backend, tokenizer, name, config.batch_size)
    return LocalGenerator(ModelReader(model, name), tokenizer, config.batch_size)


def _served_weights(generator: Generator) -> str:
    """Identify weights that are elsewhere, where no digest of them was recorded: by the name under which they are served."""
    return f"served: {generator.about.model}" if isinstance(generator, ServedGenerator) else ""


def _kept(directory: Path, condition: Condition, evaluation: str) -> pd.DataFrame | None:
    """The records of a condition that is done; None of one that has to be evaluated, or evaluated again."""
    path = directory / RECORDS / f"{condition.slug}.parquet"
    if not path.exists():
        return None
    try:
        read_generations(directory / GENERATIONS / path.name, evaluation)
        return read_records(path, evaluation)
    except DamagedFile as error:
        log.warning("%s", str(error).replace(CURE, "the condition is evaluated again"))
        return None


class Ran(NamedTuple):
    """Results of every example of a condition."""

    rows: list[dict[str, Any]]
    """Records that do not name the run yet."""
    kept: list[Generation]
    """What the model wrote."""
    lengths: list[int]
    """The most tokens of the true sequence that are seen at once."""


def run_condition(
    generator: Generator,
    tokenizer: TraceTokenizer,
    condition: Condition,
    config: EvalConfig,
    meter: Meter | None = None,
) -> Ran:
    """Decode and score every example of a condition."""
    rows: list[dict[str, Any]] = []
    kept: list[Generation] = []
    lengths: list[int] = []
    python, isolation = condition.data.task.environment()
    for indices, batch in pools(condition, tokenizer, POOL * config.batch_size):
        results = score_batch(generator, tokenizer, batch, condition, config.max_new_tokens)
        for (example, truth), result in zip(batch, results):
            rows.append({**_about(example, truth, condition), "python": python, "isolation": isolation, **result.score})
            kept.append(result.generation)
            lengths.append(longest_seen(*truth[:3], condition.data.memory, tokenizer.special_ids))
        if meter is not None:
            meter.skip(indices.stop - meter.done)
    return Ran(rows, kept, lengths)


def _about(example: Example, truth: Encoded, condition: Condition) -> dict[str, Any]:
    """Describe the example in its record."""
    guesses = condition.data.task.guesses(example.trace, example.answer)
    return {
        "diagnostic": condition.diagnostic,
        "condition": condition.slug,
        "example": f"{text_hash(example.identity):016x}",
        "cluster": f"{text_hash(example.cluster):016x}",
        "index": example.index,
        "split": condition.split,
        "source": str(example.slices.get("source", "")),
        "functions": str(example.slices.get("functions", "")),
        "outcome": example.outcome,
        "chance": math.nan if guesses.chance is None else guesses.chance,
        "start_right": math.nan if guesses.start is None else float(guesses.start),
        **token_counts(truth.roles),
    }
