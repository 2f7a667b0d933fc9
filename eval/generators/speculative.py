"""Generator in this process, with speculative decoding: the truth is the draft.

Greedy decoding writes the truth up to the first token where another is likeliest. One parallel pass finds it. After it, drafts are
verified chunk by chunk (Leviathan et al., "Fast inference from Transformers via speculative decoding", 2023; a token is right if it
is the likeliest). The plain loop's cursor verifies them, so results are the same. At a near tie, a step of one token decides, as in
the loop.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from remedy.data_gen.roles import Role
from remedy.eval.generators.base import DecodingOptions, ModelOutput, OnWritten, Request, cursor_of, ignore_output
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.row import Proposal, Row
from remedy.eval.generators.schedule import calls, even_width, power_below, width
from remedy.eval.generators.scores import near_tie, scores
from remedy.models.chunks import Chunk, Kind
from remedy.models.reader import LOGITS, ModelReader
from remedy.models.tokenizer import TraceTokenizer

log = logging.getLogger(__name__)

FARTHEST = 2**14
"""Longest draft, in tokens."""


class LocalGenerator:
    """Generator for a model in this process.

    `batch_size`: in examples; halved when memory runs out.
    """

    def __init__(self, reader: ModelReader, tokenizer: TraceTokenizer, batch_size: int = 100) -> None:
        self.name, self.context, self.limit = reader.name, reader.context, reader.limit
        self.reader = reader
        self.tokenizer = tokenizer
        self.batch_size = batch_size

    def report(self) -> dict[str, Any]:
        return self.reader.report()

    @torch.no_grad()
    def generate(
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten = ignore_output
    ) -> list[ModelOutput]:
        order = sorted(range(len(requests)), key=lambda number: len(requests[number].example.ids))
        outputs: dict[int, ModelOutput] = {}
        waiting = list(order)
        while waiting:
            try:
                for number, output in self._outputs(requests, waiting, options):
                    outputs[number] = output
                    on_written(number, output)
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size = (min(self.batch_size, len(waiting)) + 1) // 2
                log.warning("%s: out of memory; %d examples are written at a time", self.name, self.batch_size)
            waiting = [number for number in order if number not in outputs]
        return [outputs[number] for number in range(len(requests))]

    def _outputs(
        self, requests: Sequence[Request], numbers: list[int], options: DecodingOptions
    ) -> Iterator[tuple[int, ModelOutput]]:
        if options.fed == frozenset(Role):
            loop = LoopGenerator(self.reader, self.tokenizer)
            for start in range(0, len(numbers), self.batch_size):
                batch = numbers[start : start + self.batch_size]
                yield from zip(batch, loop.batch([requests[number] for number in batch], options))
            return
        rows = (Row(number, cursor_of(requests[number], options, self.tokenizer, self.limit)) for number in numbers)
        for row in _Batch(self.reader, self.batch_size).run(rows):
            yield row.number, ModelOutput(row.cursor.generated, row.near_ties)


class _Batch:
    """Batch of rows. In each round every row reads its new tokens and a draft."""

    def __init__(self, reader: ModelReader, size: int) -> None:
        self.size = size
        self.crops = reader.kind is Kind.CROP
        self.plain = reader.kind is Kind.PLAIN
        self.steps = reader.kind is Kind.STEP
        self.chunks = reader.chunks()
        self.overhead = reader.overhead
        self.limit = reader.limit
        self.footprint = reader.footprint
        self.available = reader.available()
        self.tie_bound = near_tie(reader.departure.logprob)
        self.most = min(FARTHEST, LOGITS // reader.vocabulary)

    def run(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows as they end. Others replace them once half have ended."""
        live: list[Row] = []
        waiting = deque(islice(rows, 1))
        while live or waiting:
            if len(live) <= self.size // 2:
                while waiting and self._fits(live, waiting[0]):
                    live += waiting
                    waiting = deque(islice(rows, 1))
            for row in live:
                row.renewed = False
            if going := [row for row in live if not row.ended]:
                self._round(going)
            yield from (row for row in live if row.ended)
            live = [row for row in live if not row.ended]

    def _fits(self, live: list[Row], row: Row) -> bool:
        """Return whether memory allows another row; at least one is always read."""
        size = sum(self.footprint.of(len(other.cursor.ids)) for other in [*live, row])
        return not live or (len(live) < self.size and size <= self.available)

    def _round(self, live: list[Row]) -> None:
        proposals = [self._wanted(row, len(live)) for row in live]
        lengths = [proposal.length for proposal in proposals if proposal.cached]
        common = None
        if len(lengths) > 1:
            common = width(lengths, self.overhead) if self.crops else even_width(lengths)
        kinds: dict[tuple[bool, bool, bool], list[tuple[Row, Proposal]]] = {}
        for row, wanted in zip(live, proposals):
            proposal = self._proposal(row, wanted, common)
            uneven = self.crops or self.plain or (not wanted.cached and bool(proposal.draft))
            kind = wanted.cached == 0, uneven, proposal.as_in_loop and row.undecided
            kinds.setdefault(kind, []).append((row, proposal))
        for (fresh, uneven, _), members in kinds.items():
            # Rows with a cache share a width, which already limits their padding.
            padding = self.overhead if fresh else math.inf
            for indices in calls([proposal.length for _, proposal in members], padding, not uneven, self.most):
                self._read([members[index] for index in indices])

    def _wanted(self, row: Row, live: int) -> Proposal:
        """Return what would best be read next of a row alone."""
        cached = self.chunks.held(row.number)
        tokens = row.read[cached:]
        if not (cached or self.plain) and row.lasting:
            return Proposal(tokens[: row.lasting], [], cached=cached)
        if not row.undecided:
            return Proposal(tokens, self._draft(row, len(tokens), live), cached=cached)
        return Proposal(tokens if self._as_in_the_loop(row, cached) else tokens[:-1], [], cached=cached)

    def _draft(self, row: Row, pending: int, live: int) -> list[int]:
        """Return a draft as long as pays after `pending` tokens that are not cached.

        Until one draft was wrong, it is all of the truth.
        """
        room = min(self.most - 1, (self.limit or FARTHEST) - len(row.read))
        many_pending = pending > max(1.0, self.overhead / (4 * live))
        if row.departed and (self.steps or (many_pending and not (self.crops or self.plain))):
            return []  # each drafted token costs a call, or a wrong one costs the certain tokens again
        if room <= 0:
            return []
        return row.drafter.draft(row.read, min(room, row.reach) if row.departed else room, row.reach)

    def _proposal(self, row: Row, wanted: Proposal, common: int | None) -> Proposal:
        """Return what a row reads next: certain tokens first, in several rounds if needed."""
        tokens, count = wanted.tokens, wanted.length
        if wanted.cached and common is not None:
            if self.crops:
                count = min(count, common)
            else:  # certain tokens must be read anyway, if need be in a call of their own
                count = max(common if common <= count else 1, power_below(len(tokens)))
        if count < len(tokens) or wanted.cached + len(tokens) < len(row.read):
            return Proposal(tokens[:count], [])
        draft = wanted.draft[: count - len(tokens)]
        return Proposal(tokens, draft, whole=True, as_in_loop=not draft and self._as_in_the_loop(row, wanted.cached))

    def _as_in_the_loop(self, row: Row, cached: int) -> bool:
        """Return whether new tokens are read as in the plain loop."""
        return self.plain or len(row.read) - cached == 1 or (not cached and len(row.read) == row.prompt)

    def _read(self, members: list[tuple[Row, Proposal]]) -> None:
        if not all(
            proposal.as_in_loop for _, proposal in members
        ):  # one padded row makes the whole call unlike the plain loop's
            members = [(row, proposal._replace(as_in_loop=False)) for row, proposal in members]
        logits = self.chunks.extend(
            {row.number: Chunk([*proposal.tokens, *proposal.draft], len(proposal.draft)) for row, proposal in members}
        )
        batch_scores = scores([logits[row.number] for row, proposal in members if proposal.whole])
        right_tokens = {}
        for row, proposal in members:
            right = row.verify(proposal, next(batch_scores) if proposal.whole else None, self.tie_bound)
            if not (row.ended or row.renewed):
                right_tokens[row.number] = right
        self.chunks.keep(right_tokens)
        for row, _ in members:
            if row.lasting and self.chunks.held(row.number) == row.lasting:
                self.chunks.mark(row.number)
        self._let_go(row for row, _ in members)

    def _let_go(self, rows: Iterable[Row]) -> None:
        """Free the cache of ended rows, and of renewed rows after the context."""
        over = [row for row in rows if row.ended or row.renewed]
        self.chunks.back([row.number for row in over if not row.ended])
        self.chunks.forget([row.number for row in over if row.ended])
