"""A model on a server, asked by token ids: the truth is scored in one request, and what it departs from is written by others.

A request scores the true trace (`prompt_logprobs`): where the likeliest token is the true one throughout, nothing is decoded. From the
first departure on the model writes, a request for a written run, whose prompt is all that stands so far: a server that caches prefixes
reads each token once. Where the two likeliest tokens of a scored place are nearer than the server's own two ways of computing, the
model writes that token, as it would in the plain loop. The cursor of that loop judges all replies, and walks over what is certain.
Under a constraint, a request that begins with a choice carries a grammar of the next token alone, and the model writes on freely: as
far as the constraint allows it, that stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from remedy.data_gen.context_window import Memory
from remedy.data_gen.roles import Role
from remedy.data_gen.window_examples import windows
from remedy.eval.decoding.cursor import Cursor, Generated
from remedy.eval.generators.backend import Backend
from remedy.eval.generators.base import Done, Request, Writing, Written, cursor_of, ignore, predictions
from remedy.eval.generators.http_client import HttpClient, ServerClosed
from remedy.eval.generators.row import Proposal, Row
from remedy.eval.generators.scores import near_tie
from remedy.eval.generators.server import About, Server, beginning, connect, try_grammar
from remedy.models.context_length import ContextLimit
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import UserError

log = logging.getLogger(__name__)
T = TypeVar("T")

PIECE = 512
"""Tokens that one request writes at most, so that its reply comes in time, and little is lost with it."""
REQUEST = 256.0
"""How many tokens a server reads in the time that a request takes beside them."""
DECODED = 8.0
"""How many it reads in the time in which it writes one: of a model of 32B with 32 rows at a time, 0.16 ms against 1 ms."""
SHORT = round(REQUEST / DECODED)
"""Tokens that are asked for where little of the last reply stood: as many as take as long as a request."""
CONNECTIONS = 512
"""Requests at a time at most: more than a server computes at once, fewer than files that a process may have open."""


class ServedGenerator:
    """A backend's model."""

    def __init__(
        self, backend: Backend, tokenizer: TraceTokenizer, name: str = "the model", batch_size: int = 100
    ) -> None:
        """Connects, and tries what will be asked of the server. `batch_size`: examples that are under way at a time.

        Raises:
            UserError: it is not there, or cannot be used.
        """
        self.name, self.backend, self.tokenizer = name, backend, tokenizer
        self.at_once = min(batch_size, CONNECTIONS)
        self.client = HttpClient(backend, self.at_once)
        self.holds = False
        """Whether it has been seen to hold its model to a grammar."""
        self.server: Server = _run(connect(self.client, tokenizer, name))
        if self.about.batch_invariant in ("off", "unknown"):
            log.warning(
                "%s: two evaluations may differ by rounding alone, which a paired comparison counts: start it with "
                "VLLM_BATCH_INVARIANT=1, and give backend.batch_invariant=true if it does not say so itself",
                backend.url,
            )

    @property
    def about(self) -> About:
        """Facts of the server, which make an evaluation another one."""
        return self.server.about

    @property
    def context(self) -> ContextLimit | None:
        return self.about.limit

    @property
    def limit(self) -> int | None:
        return self.context.tokens if self.context else None

    def report(self) -> dict[str, Any]:
        context = self.context._asdict() if self.context else None
        how = {"departure": self.server.departure, "certain_tokens": "fed", "cut": None, "context": context}
        return {"url": self.backend.url, **self.about._asdict(), **how}

    def generate(self, asked: Sequence[Request], writing: Writing, done: Done = ignore) -> list[Written]:
        return _run(self._generate(asked, writing, done))

    async def _generate(self, asked: Sequence[Request], writing: Writing, done: Done) -> list[Written]:
        """Each example as soon as there is room for it."""
        found: dict[int, Written] = {}
        waiting = iter(range(len(asked)))

        async def work() -> None:
            for number in waiting:
                found[number] = await self._write(asked[number], writing)
                done(number, found[number])

        try:
            async with self.client.opened():
                if any(one.start for one in asked) and not self.holds:
                    await try_grammar(self.server, self.tokenizer)
                    self.holds = True
                await asyncio.gather(*(work() for _ in range(min(self.at_once, len(asked)))))
        except UserError as error:
            cure = "start the server again and give" if isinstance(error, ServerClosed) else "put that right and give"
            raise UserError(f"{error}: {cure} the same command, which goes on from there") from None
        return [found[number] for number in range(len(asked))]

    async def _write(self, request: Request, writing: Writing) -> Written:
        truth = request.example
        if writing.fed == frozenset(Role):
            return Written(await self._predicted(truth, writing.predicted, writing.memory))
        cursor = cursor_of(request, writing, self.tokenizer, self.limit)
        row, luck = Row(0, cursor), _Luck()
        near = near_tie(self.server.departure)
        while not row.ended:
            row.renewed = False
            draft = self._draft(row, luck)
            if draft:
                scores = await self.server.score(row.read, draft)
                row.judge(Proposal([], draft, whole=True), scores, near)
                luck.right, luck.wrong = luck.right + row.judged, luck.wrong + 1
                continue
            among = cursor.among
            most = self._most(row, luck.reach if request.start else PIECE)
            scores = await self.server.write(row.read, most, cursor.stops, beginning(among) if among else "")
            if among and scores.tokens[0] not in among:
                raise UserError(
                    f"{self.backend.url}: the server did not hold to the grammar: it wrote token {scores.tokens[0]}"
                )
            before = len(cursor.generated)
            stood = row.judge(Proposal([], scores.tokens[:-1], whole=True, decides=True), scores, near)
            luck.written(truth, cursor.generated[before:], stood == len(scores.tokens) - 1)
        return Written(cursor.generated, row.near_ties)

    async def _predicted(self, truth: Encoded, predicted: frozenset[Role], memory: Memory | None) -> list[Generated]:
        """Teacher forcing: one request, or with a memory one for each window of it."""
        ids, logprobs = [0] * len(truth.ids), [0.0] * len(truth.ids)
        for window in windows(truth.ids, truth.roles, truth.frames, memory, self.tokenizer.special_ids):
            seen = [truth.ids[place] for place in window.positions]
            first = max(window.start + window.shift, 1)
            scores = await self.server.score(seen[:first], seen[first:-1])
            places = slice(window.stop - len(scores.tokens), window.stop)
            ids[places], logprobs[places] = scores.tokens, scores.logprobs
        return predictions(truth, predicted, ids, logprobs)

    def _most(self, row: Row, reach: int) -> int:
        """Return how many tokens are written, at most `reach`: of a near tie that token alone, as long as the truth may go on."""
        if row.undecided and not row.departed:
            return 1
        room = self.about.longest - len(row.read) if self.about.longest else PIECE
        return max(1, min(row.cursor.remaining, reach, room))

    def _draft(self, row: Row, luck: _Luck) -> list[int]:
        """The truth from here on, where it pays to have it scored: at first always."""
        cursor, read = row.cursor, len(row.read)
        true = None if row.undecided else cursor.ahead(len(cursor.ids) if self.limit is None else self.limit - read)
        if true is None:
            return []
        place, tokens = true
        last = cursor.runs[cursor.written][1]
        end = last if last < len(cursor.ids) else last - 1  # of what ends the last run nothing follows
        count = max(0, min(len(tokens), end - place))
        return tokens[: luck.worthwhile(cursor, read, count)]


