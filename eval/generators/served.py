"""Generator for a model on a server, by token ids.

One request scores the true trace (`prompt_logprobs`). After the first wrong token, or near tie, the model writes: one request per
run, with all tokens so far as the prompt, for a server with prefix caching. The plain loop's cursor verifies all replies and feeds
certain tokens. Under a constraint, a grammar allows the next token's choices and then anything; what the constraint allows is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from remedy.data_gen.roles import Role
from remedy.data_gen.window_examples import windows
from remedy.eval.decoding.cursor import Generated
from remedy.eval.generators.backend import Backend
from remedy.eval.generators.base import (
    DecodingOptions,
    ModelOutput,
    OnWritten,
    Request,
    cursor_of,
    ignore_output,
    predictions,
)
from remedy.eval.generators.completions import beginning
from remedy.eval.generators.other_cuts import other_cuts
from remedy.eval.generators.row import Proposal, Row
from remedy.eval.generators.scores import near_tie
from remedy.eval.generators.server import Server, connect, try_grammar
from remedy.models.context_length import ContextLimit
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import UserError

log = logging.getLogger(__name__)
T = TypeVar("T")

PIECE = 512
"""Most tokens that one request writes, so that replies come in time and little is lost with one."""
REQUEST = 256.0
"""Cost of a request, in tokens that a server reads in the same time."""
DECODED = 8.0
"""Cost of a written token, in read tokens: for a 32B model with 32 rows at a time, 1 ms against 0.16 ms."""
SHORT = round(REQUEST / DECODED)
"""Tokens to request after little of the last reply was kept: they cost as much as a request."""
CONNECTIONS = 512
"""Most concurrent requests: more than a server computes at once, and fewer than a process's open files."""


class ServedGenerator:
    """Generator for a backend's model."""

    def __init__(
        self, backend: Backend, tokenizer: TraceTokenizer, name: str = "the model", batch_size: int = 100
    ) -> None:
        """Connect to the server and test it. `batch_size`: in examples.

        Raises:
            UserError: the server cannot be reached or used.
        """
        self.name, self.backend, self.tokenizer = name, backend, tokenizer
        self.server = Server(backend, min(batch_size, CONNECTIONS))
        self.about, self.departure = _run(connect(self.server, tokenizer, name))
        self.limit = self.about.longest and self.about.longest - 1
        setting = "max_model_len, less the token that is written"
        self.context = ContextLimit(self.limit, setting, True) if self.limit else None
        if self.about.batch_invariant in ("off", "unknown"):
            log.warning(
                "%s: two evaluations may differ by rounding alone, which a paired comparison counts: start it with "
                "VLLM_BATCH_INVARIANT=1, and give backend.batch_invariant=true if it does not say so itself",
                backend.url,
            )

    def report(self) -> dict[str, Any]:
        context = self.context._asdict() if self.context else None
        how = {"departure": self.departure, "certain_tokens": "fed", "cut": None, "context": context}
        return {"url": self.backend.url, **self.about._asdict(), **how}

    def generate(
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten = ignore_output
    ) -> list[ModelOutput]:
        return _run(self._generate(requests, options, on_written))

    async def _generate(
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten
    ) -> list[ModelOutput]:
        free = asyncio.Semaphore(self.server.most)

        async def write(number: int, request: Request) -> ModelOutput:
            async with free:
                output = await self._write(request, options)
                on_written(number, output)
                return output

        try:
            async with self.server.opened():
                if any(request.start for request in requests):
                    await try_grammar(self.server, self.tokenizer)
                return await asyncio.gather(*(write(*numbered) for numbered in enumerate(requests)))
        except UserError as error:
            raise UserError(f"{error}; then give the same command, which goes on from there") from None

    async def _write(self, request: Request, options: DecodingOptions) -> ModelOutput:
        truth = request.example
        if options.fed == frozenset(Role):
            return ModelOutput(await self._predicted(truth, options))
        cursor = cursor_of(request, options, self.tokenizer, self.limit)
        row, tie_bound = Row(0, cursor), near_tie(self.departure)
        scored, reach = 0, SHORT if request.start else PIECE
        while not row.ended:
            row.renewed = False
            if draft := self._draft(row, scored):
                scored += 1
                row.verify(Proposal([], draft, whole=True), await self.server.score(row.read, draft), tie_bound)
                continue
            room = self.about.longest - len(row.read) if self.about.longest else PIECE
            most = 1 if row.undecided and not row.departed else max(1, min(cursor.remaining, reach, room))
            choices = cursor.choices
            scores = await self.server.write(row.read, most, cursor.stops, beginning(choices) if choices else "")
            if choices and scores.tokens[0] not in choices:
                raise UserError(
                    f"{self.backend.url}: the server did not hold to the grammar: it wrote token {scores.tokens[0]}"
                )
            accepted = row.verify(Proposal([], scores.tokens[:-1], whole=True, as_in_loop=True), scores, tie_bound)
            if request.start:
                reach = min(2 * reach, PIECE) if accepted == len(scores.tokens) - 1 else SHORT
        return ModelOutput(cursor.generated, row.near_ties)

    async def _predicted(self, truth: Encoded, options: DecodingOptions) -> list[Generated]:
        """Predict true tokens (teacher forcing): a request per window, and some per text that may be cut otherwise."""
        ids, logprobs = [0] * len(truth.ids), [0.0] * len(truth.ids)
        seen = windows(truth.ids, truth.roles, truth.frames, options.memory, self.tokenizer.special_ids)
        for window in seen:
            tokens = [truth.ids[position] for position in window.positions]
            first = max(window.start + window.shift, 1)
            scores = await self.server.score(tokens[:first], tokens[first:-1])
            positions = slice(window.stop - len(scores.tokens), window.stop)
            ids[positions], logprobs[positions] = scores.tokens, scores.logprobs
        stops = sorted(self.tokenizer.special_ids.values())
        for cut in other_cuts(truth, options, ids, self.tokenizer):
            while prompt := cut.prompt(seen, self.limit):
                most = min(cut.most - len(cut.written), PIECE)
                for token in (await self.server.write(prompt, most, stops)).tokens:
                    if cut.right is None:
                        cut.take(token)
            cut.settle(ids, logprobs)
        return predictions(truth, options.predicted, ids, logprobs)

    def _draft(self, row: Row, scored: int) -> list[int]:
        """Return the true tokens that are worth scoring. `scored`: number of drafts before.

        Scoring reads the whole prompt again, and saves requests and writing up to the next break: a draft's end or a wrong run.
        """
        cursor, read = row.cursor, len(row.read)
        ahead = None if row.undecided else cursor.ahead(len(cursor.ids) if self.limit is None else self.limit - read)
        if ahead is None:
            return []
        position, tokens = ahead
        end = cursor.runs[cursor.written][1]
        # Nothing follows the end-of-text token, so it needs no score.
        tokens = tokens[: max(0, end - (end == len(cursor.ids)) - position)]
        breaks = scored + sum(run.ids != cursor.ids[run.start : run.stop] for run in cursor.generated)
        if not breaks:
            return tokens
        lengths = [stop - start for start, stop, fed in cursor.runs if not fed]
        cost = (len(lengths) * REQUEST + sum(lengths) * DECODED) / len(cursor.ids)  # of writing, per token of the trace
        expected = (position - cursor.runs[0][1]) / breaks
        tokens = tokens[: round(2 * expected)]
        return tokens if expected * cost > read + len(tokens) + REQUEST else []


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread if an event loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
