"""Forced decoding: which roles are fed and which the model writes is a set.

`free` feeds the context only; `action_forced` feeds structure, actions and queries too, so that the model's own states carry on;
feeding every role is one parallel forward pass, in which each token is predicted after the true ones before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from remedy.data_gen.roles import Role
from remedy.models.tokenizer import Encoded, TraceTokenizer

FREE = frozenset({Role.CONTEXT})
ACTION_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.ACTION, Role.QUERY})
FULLY_FORCED = frozenset(Role)

FORCINGS: dict[str, frozenset[Role]] = {
    "free": FREE,
    "action_forced": ACTION_FORCED,
    "fully_forced": FULLY_FORCED,
}


class Written(NamedTuple):
    """What stands in place of the true tokens `start` to `stop` (exclusive); `complete` is false when a limit cut it."""

    start: int
    stop: int
    ids: list[int]
    complete: bool


class Cursor:
    """Walks one example: hands out fed tokens, takes written ones, and knows when a written run ends.

    A run between fed tokens ends when the model writes the token that truly follows it or any special token, neither of
    which belongs to it, or at a limit. A run at the end of the example ends with the end-of-text token.
    """

    def __init__(
        self, truth: Encoded, fed: frozenset[Role], tokenizer: TraceTokenizer, exact: bool, budget: int
    ) -> None:
        self.ids = truth.ids
        self.tokenizer = tokenizer
        self.exact = exact
        self.budget = budget
        self.runs = _runs(truth, fed)
        self.run = 0
        self.offset = 0
        self.current: list[int] = []
        self.written: list[Written] = []

    @property
    def done(self) -> bool:
        return self.run == len(self.runs)

    @property
    def prompt_length(self) -> int:
        """Tokens fed before the first written one."""
        start, stop, is_fed = self.runs[0]
        return stop - start if is_fed else 0

    def next_token(self, predicted: int) -> int | None:
        """The token the model reads next; `predicted` is what it just wrote. None once the example is complete."""
        while not self.done:
            start, stop, is_fed = self.runs[self.run]
            if is_fed:
                if start + self.offset < stop:
                    self.offset += 1
                    return self.ids[start + self.offset - 1]
                self.run, self.offset = self.run + 1, 0
                continue
            last = self.run + 1 == len(self.runs)
            if last and self.current and self.current[-1] == self.tokenizer.eos_id:
                self._close(complete=True)
                continue
            if not last and (predicted == self.ids[stop] or self.tokenizer.is_special(predicted)):
                self._close(complete=True)
                continue
            if len(self.current) >= self._limit(stop - start, last):
                self._close(complete=self.exact and not last)
                continue
            self.current.append(predicted)
            return predicted
        return None

    def _limit(self, length: int, last: bool) -> int:
        if last:
            return self.budget
        return length if self.exact else 2 * length + 16

    def _close(self, complete: bool) -> None:
        start, stop, _ = self.runs[self.run]
        self.written.append(Written(start, stop, self.current, complete))
        self.current = []
        self.run += 1


def _runs(truth: Encoded, fed: frozenset[Role]) -> list[tuple[int, int, bool]]:
    """Maximal stretches of fed and of written tokens, as (start, stop, fed)."""
    flags = [role in fed for role in truth.roles]
    borders = [0, *(i for i in range(1, len(flags)) if flags[i] != flags[i - 1]), len(flags)]
    return [(a, b, flags[a]) for a, b in pairwise(borders)]


@torch.no_grad()
def decode(
    model: Any,
    tokenizer: TraceTokenizer,
    examples: Sequence[Encoded],
    fed: frozenset[Role],
    *,
    exact: bool = False,
    budget: int = 4096,
) -> list[list[Written]]:
    """Greedy decoding of a batch; per example, the runs the model wrote, in order.

    All examples step together and only fed tokens differ, so no row is ever padded on the left and recurrent states stay
    exact. `exact`: a written run has as many tokens as the true one (formats of one token per value). `budget`: limit
    on the tokens of a run that nothing follows.
    """
    cursors = [Cursor(example, fed, tokenizer, exact, budget) for example in examples]
    device = next(model.parameters()).device
    prompt = min(cursor.prompt_length for cursor in cursors)
    if prompt == 0:
        raise ValueError("nothing is fed before the first written token: feed CONTEXT")
    for cursor in cursors:
        cursor.offset = prompt
    tokens = torch.tensor([cursor.ids[:prompt] for cursor in cursors], device=device)
    cache: Any = model.new_cache() if hasattr(model, "new_cache") else None
    while True:
        output = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        predicted = output.logits[:, -1].argmax(-1).tolist()
        following = [cursor.next_token(token) for cursor, token in zip(cursors, predicted)]
        if all(token is None for token in following):
            return [cursor.written for cursor in cursors]
        tokens = torch.tensor([[tokenizer.pad_id if t is None else t] for t in following], device=device)


@torch.no_grad()
def predict(model: Any, tokenizer: TraceTokenizer, examples: Sequence[Encoded]) -> list[list[int]]:
    """Fully forced: the token the model would write at every position after the first, given the true ones before it."""
    device = next(model.parameters()).device
    width = max(len(example.ids) for example in examples)
    padded = [example.ids + [tokenizer.pad_id] * (width - len(example.ids)) for example in examples]
    best = model(input_ids=torch.tensor(padded, device=device), use_cache=False).logits.argmax(-1).tolist()
    return [row[: len(example.ids) - 1] for row, example in zip(best, examples)]