class _Luck:
    """Record of how often a row wrote what is true: tokens that were, and how often it left the truth, or nearly. `reach`: how many
    tokens it is asked for where a constraint may want others than it writes."""

    def __init__(self) -> None:
        self.right = self.wrong = 0
        self.reach = SHORT

    def written(self, truth: Encoded, runs: Sequence[Generated], stood: bool) -> None:
        """Runs that were written; `stood`: whether a constraint took all of them."""
        self.reach = min(2 * self.reach, PIECE) if stood else SHORT
        for run in runs:
            right = run.ids == truth.ids[run.start : run.stop]
            self.right += len(run.ids) * right
            self.wrong += not right

    def worthwhile(self, cursor: Cursor, read: int, count: int) -> int:
        """Return how many tokens of the truth are scored of a row that has read so many; 0 where writing them takes less.

        A request that scores reads all of its prompt anew, and saves what is asked for and written up to the next departure.
        """
        if not self.wrong:
            return count
        expected = self.right / self.wrong
        written = [stop - start for start, stop, fed in cursor.runs if not fed]
        reach = min(count, round(2 * expected * len(cursor.ids) / sum(written)))
        saved = expected * DECODED + expected * len(written) / sum(written) * REQUEST
        return reach if saved > read + reach + REQUEST else 0


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; in a thread of its own where an event loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
