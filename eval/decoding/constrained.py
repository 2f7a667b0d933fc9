"""Decoding under a constraint (`protocol`)."""

from __future__ import annotations

from remedy.data_gen.memory import Memory
from remedy.eval.decoding.cursor import Cursor
from remedy.eval.decoding.forcings import FREE
from remedy.eval.decoding.protocol import ConstraintState, Cut, TokenOrigin, allowed_continuation
from remedy.models.tokenizer import Encoded, TraceTokenizer


class ConstrainedCursor(Cursor):
    """Cursor over a trace that is written under a constraint, as one run.

    `truth`: its context is the prompt; its other tokens serve as a draft alone. `max_new_tokens` includes certain tokens. Any
    special token ends a free text; the trace then holds the closing one.
    """

    def __init__(
        self,
        truth: Encoded,
        start: ConstraintState,
        tokenizer: TraceTokenizer,
        max_new_tokens: int,
        longest: int | None = None,
        memory: Memory | None = None,
    ) -> None:
        super().__init__(truth, FREE, tokenizer, False, max_new_tokens, longest, memory)
        # One run, since no true token may tell where a part ends.
        self.runs = [(0, self.offset, True), (self.offset, len(truth.ids), False)]
        self.written = 1
        self.state = start
        self.allowed = start.allowed()

    @property
    def settled(self) -> bool:
        return self.done or self.waits or self._full or self.state.done or self.allowed.certain is not None

    @property
    def choices(self) -> list[int] | None:
        if self.settled:
            return None
        return None if self.allowed.text else sorted(self.allowed.ids)

    def complete_draft(self, tokens: list[int], count: int) -> list[int]:
        return allowed_continuation(self.state, tokens, count)

    @property
    def remaining(self) -> int:
        return self.max_new_tokens - len(self.current)

    def prompt(self) -> list[int]:
        """Return all that is seen here, with the certain tokens that follow it."""
        self.run = 1
        while not self._full and (token := self.allowed.certain) is not None:
            self._write(token, 0.0, TokenOrigin(certain=True))
            self.remembered.take(token, token == self.frame_end)
        self.waits = False
        tokens = self.remembered.tokens()
        self.read = len(tokens)
        if self.state.done:
            self._close(complete=True)
        elif self.longest is not None and self.read > self.longest:
            self._cut()
        return tokens

    @property
    def _full(self) -> bool:
        # Where nothing is allowed before the end, the trace is cut as at the limit.
        stuck = not self.allowed.ids and not self.state.done
        return stuck or len(self.current) >= self.max_new_tokens

    def _next(self, predicted: int, logprob: float, cut: Cut) -> int | None:
        if self.done:
            return None
        if self.state.done or self._full:
            self._close(complete=self.state.done)
            return None
        allowed = self.allowed
        if allowed.certain is not None:
            return self._write(allowed.certain, 0.0, TokenOrigin(certain=True))
        token, changed = predicted, cut.changed
        if allowed.closing is not None and self.tokenizer.is_special(predicted):
            token, changed = allowed.closing, predicted != allowed.closing
        origin = TokenOrigin(False, len(allowed.ids) * (not allowed.text), cut.mass, changed)
        return self._write(token, logprob, origin)

    def _write(self, token: int, logprob: float, origin: TokenOrigin) -> int:
        after = self.state.after(token)
        assert after is not None, f"token {token} was taken, and is not allowed"
        position = self.runs[1][0] + len(self.current)
        # The true trace is a draft only while the output equals it.
        self.in_step &= position < len(self.ids) and self.ids[position] == token
        self.state, self.allowed = after, after.allowed()
        self.current.append(token)
        self.logprobs.append(logprob)
        self.origins.append(origin)
        self.listener(token, logprob, origin)
        return token
