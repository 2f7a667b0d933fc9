"""Protocol of constraints: immutable states that say which tokens may come next.

A single allowed token is fed; among several, the likeliest is taken. Free text is the model's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Allowed(NamedTuple):
    """Tokens that may come next."""

    ids: frozenset[int]
    text: bool = False
    """Whether any token that is not special may come too. `ids` then holds the one token that closes the text."""

    @property
    def certain(self) -> int | None:
        """Return the only token that may come; None if there are several."""
        return next(iter(self.ids)) if len(self.ids) == 1 and not self.text else None

    @property
    def closing(self) -> int | None:
        """Return the token that closes the free text; None outside free text."""
        return next(iter(self.ids)) if self.text else None


class Cut(NamedTuple):
    """Probability that a constraint removed from a prediction."""

    mass: float = 0.0
    """Probability of all tokens that were not allowed; NaN if unknown."""
    changed: bool | None = False
    """Whether the likeliest token was not allowed; None if unknown."""


UNCUT = Cut()
UNKNOWN = Cut(math.nan, None)
"""For servers, which return probabilities after masking."""


class TokenOrigin(NamedTuple):
    """Origin of a token that was written under a constraint."""

    certain: bool = False
    """Whether it was the only allowed token and was fed."""
    choices: int = 0
    """Number of tokens that the model chose among; 0 in free text or for a fed token."""
    cut: float = 0.0
    """Probability of all tokens that were not allowed; NaN if unknown."""
    changed: bool | None = False
    """Whether the likeliest token was not allowed; None if unknown."""


UNCONSTRAINED = TokenOrigin()
TokenListener = Callable[[int, float, TokenOrigin], None]
"""Callback for each written token: the token, its log-probability and its origin."""


def ignore_token(token: int, logprob: float, origin: TokenOrigin) -> None:
    """Do nothing."""


class ConstraintState(Protocol):
    """Immutable state of a constraint within a trace."""

    @property
    def done(self) -> bool:
        """Return whether the trace has ended."""

    def allowed(self) -> Allowed:
        """Return the tokens that may come next; none after the end."""

    def after(self, token: int) -> ConstraintState | None:
        """Return the state after one more token; None if that is not allowed."""


def allowed_continuation(start: ConstraintState, tokens: list[int], most: int) -> list[int]:
    """Return at most `most` allowed tokens that follow `tokens` as far as possible.

    A special token that is not allowed becomes the text's closing token. After the first difference only certain tokens follow.
    """
    continuation: list[int] = []
    state: ConstraintState | None = start
    drafted = iter(tokens)
    parted = False
    while state is not None and not state.done and len(continuation) < most:
        allowed = state.allowed()
        token = None if parted else next(drafted, None)
        if allowed.certain is not None:  # it takes no prediction, so that it may also follow a draft that parted
            parted |= token != allowed.certain
            token = allowed.certain
        elif token is not None and state.after(token) is None:
            parted, token = True, allowed.closing
        if token is None:
            break
        continuation.append(token)
        state = state.after(token)
    return continuation
