"""Evaluation of a checkpoint: a Parquet file of records per condition, and a summary.

Rerun after an interruption, it continues. Several processes write parts of a condition; the first merges them.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from remedy.checksums import DamagedFile, digest_of
from remedy.data_gen.examples import Example
from remedy.data_gen.roles import Role
from remedy.data_gen.splits import text_hash
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.window_examples import longest_seen
from remedy.eval.checkpoint import describe, for_checkpoint, generator_of, load_evaluated
from remedy.eval.conditions import CheckpointInfo, conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.constraints import check_interpreter
from remedy.eval.decoding.forcings import TEACHER_FORCED, constraint_of, fed_roles, forcing_name
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.permutation import solved_horizons
from remedy.eval.distributed import Rank
from remedy.eval.generators.base import Generator, Writer
from remedy.eval.generators.request_log import Journal, JournaledWriter
from remedy.eval.generators.served import ServedGenerator
from remedy.eval.progress import Meter, Progress
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
from remedy.eval.records.knowledge import Knowledge
from remedy.eval.records.remarks import of_condition
from remedy.eval.records.schema import CURE, read_records, token_counts, write_records
from remedy.eval.records.summary import ConditionSummary, summarise, write_summary
from remedy.eval.scoring import score_batch, write_batch
from remedy.eval.tables.sections import joined, named
from remedy.models.encoding import encoded_examples
from remedy.models.pretrained import is_in_4bit
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.owner import owned
from remedy.plugins import plugins_section
from remedy.processes import neighbours

log = logging.getLogger(__name__)

POOL = 8
"""Batches whose examples are made together, so that those of similar length can be decoded together."""


def evaluate_checkpoint(
    checkpoint: str | Path,
    config: EvalConfig,
    directory: str | Path,
    name: str = "",
    progress: Callable[[Progress], None] = lambda done: print(done, flush=True),
    rank: Rank | None = None,
    variant: str = "",
    chosen: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
) -> Path:
    """Evaluate a run's folder or a hub model; return the summary's path.

    `rank`, `variant`: as for `evaluate`. `chosen`, `own`: as for `for_checkpoint`.

    Raises:
        UserError: as `evaluate`; or the checkpoint cannot be read, or does not fit the configuration.
    """
    config.refuse_on((rank or Rank()).process.world_size)
    checkpoint_info = for_checkpoint(str(checkpoint), config, chosen, own)
    conditions_of(config, checkpoint_info)  # what does not fit the data is refused before weights are loaded
    model, tokenizer = load_evaluated(str(checkpoint), config)
    name = name or str(checkpoint)
    return evaluate(model, tokenizer, checkpoint_info, config, Path(directory), name, progress, variant, rank)


def evaluate(
    model: CausalLM,
    tokenizer: TraceTokenizer,
    checkpoint_info: CheckpointInfo,
    config: EvalConfig,
    directory: Path,
    name: str,
    progress: Callable[[Progress], None] = lambda done: None,
    variant: str = "",
    rank: Rank | None = None,
) -> Path:
    """Evaluate the conditions without intact records, then write the summary; return its path.

    `variant`: the recipe's name, shared by runs of all its seeds. `rank`: this process; all but the first return when
    their parts are written.

    Raises:
        UserError: the folder holds the evaluation of another checkpoint or configuration, another process writes there, or the model
            is not causal.
    """
    refuse_unprintable(name, str(directory))
    if config.threads:
        torch.set_num_threads(config.threads)
    conditions = conditions_of(config, checkpoint_info)
    for condition in conditions:
        if constraint := constraint_of(condition.forcing):
            check_interpreter(constraint, condition.data)
    rank = rank or Rank()
    generator = generator_of(model, tokenizer, config, name)
    about = generator.about if isinstance(generator, ServedGenerator) else None
    weights = checkpoint_info.weights or (f"served: {about.model}" if about else "")
    request = {
        "run": name,
        "variant": variant,
        "checkpoint": describe(model, tokenizer, weights),
        "data": checkpoint_info.data.model_dump(mode="json"),
        "training": checkpoint_info.training,
        "trained_on": checkpoint_info.trained_on.model_dump(mode="json") if checkpoint_info.trained_on else None,
        "evaluation": config.asked,
        "conditions": [condition.slug for condition in conditions],
        **({"backend": about._asdict()} if about else {}),
        **({"quantization": "nf4"} if is_in_4bit(model) else {}),
        **({"new_tokens": len(tokenizer.new_ids)} if tokenizer.new_ids else {}),
        **plugins_section(),
    }
    knowledge = Knowledge(checkpoint_info.training, len(tokenizer.new_ids))
    evaluator = _Evaluator(generator, tokenizer, config, directory, name, digest_of(request), rank)
    path, summaries = directory / SUMMARY, list[ConditionSummary]()
    with owned(directory) if rank.is_main else contextlib.nullcontext():
        if rank.is_main:
            claim(directory, request)
            tokenizer.save(directory)  # for `remedy show`: what was written is kept as token ids
            keep_reading(directory, generator.report)
            _warn_of_untaught(conditions, tokenizer, knowledge)
        if rank.several:
            rank.keep_beating(directory / UNFINISHED)
        for number, condition in enumerate(conditions, start=1):
            say = progress if rank.is_main else lambda done: None
            meter = Meter(number, len(conditions), condition.examples, say, rank.process.world_size)
            records = evaluator.records(condition, meter)
            if records is not None:
                summaries += summarise(records, knowledge)
                progress(_done(number, len(conditions), condition, summaries[-1]))
        if rank.is_main:
            shutil.rmtree(directory / UNFINISHED, ignore_errors=True)
            write_summary(path, name, summaries, evaluator.evaluation, {"solved_horizons": solved_horizons(summaries)})
    return path


def _warn_of_untaught(conditions: Sequence[Condition], tokenizer: TraceTokenizer, knowledge: Knowledge) -> None:
    """Warn of roles that a model must write untrained, by one example per condition."""
    warned = set[str]()
    for condition in conditions:
        if condition.supervised is None or fed_roles(condition.forcing) == TEACHER_FORCED:
            continue
        [(_, truth)] = encoded_examples(condition.data, tokenizer, condition.split, range(1))
        one_token = FORMATS[condition.data.format].one_token
        lacks = knowledge.lacks(forcing_name(condition.forcing), one_token, set(map(Role, truth.roles)))
        if lacks and lacks not in warned:
            warned.add(lacks)
            log.warning("%s: %s", condition.slug, lacks)


def _done(number: int, of: int, condition: Condition, summary: ConditionSummary) -> Progress:
    """Describe a finished condition: `permutation, length 16, spacing 4, forcing free: 93.0%`."""
    labels = condition.labels
    names = [*condition.own_labels, *(["answer_only"] if labels["answer_only"] else ["spacing", "forcing"])]
    right, per_frame = summary["right"], summary["per_frame"]
    rate = f"{right.mean:.1%}" if right is not None else "nothing could be run"
    if right is None and per_frame:
        rate = ", ".join(f"{kind.replace('_', ' ')} {share.mean:.1%}" for kind, share in per_frame.items())
    remarks, left_out = of_condition(summary), sum(summary["untraced"].values())
    remarks += [f"{left_out} programs that could not be run are left out"] if left_out else []
    result = f"{joined(', ', condition.diagnostic, named(labels, names))}: {rate}"
    return Progress(number, of, result, "; ".join(remarks))


@dataclass
class _Evaluator:
    """One process's work in an evaluation; `evaluation`: the request's digest."""

    generator: Generator
    tokenizer: TraceTokenizer
    config: EvalConfig
    directory: Path
    name: str
    evaluation: str
    rank: Rank
    soft_limit_warned: bool = False

    def records(self, condition: Condition, meter: Meter) -> pd.DataFrame | None:
        """Return a condition's records, evaluated if needed; None but in the first process."""
        path = self.directory / RECORDS / f"{condition.slug}.parquet"
        generations = self.directory / GENERATIONS / path.name
        folder = self.directory / UNFINISHED / condition.slug
        if path.exists():
            try:
                read_generations(generations, self.evaluation)
                records = read_records(path, self.evaluation)
            except DamagedFile as error:
                log.warning("%s", str(error).replace(CURE, "the condition is evaluated again"))
            else:
                shutil.rmtree(folder, ignore_errors=True)  # of one that was killed between the records and this
                return records if self.rank.is_main else None
        if self.rank.several:
            folder.mkdir(parents=True, exist_ok=True)
            self._write_part(condition, JournaledWriter(self.generator, self._journal(folder), meter), meter)
            self.rank.finish(folder)
        if not self.rank.is_main:
            return None
        self.rank.wait(folder, meter.look)
        journal = self._journal(folder)
        # What no process has written yet, as of a program that is near a limit of time, is written by this one.
        results = run_condition(
            JournaledWriter(self.generator, journal, meter), self.tokenizer, condition, self.config, meter
        )
        self._warn_of_long(condition, results.lengths)
        # Records come last: where they are, so is what they lead to.
        write_generations(generations, results.generations, self.evaluation)
        write_records(path, self.name, results.rows, condition.labels, self.evaluation)
        journal.clear()
        return read_records(path, self.evaluation)

    def _write_part(self, condition: Condition, generator: Writer, meter: Meter) -> None:
        """Write this process's part of a condition.

        Every process makes all examples, cheap beside decoding, so that all agree.
        """
        done = 0
        for _, batch in _pools(condition, self.tokenizer, self.config.batch_size * self.rank.process.world_size):
            part = [batch[index] for index in self.rank.part([len(truth.ids) for _, truth in batch])]
            write_batch(generator, self.tokenizer, part, condition, self.config.max_new_tokens)
            done += len(part)
            meter.skip(done - meter.done)

    def _journal(self, folder: Path) -> Journal:
        return Journal(folder, self.evaluation, self.rank.process.rank)

    def _warn_of_long(self, condition: Condition, lengths: Sequence[int]) -> None:
        """Warn of examples beyond the model's context limit; once if the limit is soft."""
        context = self.generator.context
        long = [length for length in lengths if context and length > context.tokens]
        if context is None or not long or (self.soft_limit_warned and not context.hard):
            return
        self.soft_limit_warned = True
        consequence = (
            "it cannot read them, and they count as truncated"
            if context.hard
            else "it reads them beyond what it was made for (this is said once)"
        )
        log.warning(
            f"{condition.slug}: {len(long)} of {len(lengths)} examples have more than the {context.tokens:,} tokens of "
            f"{self.generator.name} ({context.setting}), up to {max(long):,}: {consequence}"
        )


