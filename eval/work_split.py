"""A process's part of a condition: which examples, and having them written. What is written is kept, and scored by whoever puts all
parts together."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

from remedy.data_gen.examples import Example
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.distributed import Rank
from remedy.eval.generators import Generator
from remedy.eval.progress import Meter
from remedy.eval.scoring import write_batch
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.processes import neighbours

log = logging.getLogger(__name__)

POOL = 8
"""Batches whose examples are made together, for a generator to write those of like lengths at a time, and rarely less than a batch."""


def pools(
    condition: Condition, tokenizer: TraceTokenizer, size: int
) -> Iterator[tuple[range, list[tuple[Example, Encoded]]]]:
    """A condition's examples, so many at a time, with their indices."""
    workers = max(1, (os.cpu_count() or 1) // neighbours())
    for start in range(0, condition.examples, size):
        indices = range(start, min(start + size, condition.examples))
        yield indices, encoded_examples(condition.data, tokenizer, condition.split, indices, workers)


def write_part(
    generator: Generator,
    tokenizer: TraceTokenizer,
    condition: Condition,
    config: EvalConfig,
    rank: Rank,
    meter: Meter,
) -> None:
    """Have this process's part of a condition written by a generator that keeps it.

    All make all examples, which takes little beside writing them, and so agree on the parts. Where they do not, as of a program that
    is near a limit of time, the first process writes what it lacks.
    """
    done = 0
    for _, batch in pools(condition, tokenizer, POOL * config.batch_size * rank.process.world_size):
        part = [batch[place] for place in rank.part([len(truth.ids) for _, truth in batch])]
        write_batch(generator, tokenizer, part, condition, config.max_new_tokens)
        done += len(part)
        meter.skip(done - meter.done)


def warn_of_long(generator: Generator, condition: Condition, lengths: list[int], warned: bool) -> bool:
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
