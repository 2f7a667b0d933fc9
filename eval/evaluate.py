"""Evaluate a checkpoint: one Parquet file of records per condition, and a summary; interrupted and rerun, it continues."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from remedy.data_gen.examples import DataConfig, Example
from remedy.data_gen.sealed import DamagedFile
from remedy.data_gen.settings import ConfigError
from remedy.data_gen.splits import text_hash
from remedy.data_gen.tasks import Task
from remedy.data_gen.windows import longest_seen
from remedy.eval.checkpoint import Subject, describe
from remedy.eval.config import EvalConfig
from remedy.eval.constraints import check_interpreter
from remedy.eval.decoding import TEACHER_FORCED, constraint_of, fed_roles
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.horizon import solved_horizons
from remedy.eval.folder import GENERATIONS, RECORDS, SUMMARY, UNFINISHED, claim, keep_reading
from remedy.eval.generations import Generation, read_generations, write_generations
from remedy.eval.generators import Generator, Journal, Kept, LocalGenerator, ServedGenerator
from remedy.eval.progress import Meter, Underway
from remedy.eval.records import CURE, read_records, token_counts, write_records
from remedy.eval.scoring import score_batch
from remedy.eval.summary import summarise, write_summary
from remedy.models.encoding import encoded_examples
from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer

log = logging.getLogger(__name__)
POOL = 8
"""Batches whose examples are made together, for a generator to write those of like lengths at a time, and rarely less than a batch."""


class ConditionDone(NamedTuple):
    """An evaluated condition, for whoever waits: which of how many, its rate of right answers, programs left out of it, and where
    answers are not the model's, its rates per frame."""

    number: int
    of: int
    condition: Condition
    accuracy: float | None
    left_out: int
    per_frame: Mapping[str, float] = {}

    def __str__(self) -> str:
        also = f" ({self.left_out} programs that could not be run are left out)" if self.left_out else ""
        return f"{self.number}/{self.of} {self.result}{also}"

    @property
    def finished(self) -> float:
        """How many conditions are done."""
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
        rate = "nothing could be run" if self.accuracy is None else f"{self.accuracy:.1%}"
        if self.accuracy is None and self.per_frame:
            rate = ", ".join(f"{what} {share:.1%}" for what, share in self.per_frame.items())
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
) -> Path:
    """Run every condition that has no records yet, or damaged ones, then write the summary; returns its path.

    `progress` is told of each condition that is done, and now and then of the one that is evaluated. `variant`: what the run shares
    with others of other seeds, for reports to put them together.

    Raises:
        UserError: the folder holds the evaluation of another checkpoint or configuration, or the model is not causal.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    conditions = conditions_of(config, subject)
    for condition in conditions:
        if constraint := constraint_of(condition.forcing):
            check_interpreter(constraint, condition.data)
    generator = _generator(model, tokenizer, config, name)
    request = {
        "run": name,
        "variant": variant,
        "checkpoint": describe(model, tokenizer, subject.weights or _served_weights(generator)),
        "data": subject.data.model_dump(mode="json"),
        "training": subject.training,
        "trained_on": subject.trained_on.model_dump(mode="json") if subject.trained_on else None,
        "evaluation": config.asked,
        "conditions": [condition.slug for condition in conditions],
    }
    if isinstance(generator, ServedGenerator):
        request["backend"] = generator.identity
    evaluation = claim(directory, request)
    tokenizer.save(directory)  # for `remedy show`: what was written is kept as token ids
    journal = Journal(directory / UNFINISHED, evaluation)
    if len(journal):
        log.info("%s: %d traces of a condition that was not done are kept", directory / UNFINISHED, len(journal))
    keep_reading(directory, generator.report)
    found, past = [], False
    for number, condition in enumerate(conditions, start=1):
        records = _kept(directory, condition, evaluation)
        if records is None:
            path = directory / RECORDS / f"{condition.slug}.parquet"
            meter = Meter(number, len(conditions), condition.examples, progress)
            ran = run_condition(Kept(generator, journal, meter), tokenizer, condition, config, meter)
            past = _warn_of_long(generator, condition, ran.lengths, past)
            # Records come last: where they are, so is what they lead to.
            write_generations(directory / GENERATIONS / path.name, ran.kept, evaluation)
            write_records(path, name, ran.rows, condition.labels, evaluation)
            journal.clear()
            records = read_records(path, evaluation)
        found.append(records)
        progress(ConditionDone(number, len(conditions), condition, *_result(records)))
    path = directory / SUMMARY
    summaries = [one for records in found for one in summarise(records)]
    write_summary(path, name, summaries, evaluation, {"solved_horizons": solved_horizons(summaries)})
    return path


def _generator(
    model: CausalLM, tokenizer: TraceTokenizer, config: EvalConfig, name: str
) -> LocalGenerator | ServedGenerator:
    if config.backend is not None:
        return ServedGenerator(config.backend, tokenizer, name, config.batch_size)
    return LocalGenerator(ModelReader(model, name), tokenizer, config.batch_size)


def _served_weights(generator: Generator) -> str:
    """What stands for weights that are elsewhere, where no digest of them was recorded: the name under which they are served."""
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


def conditions_of(config: EvalConfig, subject: Subject) -> list[Condition]:
    """The conditions of every diagnostic.

    Raises:
        ConfigError: a diagnostic does not fit the data, two conditions have the same labels, or a setting does nothing.
    """
    found = _grid(config, subject.data, config.split, subject.trained_on)
    slugs = [condition.slug for condition in found]
    if twice := next((slug for slug in slugs if slugs.count(slug) > 1), None):
        raise ConfigError(f"diagnostics: the condition {twice} is there twice: remove one")
    _refuse_idle(config, subject, found)
    return found


def _refuse_idle(config: EvalConfig, subject: Subject, found: list[Condition]) -> None:
    """Raises a ConfigError for a setting that has a value, and no effect on these conditions."""

    def same(split: str, trained_on: Task | None) -> bool:
        try:
            return found == _grid(config, subject.data, split, trained_on)
        except ConfigError:
            return False

    usual = {name: field.default for name, field in EvalConfig.model_fields.items()}
    if config.split != usual["split"] and same(usual["split"], subject.trained_on):
        raise ConfigError(
            f"split {config.split} does nothing: all programs are evaluated, since the checkpoint was trained on none of "
            "them: remove it"
        )
    if config.trained_on is not None and same(config.split, None):
        raise ConfigError(
            f"trained_on {config.trained_on.name} does nothing: no diagnostic evaluates these programs: remove it"
        )
    parallel = all(fed_roles(condition.forcing) == TEACHER_FORCED for condition in found)
    if parallel and config.max_new_tokens != usual["max_new_tokens"]:
        raise ConfigError(
            f"max_new_tokens {config.max_new_tokens} does nothing with forcing teacher_forced alone, in which the model "
            "reads no token of its own: remove it"
        )


def _grid(config: EvalConfig, data: DataConfig, split: str, trained_on: Task | None) -> list[Condition]:
    return [one for diagnostic in config.diagnostics for one in diagnostic.conditions(data, split, trained_on)]


class Ran(NamedTuple):
    """What became of every example of a condition."""

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
    pool = POOL * config.batch_size
    for start in range(0, condition.examples, pool):
        indices = range(start, min(start + pool, condition.examples))
        batch = encoded_examples(condition.data, tokenizer, condition.split, indices, os.cpu_count() or 1)
        results = score_batch(generator, tokenizer, batch, condition, config.max_new_tokens)
        for (example, truth), result in zip(batch, results):
            rows.append({**_about(example, truth, condition), "python": python, "isolation": isolation, **result.score})
            kept.append(result.generation)
            lengths.append(longest_seen(*truth[:3], condition.data.memory, tokenizer.special_ids))
        if meter is not None:
            meter.skip(indices.stop - meter.done)
    return Ran(rows, kept, lengths)


def _warn_of_long(generator: Generator, condition: Condition, lengths: list[int], warned: bool) -> bool:
    """Say how many examples show more at once than the model's limit; of one that reads on untrained, once (`warned`: it was said)."""
    context = generator.context
    long = [length for length in lengths if context is not None and length > context.tokens]
    if context is None or not long or (warned and not context.hard):
        return warned
    log.warning(
        "%s: %d of %d examples have more than the %s tokens of %s (%s), up to %s: %s",
        *(
            condition.slug,
            len(long),
            len(lengths),
            f"{context.tokens:,}",
            generator.name,
            context.setting,
            f"{max(long):,}",
        ),
        "it cannot read them, and they count as truncated"
        if context.hard
        else "it reads them beyond what it was made for (this is said once)",
    )
    return True


def _about(example: Example, truth: Encoded, condition: Condition) -> dict[str, Any]:
    """What a record says of its example."""
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


def _result(records: pd.DataFrame) -> tuple[float | None, int, dict[str, float]]:
    """The rate of right answers, how many programs are left out of it, and rates per frame."""
    (summary,) = summarise(records)
    per_frame = {what: found["mean"] for what, found in summary["per_frame"].items()}
    return summary["right"] and summary["right"]["mean"], sum(summary["untraced"].values()), per_frame
