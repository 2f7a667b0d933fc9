"""Generator for a model on a server, by token ids.

One request scores the true trace (`prompt_logprobs`). After the first token that differs, or nearly ties, the model writes: one
request per run, with all tokens so far as the prompt, for a server with prefix caching. The plain loop's cursor verifies all
replies and feeds certain tokens. Under a constraint, a request's grammar allows the next token's choices and then anything; what
the constraint allows is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from remedy.data_gen.roles import Role
from remedy.data_gen.window_examples import windows
from remedy.eval.decoding.cursor import Cursor, Generated
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
from remedy.eval.generators.http_client import HttpClient, ServerClosed
from remedy.eval.generators.other_cuts import other_cuts
from remedy.eval.generators.row import Proposal, Row
from remedy.eval.generators.scores import near_tie
from remedy.eval.generators.server import About, Server, beginning, connect, try_grammar
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
        self.at_once = min(batch_size, CONNECTIONS)
        self.client = HttpClient(backend, self.at_once)
        self.applies_grammar = False
        """Whether the server was seen to apply a grammar."""
        self.server: Server = _run(connect(self.client, tokenizer, name))
        self.context = self.about.limit
        self.limit = self.context.tokens if self.context else None
        if self.about.batch_invariant in ("off", "unknown"):
            log.warning(
                "%s: two evaluations may differ by rounding alone, which a paired comparison counts: start it with "
                "VLLM_BATCH_INVARIANT=1, and give backend.batch_invariant=true if it does not say so itself",
                backend.url,
            )

    @property
    def about(self) -> About:
        """Return facts about the server, which identify an evaluation."""
        return self.server.about

    def report(self) -> dict[str, Any]:
        context = self.context._asdict() if self.context else None
        how = {"departure": self.server.departure, "certain_tokens": "fed", "cut": None, "context": context}
        return {"url": self.backend.url, **self.about._asdict(), **how}

    def generate(
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten = ignore_output
    ) -> list[ModelOutput]:
        return _run(self._generate(requests, options, on_written))

    async def _generate(
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten
    ) -> list[ModelOutput]:
        outputs: dict[int, ModelOutput] = {}
        waiting = iter(range(len(requests)))

        async def work() -> None:
            for number in waiting:
                outputs[number] = await self._write(requests[number], options)
                on_written(number, outputs[number])

        try:
            async with self.client.opened():
                if any(request.start for request in requests) and not self.applies_grammar:
                    await try_grammar(self.server, self.tokenizer)
                    self.applies_grammar = True
                await asyncio.gather(*(work() for _ in range(min(self.at_once, len(requests)))))
        except UserError as error:
            cure = "start the server again and give" if isinstance(error, ServerClosed) else "put that right and give"
            raise UserError(f"{error}: {cure} the same command, which goes on from there") from None
        return [outputs[number] for number in range(len(requests))]

    async def _write(self, request: Request, options: DecodingOptions) -> ModelOutput:
        truth = request.example
        if options.fed == frozenset(Role):
            return ModelOutput(await self._predicted(truth, options))
        cursor = cursor_of(request, options, self.tokenizer, self.limit)
        row, agreement = Row(0, cursor), _Agreement()
        tie_bound = near_tie(self.server.departure)
        while not row.ended:
            row.renewed = False
            draft = self._draft(row, agreement)
            if draft:
                scores = await self.server.score(row.read, draft)
                row.verify(Proposal([], draft, whole=True), scores, tie_bound)
                agreement.right, agreement.wrong = agreement.right + row.verified, agreement.wrong + 1
                continue
            choices = cursor.choices
            most = self._most(row, agreement.reach if request.start else PIECE)
            scores = await self.server.write(row.read, most, cursor.stops, beginning(choices) if choices else "")
            if choices and scores.tokens[0] not in choices:
                raise UserError(
                    f"{self.backend.url}: the server did not hold to the grammar: it wrote token {scores.tokens[0]}"
                )
            before = len(cursor.generated)
            accepted = row.verify(Proposal([], scores.tokens[:-1], whole=True, as_in_loop=True), scores, tie_bound)
            agreement.record(truth, cursor.generated[before:], accepted == len(scores.tokens) - 1)
        return ModelOutput(cursor.generated, row.near_ties)

    async def _predicted(self, truth: Encoded, options: DecodingOptions) -> list[Generated]:
        """Predict true tokens (teacher forcing): a request per window, and one per text that may be cut otherwise."""
        ids, logprobs = [0] * len(truth.ids), [0.0] * len(truth.ids)
        seen = windows(truth.ids, truth.roles, truth.frames, options.memory, self.tokenizer.special_ids)
        for window in seen:
            tokens = [truth.ids[position] for position in window.positions]
            first = max(window.start + window.shift, 1)
            scores = await self.server.score(tokens[:first], tokens[first:-1])
            positions = slice(window.stop - len(scores.tokens), window.stop)
            ids[positions], logprobs[positions] = scores.tokens, scores.logprobs
        for cut in other_cuts(truth, options, ids, self.tokenizer):
            if prompt := cut.prompt(seen, self.limit):
                for token in (await self.server.write(prompt, cut.most, ())).tokens:
                    if cut.right is None:
                        cut.take(token)
            cut.settle(ids, logprobs)
        return predictions(truth, options.predicted, ids, logprobs)

    def _most(self, row: Row, reach: int) -> int:
        """Return how many tokens to request: 1 for a near tie, else at most `reach`."""
        if row.undecided and not row.departed:
            return 1
        room = self.about.longest - len(row.read) if self.about.longest else PIECE
        return max(1, min(row.cursor.remaining, reach, room))

    def _draft(self, row: Row, agreement: _Agreement) -> list[int]:
        """Return the true tokens that are worth scoring."""
        cursor, read = row.cursor, len(row.read)
        ahead = None if row.undecided else cursor.ahead(len(cursor.ids) if self.limit is None else self.limit - read)
        if ahead is None:
            return []
        position, tokens = ahead
        last = cursor.runs[cursor.written][1]
        end = (
            last if last < len(cursor.ids) else last - 1
        )  # nothing follows the end-of-text token, so it needs no score
        count = max(0, min(len(tokens), end - position))
        return tokens[: agreement.worthwhile(cursor, read, count)]


class _Agreement:
    """Agreement of a row with the truth so far.

    `reach`: tokens to request under a constraint.
    """

    def __init__(self) -> None:
        self.right = self.wrong = 0
        self.reach = SHORT

    def record(self, truth: Encoded, runs: Sequence[Generated], accepted: bool) -> None:
        """Count written runs. `accepted`: whether a constraint allowed all of them."""
        self.reach = min(2 * self.reach, PIECE) if accepted else SHORT
        for run in runs:
            right = run.ids == truth.ids[run.start : run.stop]
            self.right += len(run.ids) * right
            self.wrong += not right

    def worthwhile(self, cursor: Cursor, read: int, count: int) -> int:
        """Return how many true tokens to score after `read` tokens; 0 if writing is cheaper.

        Scoring reads the whole prompt again, and saves requests and writing up to the next departure.
        """
        if not self.wrong:
            return count
        expected = self.right / self.wrong
        model_lengths = [stop - start for start, stop, fed in cursor.runs if not fed]
        reach = min(count, round(2 * expected * len(cursor.ids) / sum(model_lengths)))
        saved = expected * DECODED + expected * len(model_lengths) / sum(model_lengths) * REQUEST
        return reach if saved > read + reach + REQUEST else 0


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread if an event loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
