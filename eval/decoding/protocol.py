"""Protocol of constraints: a constraint is a place in the trace that is being written, and says what may come next.

What holds a model to some tokens, a program's control flow or more, is asked nothing else: where one token may come it is fed, where
several may the likeliest of them is taken, and text is the model's own until the token that closes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Allowed(NamedTuple):
    """Tokens that may come next."""

    ids: frozenset[int]
    text: bool = False
    """Whether any token may come besides that is not a special one. `ids` is then the one that closes the text."""

    @property
    def certain(self) -> int | None:
        """The token that must come next, if one must."""
        return next(iter(self.ids)) if len(self.ids) == 1 and not self.text else None

    @property
    def closing(self) -> int | None:
        """The token that ends the free text here; None where no text is free. Forced decoding takes any special token for it."""
        return next(iter(self.ids)) if self.text else None


class Cut(NamedTuple):
    """Probability that a constraint took from a prediction."""

    mass: float = 0.0
    """The probability of all tokens that were not allowed; NaN where that is unknown."""
    changed: bool | None = False
    """Whether the likeliest token was one of them; None where that is unknown."""


UNCUT = Cut()
UNKNOWN = Cut(math.nan, None)
"""Of a server, which tells what is likeliest after it has cut."""


class Held(NamedTuple):
    """Origin of a token that was written under a constraint."""

    certain: bool = False
    """Whether no other was allowed: it was fed, and no model asked."""
    choices: int = 0
    """Among how many tokens the model chose; 0 where it wrote text, or nothing."""
    cut: float = 0.0
    """The probability of all others; NaN where that is unknown."""
    changed: bool | None = False
    """Whether the likeliest token was another; None where that is unknown."""


FREELY = Held()
TokenListener = Callable[[int, float, Held], None]
"""Is told each token that a cursor writes, as soon as it stands: the token, its log-probability, and how it came about."""


def ignore_token(token: int, logprob: float, held: Held) -> None:
    """No-op callback."""


class Place(Protocol):
    """A place in a trace that is being written. It does not change: `after` gives another, so that guesses can be taken back."""

    @property
    def done(self) -> bool:
        """Say if the trace has ended."""

    def allowed(self) -> Allowed:
        """List what may come next; nothing when the trace has ended."""

    def after(self, token: int) -> Place | None:
        """After one more token; None if it is not allowed."""


def continued(place: Place, tokens: list[int], most: int) -> list[int]:
    """At most so many tokens that go on from a place as these do, as far as they are allowed. A special token that is not closes the
    text there; what is certain, even after the first of them that parts from it, is taken in their place."""
    found: list[int] = []
    at: Place | None = place
    left = iter(tokens)
    parted = False
    while at is not None and not at.done and len(found) < most:
        allowed = at.allowed()
        token = None if parted else next(left, None)
        if allowed.certain is not None:
            parted |= token != allowed.certain
            token = allowed.certain
        elif token is not None and at.after(token) is None:
            parted, token = True, allowed.closing
        if token is None:
            break
        found.append(token)
        at = at.after(token)
    return found
