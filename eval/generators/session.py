"""Rows that are written together, with guesses: which read what in one call, and what of it stands."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from remedy.eval.generators.drafts import NOTHING, Guess, Source
from remedy.eval.generators.rows import Asked, Row
from remedy.eval.generators.schedule import (
    TO_THE_END,
    Account,
    Record,
    at_once,
    calls,
    chance,
    even_width,
    power_below,
    width,
    worthwhile,
)
from remedy.eval.generators.scores import abreast, scores
from remedy.models.chunks import Chunk, Form, Rewind
from remedy.models.reader import LOGITS, ModelReader

FARTHEST = 2**14
"""Tokens that are guessed at once at most."""
PROBED = 8
"""Of so many rows one reads first."""
TIE = 4.0
"""How many times the reader's departure two logits are apart that are no near tie: for a difference of two, and twice for safety."""
LEAST_TIE = 2.0**-17
"""What is a near tie at least: the spacing of float32 at 64."""


class _Wanted(NamedTuple):
    """What a row that holds so many tokens would read next: tokens that stand, and a guess."""

    held: int
    tokens: list[int]
    guess: Guess


class Session:
    """Rows that are written together: in every round each reads what stands of it and a guess, in as few calls as pay."""

    def __init__(self, reader: ModelReader, batch_size: int) -> None:
        self.record = Record()
        self.batch_size = batch_size
        self.reader = reader.chunks()
        self.overhead = reader.pace.overhead
        self.account = Account(*reader.pace)
        self.to_the_end = TO_THE_END
        self.limit = reader.limit
        self.footprint = reader.footprint
        self.room = reader.room()
        self.near = max(TIE * reader.departure.logprob, LEAST_TIE)
        self.most = min(FARTHEST, LOGITS // reader.vocabulary)
        self.judged = False
        """Whether a guess was judged yet."""
        self.paused = False
        """Whether nothing is guessed now."""

    def run(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows as they are done. Others take their places when half of a batch is, as many as memory has room for."""
        live: list[Row] = []
        waiting = deque(islice(rows, 1))
        while live or waiting:
            if len(live) <= self.batch_size // 2:
                while waiting and self._fits(live, waiting[0]):
                    live += waiting
                    waiting = deque(islice(rows, 1))
            for row in live:
                row.renewed = False
            going = [row for row in live if not row.ended]
            self.paused = self.account.pause > 0 and all(self.reader.held(row.number) for row in going)
            if self.paused and not any(self._by_chunk(row, self.reader.held(row.number), len(going)) for row in going):
                self._steps(going)
            elif going:
                self._round(going if self.judged else self._first(going))
            for row in (row for row in live if row.ended):
                if not row.departed:
                    self._end(right=True)
                yield row
            live = [row for row in live if not row.ended]

    def _end(self, right: bool) -> None:
        """A row's truth was right to its end, or is right no more."""
        whole, judged = self.to_the_end
        self.to_the_end = whole + right, judged + 1

    def _first(self, rows: list[Row]) -> list[Row]:
        """The rows whose guesses are judged first, by which others guess: all, where another call takes longer than to read them."""
        whole = sum(len(row.cursor.ids) for row in rows)
        return rows if whole <= self.overhead else rows[: math.ceil(len(rows) / PROBED)]

    def _fits(self, live: list[Row], row: Row) -> bool:
        """Whether another row is read with those that are: if there are none, it has to be."""
        taken = sum(self.footprint.of(len(one.cursor.ids)) for one in [*live, row])
        return not live or (len(live) < self.batch_size and taken <= self.room)

    def _steps(self, live: list[Row]) -> None:
        """Without guesses, as the plain loop, until a row is done or has several tokens to read."""
        held = {row.number: self.reader.held(row.number) for row in live}
        by_number = {row.number: row for row in live}
        while self.account.pause and not any(
            row.ended or row.renewed or self._by_chunk(row, held[row.number], len(live)) for row in live
        ):
            self.account.pause -= 1
            for rows in [[row] for row in live] if self.reader.form is Form.ALONE else [self._behind(live, held)]:
                order, logits = self.reader.step({row.number: row.read[held[row.number]] for row in rows})
                found = abreast(logits)
                for place, number in enumerate(order):
                    row = by_number[number]
                    held[number] += 1
                    if held[number] == len(row.read):
                        row.step(found, place, self.near)
        self._let_go(live)

    def _let_go(self, rows: Iterable[Row]) -> None:
        """Rows that are done hold nothing more; those that begin anew, what they always see."""
        over = [row for row in rows if row.ended or row.renewed]
        self.reader.back([row.number for row in over if not row.ended])
        self.reader.forget([row.number for row in over if row.ended])

    def _behind(self, live: list[Row], held: dict[int, int]) -> list[Row]:
        """The rows that read next. Those that are a little ahead wait, and are done no later for it: the last makes its steps
        either way, and rows of one length need no mask."""
        least = min(held.values())
        near = max(held.values()) - least <= self.account.pause // 4
        return [row for row in live if held[row.number] == least] if near else live

    def _by_chunk(self, row: Row, held: int, live: int) -> bool:
        """Whether a row has several tokens to read, as where some are fed, can read them at once, and the calls that this saves take
        longer than handling the rows of a round."""
        others = len(row.read) - held - 1
        return others * self.overhead > live * self.account.bookkeeping and self.reader.rewind is not Rewind.NEVER

    def _round(self, live: list[Row]) -> None:
        """One reading of every row."""
        before = sum(row.come for row in live)
        wanted = [self._wanted(row, len(live)) for row in live]
        common = self._common([want for want in wanted if want.held])
        kinds: dict[tuple[bool, bool, bool], list[tuple[Row, Asked]]] = {}
        for row, want in zip(live, wanted):
            asked = self._asked(row, want, common)
            kind = want.held == 0, self._ragged(want.held, asked), asked.decides and row.undecided
            kinds.setdefault(kind, []).append((row, asked))
        for (fresh, ragged, _), members in kinds.items():
            lengths = [len(asked.tokens) + len(asked.guess.tokens) for _, asked in members]
            most = 0 if self.reader.form is Form.ALONE else self.most
            # Padding is little where rows read on: it is bounded by their common width.
            padding = self.overhead if fresh else math.inf
            for places in calls(lengths, padding, not ragged, most):
                self._call([members[place] for place in places])
        if self.paused:
            self.account.pause -= 1
        else:
            self.account.earn(sum(row.come for row in live) - before, len(live))

    def _wanted(self, row: Row, live: int) -> _Wanted:
        """What would best be read next of a row if it were by itself."""
        held = self.reader.held(row.number)
        tokens = row.read[held:]
        if not held and row.lasting and self.reader.marks:
            return _Wanted(held, tokens[: row.lasting], NOTHING)
        if not row.undecided:
            return _Wanted(held, tokens, self._guess(row, held, live))
        single = self.reader.form is Form.WHOLE or len(tokens) == 1 or (not held and len(row.read) == row.prompt)
        return _Wanted(held, tokens if single else tokens[:-1], NOTHING)

    def _common(self, wanted: list[_Wanted]) -> int | None:
        """How many tokens rows read at once from their states; None: each as it likes."""
        if self.reader.rewind is Rewind.NEVER:
            return 1
        if len(wanted) < 2 or self.reader.form is Form.ALONE:
            return None
        lengths = [len(want.tokens) + len(want.guess.tokens) for want in wanted]
        return width(lengths, self.overhead) if self.reader.rewind is Rewind.CROP else even_width(lengths)

    def _asked(self, row: Row, want: _Wanted, common: int | None) -> Asked:
        """What a row reads next. Tokens that stand come first: what is left of them is read in a later round."""
        tokens, guess = want.tokens, want.guess.tokens
        count = len(tokens) + len(guess)
        if want.held and common is not None:
            if self.reader.rewind is not Rewind.COPY:
                count = min(count, common)
            else:  # what stands has to be read anyway, if need be in a call of its own
                count = max(common if common <= count else 1, power_below(len(tokens)))
        if count < len(tokens) or want.held + len(tokens) < len(row.read):
            return Asked(tokens[:count], NOTHING, False, False)
        guess = guess[: count - len(tokens)]
        single = self.reader.form is Form.WHOLE or len(tokens) == 1 or (not want.held and len(row.read) == row.prompt)
        return Asked(tokens, want.guess._replace(tokens=guess), True, single and not guess)

    def _ragged(self, held: int, asked: Asked) -> bool:
        """Whether rows of different lengths can be read in one call: from a state that can be cut, or where none is kept."""
        if self.reader.form is Form.WHOLE or self.reader.rewind is Rewind.CROP:
            return True
        return held == 0 and bool(asked.guess.tokens)

    def _guess(self, row: Row, held: int, live: int) -> Guess:
        """As many tokens as it pays to guess."""
        pending, crops = len(row.read) - held, self.reader.rewind is Rewind.CROP
        room = min(self.most - 1, (self.limit or FARTHEST) - len(row.read))
        again = pending > max(1.0, self.overhead / (4 * live))
        if (
            room <= 0
            or self.paused
            or (held and self.reader.rewind is Rewind.NEVER)
            or (row.departed and again and not crops)
        ):
            return NOTHING
        saved = self.overhead / live + (len(row.read) if self.reader.form is Form.WHOLE else 1)

        def worth(source: Source) -> int:
            return worthwhile(chance(self.record, row.record, source), saved)

        guess = row.drafter.guess(row.read, room, worth)
        if guess.source is not Source.TRUTH:
            return guess
        count = worth(Source.TRUTH)
        right, judged = self.to_the_end
        if not row.departed and at_once(right / judged, len(guess.tokens), count, saved):
            return guess
        return guess._replace(tokens=guess.tokens[:count])

    def _call(self, members: list[tuple[Row, Asked]]) -> None:
        """Read in one call, and judge the guesses."""
        if not all(asked.decides for _, asked in members):  # it is not as the plain loop reads
            members = [(row, asked._replace(decides=False)) for row, asked in members]
        chunks = {
            row.number: Chunk([*asked.tokens, *asked.guess.tokens], len(asked.guess.tokens)) for row, asked in members
        }
        # The plain loop reads prompts, too.
        prompts = {row.number: max(0, row.prompt - self.reader.held(row.number)) for row, _ in members}
        logits = self.reader.extend(chunks)
        wanted = [logits[row.number] for row, asked in members if asked.whole]
        found = scores(wanted)
        kept = {}
        for row, asked in members:
            before = row.departed
            stands = row.judge(asked, next(found) if asked.whole else None, self.near)
            if row.departed and not before:
                self._end(right=False)
            self.record.judge(*row.judged)
            self.judged = True
            if not (row.ended or row.renewed):
                kept[row.number] = stands
        self.reader.keep(kept)
        for row, _ in members:
            if row.lasting and self.reader.marks and self.reader.held(row.number) == row.lasting:
                self.reader.mark(row.number)
        self._let_go(row for row, _ in members)
        if not self.paused:
            self.account.spend(
                max(len(chunks[number].tokens) - count for number, count in prompts.items()), len(chunks)
            )
