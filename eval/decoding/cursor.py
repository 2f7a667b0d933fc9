"""Forced decoding: a cursor feeds tokens of some roles and takes the model's for others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.window_examples import context_size
from remedy.eval.decoding.memory import RememberedTokens
from remedy.eval.decoding.protocol import UNCONSTRAINED, UNCUT, Cut, TokenListener, TokenOrigin, ignore_token
from remedy.models.tokenizer import Encoded, TraceTokenizer


class Generated(NamedTuple):
    """Tokens generated in place of the true ones from `start` to `stop` (exclusive).

    `complete` is false if a limit cut the run. `origins`: under a constraint, the origin of each token. Fed tokens have
    log-probability 0; a closing token has that of the special token which the model wrote for it.
    """

    start: int
    stop: int
    ids: list[int]
    logprobs: list[float]
    complete: bool
    origins: tuple[TokenOrigin, ...] = ()

    @property
    def written_count(self) -> int:
        return len(self.ids) - sum(origin.certain for origin in self.origins)


class Cursor:
    """Cursor over one example: feeds tokens, takes generated ones and ends runs.

    The caller passes predictions in, and may draft what is `ahead`. Drafts change no result.

    A run between fed tokens ends before the true next token, before any special token, or at a limit; with `exact`,
    only at the length of the true run. An event is a run of one token. The last run ends with the end-of-text token.
    `longest`: most tokens that the model can read; there the run is cut, and later runs stay empty.

    `memory`: which frames are seen before the current one (None: all). When one is forgotten, the row `waits` to be
    read again. Frames end at FRAME_SEP where the model writes the structure, else where the true ones end.
    """

    def __init__(
        self,
        truth: Encoded,
        fed: frozenset[Role],
        tokenizer: TraceTokenizer,
        exact: bool,
        max_new_tokens: int,
        longest: int | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.ids = truth.ids
        self.roles = truth.roles
        self.frames = truth.frames
        self.tokenizer = tokenizer
        self.exact = exact
        self.max_new_tokens = max_new_tokens
        self.runs = runs_of(truth, fed)
        # After the model's last run, all else is fed, and need not be read.
        self.written = max((number for number, (_, _, is_fed) in enumerate(self.runs) if not is_fed), default=-1)
        self.run = 0
        self.offset = context_size(truth.roles) if Role.CONTEXT in fed else 0
        self.remembered = RememberedTokens(truth.ids[: self.offset], memory, tokenizer.special_ids)
        self.waits = True
        writes_structure = Role.STRUCTURE not in fed and not exact
        self.frame_end = tokenizer.special_ids[Special.FRAME_SEP] if writes_structure else None
        self.read = 0
        self.in_step = True
        self.longest = longest
        self.current: list[int] = []
        self.logprobs: list[float] = []
        self.origins: list[TokenOrigin] = []
        self.generated: list[Generated] = []
        self.listener: TokenListener = ignore_token

    @property
    def done(self) -> bool:
        return self.run == len(self.runs)

    @property
    def finished(self) -> bool:
        """Return whether the model has nothing left to write."""
        return self.run > self.written

    @property
    def settled(self) -> bool:
        """Return whether the next token, or the end, is known without a prediction."""
        if self.done or self.waits:
            return True
        start, stop, is_fed = self.runs[self.run]
        if is_fed:
            return start + self.offset < stop
        ended, last = self._ended(start, stop), self.run + 1 == len(self.runs)
        return ended is not None and (last or (ended and self.runs[self.run + 1][2]))

    def ahead(self, most: int) -> tuple[int, list[int]] | None:
        """Return the row's true position and up to `most` true tokens seen after it.

        None if the run has left the truth.
        """
        if self.done or not self.in_step:
            return None
        start, _, is_fed = self.runs[self.run]
        position = start + (self.offset if is_fed else len(self.current))
        stop = min(len(self.ids), position + most)
        seen = self.remembered.reach(
            (self.ids[index], ends_frame(self.frames, index)) for index in range(position, stop)
        )
        return position, list(self.ids[position : stop if seen is None else position + seen])

    @property
    def choices(self) -> list[int] | None:
        """Return the tokens that the model chooses among; None for all, or if settled."""
        return None

    def complete_draft(self, tokens: list[int], count: int) -> list[int]:
        """Cut a draft at the run's end and append fed tokens up to `count`."""
        stop = self.runs[self.run][1]
        if stop == len(self.ids):
            return tokens
        for position, token in enumerate(tokens):
            if token == self.ids[stop] or self.tokenizer.is_special(token):
                return [*tokens[:position], *self.ids[stop : stop + count - position]]
        return tokens

    @property
    def remaining(self) -> int:
        """Count the tokens that the model may still write in its run, with its end."""
        start, stop, last, length = self._current_run()
        if self.roles[start] == Role.EVENT and not last:
            return 1
        return self._limit(stop - start, last) - length + (not last and not self.exact)

    @property
    def stops(self) -> list[int]:
        start, stop, last, _ = self._current_run()
        if last:  # with a memory a server must stop after every frame, since one may be forgotten there
            forgets = self.frame_end is not None and self.remembered.forgets
            return [self.tokenizer.eos_id, self.tokenizer.special_ids[Special.FRAME_SEP]][: 1 + forgets]
        if self.exact or self.roles[start] == Role.EVENT:
            return []
        return sorted({*self.tokenizer.special_ids.values(), self.ids[stop]})

    def _current_run(self) -> tuple[int, int, bool, int]:
        """Return start, stop, whether last, and written length of the model's next run."""
        first = self.run
        if self.current and self.run < self.written and self.roles[self.runs[self.run][0]] == Role.EVENT:
            first += 1  # an event is one token, so the next token belongs to the next run
        run = next(number for number in range(first, len(self.runs)) if not self.runs[number][2])
        return *self.runs[run][:2], run + 1 == len(self.runs), len(self.current) if run == self.run else 0

    def prompt(self) -> list[int]:
        """Return all tokens that the model reads at once, up to its next prediction.

        The example is done if nothing is left to predict, or the prompt is too long.
        """
        start, stop, is_fed = self.runs[self.run]
        if is_fed:
            for position in range(start + self.offset, stop):
                self.remembered.take(self.ids[position], ends_frame(self.frames, position))
            self.run, self.offset = self.run + 1, 0
        self.waits = False
        tokens = self.remembered.tokens()
        self.read = len(tokens)
        if self.longest is not None and self.read > self.longest:
            self._cut()
        return tokens

    def next_token(self, predicted: int, logprob: float, cut: Cut = UNCUT) -> int | None:
        """Return the token to read next; None if the example has ended or waits.

        `predicted`: the model's choice, one of `choices`.
        """
        token = None if self.waits else self._next(predicted, logprob, cut)
        if token is None:
            return None
        self.read += 1
        self.waits = self.remembered.take(token, self._closes(token))
        if self.waits:
            return None
        if self.longest is not None and self.read > self.longest:
            self._cut()
            return None
        return token

    def _closes(self, token: int) -> bool:
        if self.frame_end is not None:
            return token == self.frame_end
        start, _, is_fed = self.runs[self.run]
        # Less one, since `_next` has counted the token already.
        if is_fed:
            return ends_frame(self.frames, start + self.offset - 1)
        return self.exact and ends_frame(self.frames, start + len(self.current) - 1)

    def _next(self, predicted: int, logprob: float, cut: Cut) -> int | None:
        while not self.done:
            start, stop, is_fed = self.runs[self.run]
            if is_fed:
                if start + self.offset < stop:
                    self.offset += 1
                    return self.ids[start + self.offset - 1]
                self.run, self.offset = self.run + 1, 0
                continue
            complete = self._ended(start, stop, predicted)
            if complete is not None:
                self._close(complete)
                continue
            self.in_step &= start + len(self.current) < stop and self.ids[start + len(self.current)] == predicted
            self.current.append(predicted)
            self.logprobs.append(logprob)
            self.listener(predicted, logprob, UNCONSTRAINED)
            return predicted
        return None

    def _ended(self, start: int, stop: int, predicted: int | None = None) -> bool | None:
        """Return whether the run, ended before the predicted token, is complete; None if it continues."""
        last = self.run + 1 == len(self.runs)
        if self.roles[start] == Role.EVENT and not last:
            return True if self.current else None
        if last and self.current and self.current[-1] == self.tokenizer.eos_id:
            return True
        # Texts hold no special tokens: any of them, also a wrong one, ends a text.
        if predicted is not None and not (last or self.exact):
            follows = predicted == self.ids[stop]
            if follows or self.tokenizer.is_special(predicted):
                return True
        return self.exact and not last if len(self.current) >= self._limit(stop - start, last) else None

    def _cut(self) -> None:
        while not self.done:
            if self.runs[self.run][2]:
                self.run += 1
            else:
                self._close(complete=False)

    def _limit(self, length: int, last: bool) -> int:
        if last:
            return self.max_new_tokens
        # A wrong text may be longer than the true one; this cuts one that does not end.
        return length if self.exact else 2 * length + 16

    def _close(self, complete: bool) -> None:
        start, stop, _ = self.runs[self.run]
        self.generated.append(Generated(start, stop, self.current, self.logprobs, complete, tuple(self.origins)))
        self.current, self.logprobs, self.in_step = [], [], True
        self.run += 1


def runs_of(truth: Encoded, fed: frozenset[Role]) -> list[tuple[int, int, bool]]:
    """Return the maximal runs of fed and of other tokens as (start, stop, fed).

    An event between fed separators is a run of its own.
    """
    flags = [role in fed for role in truth.roles]
    # No separator stands between an event and its state: only the event's length tells where it ends.
    separate = {Role.EVENT} - fed if Role.STRUCTURE in fed else frozenset()
    events = [role in separate for role in truth.roles]
    borders = [i for i in range(1, len(flags)) if (flags[i], events[i]) != (flags[i - 1], events[i - 1])]
    return [(a, b, flags[a]) for a, b in pairwise([0, *borders, len(flags)])]


def ends_frame(frames: Sequence[int], position: int) -> bool:
    """Return whether a true position ends its frame and another follows."""
    return position + 1 < len(frames) and frames[position] != frames[position + 1]
