"""Forced decoding: which roles are fed and which the model writes is a set.

- `free` feeds the context only.
- `action_forced` feeds structure, events, actions and queries too, so that the model's own states carry on. On programs with
  branches these tell which one was taken, and when loops end and calls return.
- `line_forced` leaves events to the model: it says whether a line, a call, a return or an exception follows before it writes that
  frame's state and is given its line.
- `state_forced` feeds structure, states and values: the model writes events, actions and queries.
- `teacher_forced` feeds every role: one parallel forward pass, in which each token is predicted after the true ones before it.

Where states or values are fed, the answer is read from what was given: whether it is right is undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from remedy.data_gen.roles import ROLES, Role, Special
from remedy.eval.memory import Sight, read_in_windows
from remedy.models.protocol import Reader
from remedy.models.tokenizer import Encoded, TraceTokenizer

FREE = frozenset({Role.CONTEXT})
ACTION_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.EVENT, Role.ACTION, Role.QUERY})
LINE_FORCED = ACTION_FORCED - {Role.EVENT}
STATE_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.STATE, Role.VALUE})
TEACHER_FORCED = frozenset(Role)
ANSWERS = frozenset({Role.STATE, Role.VALUE})
"""The roles that answers are read from."""

FORCINGS: dict[str, frozenset[Role]] = {
    "free": FREE,
    "line_forced": LINE_FORCED,
    "action_forced": ACTION_FORCED,
    "state_forced": STATE_FORCED,
    "teacher_forced": TEACHER_FORCED,
}


Forcing = str | tuple[str, ...]
"""Which roles the decoder feeds: a name of FORCINGS, or a list of role names."""


def fed_roles(forcing: Forcing) -> frozenset[Role]:
    """The roles a forcing feeds."""
    if isinstance(forcing, str):
        return FORCINGS[forcing]
    return frozenset(ROLES[name] for name in forcing)


def feeds_answers(forcing: Forcing) -> bool:
    """Whether a forcing feeds tokens that answers are read from, so that whether one is right is undefined."""
    return bool(fed_roles(forcing) & ANSWERS)


def forcing_name(forcing: Forcing) -> str:
    """How records and reports call a forcing."""
    return forcing if isinstance(forcing, str) else "+".join(forcing)


def gives_half_an_action(name: str) -> bool:
    """Whether the forcing of this name (`forcing_name`) feeds a frame's event or its source line, and not both. Shares of right
    actions are of both together, so that under teacher forcing they say nothing of the half that the model writes here."""
    fed = fed_roles(name if name in FORCINGS else tuple(name.split("+")))
    return (Role.EVENT in fed) != (Role.ACTION in fed)


def check_forcing(forcing: Forcing) -> None:
    """Whether a forcing can be decoded.

    Raises:
        ValueError: it names no forcing or role, or leaves out what the decoder needs.
    """
    names = list(ROLES)
    if isinstance(forcing, str) and forcing not in FORCINGS:
        former = "; fully_forced is now teacher_forced" if forcing == "fully_forced" else ""
        raise ValueError(f"unknown forcing {forcing!r}; valid: {', '.join(FORCINGS)}, or a list of roles{former}")
    if not isinstance(forcing, str) and not set(forcing) <= set(names):
        raise ValueError(f"a forcing lists roles among {', '.join(names)}")
    fed = fed_roles(forcing)
    if Role.CONTEXT not in fed or (fed != FREE and Role.STRUCTURE not in fed):
        raise ValueError(
            "a forcing feeds context, and structure too unless it feeds nothing else: it marks where runs end"
        )


class Generated(NamedTuple):
    """Tokens generated in place of the true ones from `start` to `stop` (exclusive), with the log-probability of each.

    `complete` is false when a limit cut them.
    """

    start: int
    stop: int
    ids: list[int]
    logprobs: list[float]
    complete: bool


class Cursor:
    """Walks one example: hands out fed tokens, takes generated ones, and knows when a generated run ends.

    A run between fed tokens ends when the model writes the token that truly follows it or any special token, neither of
    which belongs to it, or at a limit, which alone ends it where `exact` is asked for; an event is a run of its own, of one
    token, whatever that is. A run at the end of the example ends with the end-of-text token. `longest`: how many tokens the
    model can read at once; where a row comes to it, its run is cut, and later runs are left empty.

    `memory`: how many frames it sees before the one that it is at (None: all). Where it forgets one it waits to be read anew. Frames
    that are written freely end where the model says so; else, and where every token has its place, they are the true ones.
    """

    def __init__(
        self,
        truth: Encoded,
        fed: frozenset[Role],
        tokenizer: TraceTokenizer,
        exact: bool,
        max_new_tokens: int,
        longest: int | None = None,
        memory: int | None = None,
    ) -> None:
        self.ids = truth.ids
        self.roles = truth.roles
        self.frames = truth.frames
        self.tokenizer = tokenizer
        self.exact = exact
        self.max_new_tokens = max_new_tokens
        self.runs = _runs(truth, fed)
        self.run = 0
        context = next((at for at, role in enumerate(truth.roles) if role != Role.CONTEXT), len(truth.ids))
        self.offset = context if Role.CONTEXT in fed else 0
        self.sight = Sight(truth.ids[: self.offset], memory)
        self.waits = True
        own = Role.STRUCTURE not in fed and not exact
        self.frame_end = tokenizer.special_ids[Special.FRAME_SEP] if own else None
        self.read = 0
        self.longest = longest
        self.current: list[int] = []
        self.logprobs: list[float] = []
        self.generated: list[Generated] = []

    @property
    def done(self) -> bool:
        return self.run == len(self.runs)

    def prompt(self) -> list[int]:
        """What the model reads at once: all that is seen here, and what is fed before the next token that it writes, if it writes any;
        else, or where that is more than it can read, the example is done."""
        start, stop, is_fed = self.runs[self.run]
        if is_fed:
            for at in range(start + self.offset, stop):
                self.sight.take(self.ids[at], self._is_last(at))
            self.run, self.offset = self.run + 1, 0
        self.waits = False
        tokens = self.sight.tokens()
        self.read = len(tokens)
        if self.longest is not None and self.read > self.longest:
            self._cut()
        return tokens

    def next_token(self, predicted: int, logprob: float) -> int | None:
        """The token the model reads next; `predicted` is what it just wrote. None once the example is complete, or waits."""
        token = None if self.waits else self._next(predicted, logprob)
        if token is None:
            return None
        self.read += 1
        self.waits = self.sight.take(token, self._closes(token))
        if self.waits:
            return None
        if self.longest is not None and self.read > self.longest:
            self._cut()
            return None
        return token

    def _closes(self, token: int) -> bool:
        """Whether a token that was just handed out is the last of its frame."""
        if self.frame_end is not None:
            return token == self.frame_end
        start, _, is_fed = self.runs[self.run]
        if is_fed:
            return self._is_last(start + self.offset - 1)
        return self.exact and self._is_last(start + len(self.current) - 1)

    def _is_last(self, at: int) -> bool:
        """Whether a place of the true sequence is the last of its frame, and another follows."""
        return at + 1 < len(self.frames) and self.frames[at] != self.frames[at + 1]

    def _next(self, predicted: int, logprob: float) -> int | None:
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
            self.current.append(predicted)
            self.logprobs.append(logprob)
            return predicted
        return None

    def _ended(self, start: int, stop: int, predicted: int) -> bool | None:
        """Whether the run, which ends before the predicted token, is complete; None: it goes on."""
        last = self.run + 1 == len(self.runs)
        if self.roles[start] == Role.EVENT and not last:
            return True if self.current else None
        if last and self.current and self.current[-1] == self.tokenizer.eos_id:
            return True
        if not last and not self.exact and (predicted == self.ids[stop] or self.tokenizer.is_special(predicted)):
            return True
        return self.exact and not last if len(self.current) >= self._limit(stop - start, last) else None

    def _cut(self) -> None:
        """End the example here, its last token having no room to be read."""
        while not self.done:
            if self.runs[self.run][2]:
                self.run += 1
            else:
                self._close(complete=False)

    def _limit(self, length: int, last: bool) -> int:
        if last:
            return self.max_new_tokens
        return length if self.exact else 2 * length + 16

    def _close(self, complete: bool) -> None:
        start, stop, _ = self.runs[self.run]
        self.generated.append(Generated(start, stop, self.current, self.logprobs, complete))
        self.current, self.logprobs = [], []
        self.run += 1


def _runs(truth: Encoded, fed: frozenset[Role]) -> list[tuple[int, int, bool]]:
    """Maximal stretches of fed and of other tokens, as (start, stop, fed); an event between fed separators stands alone."""
    flags = [role in fed for role in truth.roles]
    alone = {Role.EVENT} - fed if Role.STRUCTURE in fed else frozenset()
    events = [role in alone for role in truth.roles]
    borders = [i for i in range(1, len(flags)) if (flags[i], events[i]) != (flags[i - 1], events[i - 1])]
    return [(a, b, flags[a]) for a, b in pairwise([0, *borders, len(flags)])]


def decode(
    reader: Reader,
    tokenizer: TraceTokenizer,
    examples: Sequence[Encoded],
    fed: frozenset[Role],
    *,
    exact: bool = False,
    max_new_tokens: int = 4096,
    memory: int | None = None,
) -> list[list[Generated]]:
    """Greedy decoding of a batch; per example, the runs the model wrote, in order.

    Prompts are read at once, each from its own first token; from there all examples step together and only fed tokens differ.
    `exact`: a run has as many tokens as the true one (one-token formats). `max_new_tokens`: limit on the tokens of a run that
    nothing follows. A row that comes to the reader's limit is cut there. With a `memory`, a row that forgets a frame waits until all
    others have come to such a place, or to their end; then all that wait are read anew together.
    """
    cursors = [Cursor(example, fed, tokenizer, exact, max_new_tokens, reader.limit, memory) for example in examples]
    while waiting := [cursor for cursor in cursors if not cursor.done]:
        prompts = [(cursor, cursor.prompt()) for cursor in waiting]
        if not all(prompt for _, prompt in prompts):
            raise ValueError("nothing is fed before the first generated token: feed CONTEXT")
        reading = [(cursor, prompt) for cursor, prompt in prompts if not cursor.done]
        if reading:
            _step(reader, [cursor for cursor, _ in reading], [prompt for _, prompt in reading])
    return [cursor.generated for cursor in cursors]


def _step(reader: Reader, cursors: Sequence[Cursor], prompts: Sequence[Sequence[int]]) -> None:
    """Read the prompts and then token by token, until every row is complete or waits."""
    logits = reader.prefill(prompts)
    while True:
        predicted, logprobs = _most_likely(logits)
        following = [cursor.next_token(*token) for cursor, token in zip(cursors, zip(predicted, logprobs))]
        if all(token is None for token in following):
            return
        logits = reader.step(following)


def predict(
    reader: Reader, examples: Sequence[Encoded], predicted: frozenset[Role], memory: int | None = None
) -> list[list[Generated]]:
    """Teacher forcing: the token the model would write in place of each token whose role is in `predicted`, given the true
    ones before it that its `memory` holds, as one run for every stretch of them."""
    ids = [[0] * len(example.ids) for example in examples]
    logprobs = [[0.0] * len(example.ids) for example in examples]
    for number, window, logits in read_in_windows(reader, examples, memory):  # one at a time: float32 logits take room
        places = slice(window.stop - len(logits), window.stop)
        ids[number][places], logprobs[number][places] = _most_likely(logits)
    found = []
    for number, example in enumerate(examples):
        stretches = _runs(example, frozenset(Role) - predicted)
        written = [(start, stop) for start, stop, is_fed in stretches if not is_fed]
        found.append([Generated(a, b, ids[number][a:b], logprobs[number][a:b], complete=True) for a, b in written])
    return found


def _most_likely(logits: torch.Tensor) -> tuple[list[int], list[float]]:
    """For logits (N, V), the most likely token of each and its log-probability, in float32."""
    best = logits.argmax(-1)
    logprobs = logits.float().log_softmax(-1).gather(-1, best[:, None])[:, 0]
    return best.tolist(), logprobs.tolist()