class ConditionResults(NamedTuple):
    """Results of every example of a condition."""

    rows: list[dict[str, Any]]
    """Records without the run's name."""
    generations: list[Generation]
    """The model's outputs."""
    lengths: list[int]
    """The most tokens of the true sequence in view at once."""


def run_condition(
    generator: Writer, tokenizer: TraceTokenizer, condition: Condition, config: EvalConfig, meter: Meter | None = None
) -> ConditionResults:
    """Decode and score every example of a condition."""
    results = ConditionResults([], [], [])
    python, isolation = condition.data.task.environment()
    for indices, batch in _pools(condition, tokenizer, config.batch_size):
        scored = score_batch(generator, tokenizer, batch, condition, config.max_new_tokens)
        for (example, truth), result in zip(batch, scored):
            results.rows.append(
                {**_record_facts(example, truth, condition), "python": python, "isolation": isolation, **result.score}
            )
            results.generations.append(result.generation)
            results.lengths.append(longest_seen(*truth[:3], condition.data.memory, tokenizer.special_ids))
        if meter is not None:
            meter.skip(indices.stop - meter.done)
    return results


def _pools(
    condition: Condition, tokenizer: TraceTokenizer, batch: int
) -> Iterator[tuple[range, list[tuple[Example, Encoded]]]]:
    """Yield a condition's examples, `POOL` batches at a time, with their indices."""
    workers = max(1, (os.cpu_count() or 1) // neighbours())
    for start in range(0, condition.examples, POOL * batch):
        indices = range(start, min(start + POOL * batch, condition.examples))
        yield indices, encoded_examples(condition.data, tokenizer, condition.split, indices, workers)


def _record_facts(example: Example, truth: Encoded, condition: Condition) -> dict[str, Any]:
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
        "held_out_pairs": int(example.slices.get("held_out_pairs", 0)),
        "outcome": example.outcome,
        "chance": math.nan if guesses.chance is None else guesses.chance,
        "start_right": math.nan if guesses.start is None else float(guesses.start),
        **token_counts(truth.roles),
    }
