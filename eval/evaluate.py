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
from remedy.data_gen.files import clear_partials
from remedy.data_gen.sealed import DamagedFile, digest_of, foreign_table, read_json, write_json
from remedy.data_gen.settings import ConfigError, UserError
from remedy.data_gen.splits import text_hash
from remedy.data_gen.tasks import Task
from remedy.data_gen.windows import longest_seen
from remedy.eval.checkpoint import Subject, describe
from remedy.eval.config import EvalConfig
from remedy.eval.decoding import TEACHER_FORCED, fed_roles
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.horizon import solved_horizons
from remedy.eval.generations import Generation, read_generations, write_generations
from remedy.eval.records import CURE, read_records, token_counts, write_records
from remedy.eval.scoring import score_batch
from remedy.eval.summary import summarise, write_summary
from remedy.models.encoding import encoded_examples
from remedy.models.protocol import CausalLM, Reader
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer

log = logging.getLogger(__name__)
RECORDS = "records"
GENERATIONS = "generations"
SUMMARY = "summary.json"
REQUEST = "evaluation.json"
READING = "reading.json"
NAMED = 4
"""Keys that are named at most where two evaluations differ."""


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
    def result(self) -> str:
        """`permutation, length 16, spacing 4, action_forced: 93.0%`."""
        labels = self.condition.labels
        shown = {**self.condition.own_labels, "spacing": f"{labels['spacing']:g}", "forcing": labels["forcing"]}
        if labels["answer_only"]:
            shown = {**self.condition.own_labels, "answer": "answer only"}
        words = [
            value if isinstance(value, str) and key != "spacing" else f"{key} {value}" for key, value in shown.items()
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
    progress: Callable[[ConditionDone], None] = lambda done: None,
    variant: str = "",
) -> Path:
    """Run every condition that has no records yet, or damaged ones, then write the summary; returns its path.

    `variant`: what the run shares with others of other seeds, for reports to put them together.

    Raises:
        UserError: the folder holds the evaluation of another checkpoint or configuration, or the model is not causal.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    conditions = conditions_of(config, subject)
    request = {
        "run": name,
        "variant": variant,
        "checkpoint": describe(model, tokenizer, subject.weights),
        "data": subject.data.model_dump(mode="json"),
        "training": subject.training,
        "trained_on": subject.trained_on.model_dump(mode="json") if subject.trained_on else None,
        "evaluation": config.model_dump(mode="json"),
        "conditions": [condition.slug for condition in conditions],
    }
    evaluation = _claim(directory, request)
    tokenizer.save(directory)  # for `remedy show`: what was written is kept as token ids
    reader = ModelReader(model, name)
    _keep_reading(directory / READING, reader)
    found, past = [], False
    for number, condition in enumerate(conditions, start=1):
        records = _kept(directory, condition, evaluation)
        if records is None:
            path = directory / RECORDS / f"{condition.slug}.parquet"
            rows, kept, lengths = run_condition(reader, tokenizer, condition, config)
            past = _warn_of_long(reader, condition, lengths, past)
            # Records come last: where they are, so is what they lead to.
            write_generations(directory / GENERATIONS / path.name, kept, evaluation)
            write_records(path, name, rows, condition.labels, evaluation)
            records = read_records(path, evaluation)
        found.append(records)
        progress(ConditionDone(number, len(conditions), condition, *_result(records)))
    path = directory / SUMMARY
    summaries = [one for records in found for one in summarise(records)]
    write_summary(path, name, summaries, evaluation, {"solved_horizons": solved_horizons(summaries)})
    return path


def _keep_reading(path: Path, reader: ModelReader) -> None:
    """Keep how the model is read beside the results; measured again where the file is missing or damaged."""
    try:
        if path.exists():
            read_json(path, "it is written again")
            return
    except DamagedFile as error:
        log.warning("%s", error)
    write_json(path, reader.report())


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


def read_request(folder: Path) -> dict[str, Any]:
    """What an evaluation's folder says it holds.

    Raises:
        UserError: it holds no evaluation, or its file is damaged.
    """
    if not (folder / REQUEST).exists():
        raise UserError(f"{folder}: holds no evaluation ({REQUEST} is missing)")
    return read_json(folder / REQUEST, "delete the file and evaluate again, which keeps the records that fit")


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


def run_condition(reader: Reader, tokenizer: TraceTokenizer, condition: Condition, config: EvalConfig) -> Ran:
    """Decode and score every example of a condition."""
    rows: list[dict[str, Any]] = []
    kept: list[Generation] = []
    lengths: list[int] = []
    python, isolation = condition.data.task.environment()
    for start in range(0, condition.examples, config.batch_size):
        indices = range(start, min(start + config.batch_size, condition.examples))
        batch = encoded_examples(condition.data, tokenizer, condition.split, indices, os.cpu_count() or 1)
        results = score_batch(reader, tokenizer, batch, condition, config.max_new_tokens)
        for (example, truth), result in zip(batch, results):
            rows.append({**_about(example, truth, condition), "python": python, "isolation": isolation, **result.score})
            kept.append(result.generation)
            lengths.append(longest_seen(truth.roles, truth.frames, condition.data.memory))
    return Ran(rows, kept, lengths)


def _warn_of_long(reader: ModelReader, condition: Condition, lengths: list[int], warned: bool) -> bool:
    """Say how many examples show more at once than the model's limit; of one that reads on untrained, once (`warned`: it was said)."""
    context = reader.context
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
            reader.name,
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


def _claim(directory: Path, request: dict[str, Any]) -> str:
    """Make the folder this evaluation's, whose digest is returned: its records and summary carry it."""
    evaluation = digest_of(request)
    path = directory / REQUEST
    for folder in (directory / RECORDS, directory / GENERATIONS):
        clear_partials(folder)
        if not path.exists() and (other := foreign_table(folder, evaluation)):
            raise UserError(f"{other}: belongs to another evaluation; choose another --out or delete it")
    if not path.exists():
        write_json(path, request)
    elif digest_of(held := read_request(directory)) != evaluation:
        differing = _differing(held, request)
        some = ", ".join(differing[:NAMED]) + (f" and {len(differing) - NAMED} more" if len(differing) > NAMED else "")
        raise UserError(
            f"{directory}: holds another evaluation (it differs in {some}); choose another --out or delete it"
        )
    return evaluation


def _differing(held: dict[str, Any], request: dict[str, Any]) -> list[str]:
    """The keys in which two requests differ, those of a section one by one."""
    found = []
    for key in dict.fromkeys([*request, *held]):
        one, other = held.get(key), request.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{key}.{inner}" for inner in _differing(one, other)]
        elif digest_of({key: one}) != digest_of({key: other}):
            found.append(key)
    return found
