"""A model in this process, whose traces are guessed and judged in parallel: the truth is the draft.

Greedy decoding writes the true trace up to the first token where the likeliest after the true past is another one. One parallel pass
over the truth finds it; only what follows has to be decoded, and there, too, guesses are judged by the chunk (Leviathan et al., "Fast
inference from Transformers via speculative decoding", 2023; here a guess is right where it is the likeliest token). The cursor that the
plain loop walks with judges them, so that the same tokens are written. Where the two likeliest tokens are nearer than rounding, a step
of one token decides, as there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from remedy.data_gen.roles import Role
from remedy.eval.decoding.protocol import Heard, Place
from remedy.eval.generators.base import GENERATORS, Done, Writing, Written, cursor_of, listening, nothing, starting
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.rows import Row
from remedy.eval.generators.session import Session
from remedy.models.context_length import ContextLimit
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer

log = logging.getLogger(__name__)


@GENERATORS.register("local")
class LocalGenerator:
    """A model in this process. `batch_size`: examples written at a time; where memory runs out, half as many."""

    def __init__(self, reader: ModelReader, tokenizer: TraceTokenizer, batch_size: int = 100) -> None:
        self.name = reader.name
        self.reader = reader
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    @property
    def context(self) -> ContextLimit | None:
        return self.reader.context

    @property
    def limit(self) -> int | None:
        return self.reader.limit

    def report(self) -> dict[str, Any]:
        return self.reader.report()

    @torch.no_grad()
    def generate(
        self,
        examples: Sequence[Encoded],
        writing: Writing,
        done: Done = nothing,
        starts: Sequence[Place] = (),
        heard: Sequence[Heard] = (),
    ) -> list[Written]:
        places, listeners = starting(starts, len(examples)), listening(heard, len(examples))
        order = sorted(range(len(examples)), key=lambda number: len(examples[number].ids))
        found: dict[int, Written] = {}
        waiting = list(order)
        while waiting:
            try:
                for number, written in self._written(examples, waiting, writing, places, listeners):
                    found[number] = written
                    done(number, written)
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size = (min(self.batch_size, len(waiting)) + 1) // 2
                log.warning("%s: out of memory; %d examples are written at a time", self.name, self.batch_size)
            waiting = [number for number in order if number not in found]
        return [found[number] for number in range(len(examples))]

    def _written(
        self,
        examples: Sequence[Encoded],
        numbers: list[int],
        writing: Writing,
        starts: Sequence[Place | None],
        heard: Sequence[Heard],
    ) -> Iterator[tuple[int, Written]]:
        """What is written of the examples of these numbers, as soon as they are done."""
        if writing.fed != frozenset(Role) and self.reader.steady:
            session = Session(self.reader, self.batch_size)
            rows = (
                Row(
                    number,
                    cursor_of(examples[number], writing, self.tokenizer, self.limit, starts[number], heard[number]),
                )
                for number in numbers
            )
            yield from ((row.number, Written(row.cursor.generated, row.near_ties)) for row in session.run(rows))
            return
        for start in range(0, len(numbers), self.batch_size):
            batch = numbers[start : start + self.batch_size]
            loop = LoopGenerator(self.reader, self.tokenizer)
            begin, told = [starts[n] for n in batch], [heard[n] for n in batch]
            yield from zip(batch, loop.batch([examples[n] for n in batch], writing, begin, told))
