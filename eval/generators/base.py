"""Interface of generators: one is given requests and which of their roles are fed, and gives back what a model wrote.

To add one, write it in a file of its own, and choose it in `checkpoint.generator_of`. `cursor_of` says what is fed and where a run
ends, whoever asks a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol

from remedy.data_gen.context_window import Memory
from remedy.data_gen.roles import Role
from remedy.eval.decoding.constrained import ConstrainedCursor
from remedy.eval.decoding.cursor import Cursor, Generated, runs_of
from remedy.eval.decoding.protocol import Place, TokenListener, ignore_token
from remedy.models.context_length import ContextLimit
from remedy.models.tokenizer import Encoded, TraceTokenizer


class Request(NamedTuple):
    """An example that is to be written."""

    example: Encoded
    start: Place | None = None
    """Under a constraint, where its trace begins."""
    listener: TokenListener = ignore_token
    """Is told its tokens while it is written; where memory runs out and it is written anew, from the first on again."""


def requests(examples: Iterable[Encoded], starts: Iterable[Place] = ()) -> list[Request]:
    """A request for each example. `starts`: under a constraint, where their traces begin."""
    return [Request(*both) for both in zip_longest(examples, starts)]


class Writing(NamedTuple):
    """Roles that are fed, and where the model's runs end."""

    fed: frozenset[Role]
    exact: bool = False
    """Whether a run has as many tokens as the true one (one-token formats)."""
    max_new_tokens: int = 4096
    """Limit on the tokens of a run that nothing follows."""
    predicted: frozenset[Role] = frozenset()
    """With every role fed (teacher forcing): the roles for which it is asked what the model would write in place of each token."""
    memory: Memory | None = None
    """Which frames the model sees before the one that it is at; None: all."""
    constraint: str = ""
    """What holds the model to some tokens (`eval.decoding.constraints`)."""


class Written(NamedTuple):
    """Tokens that a model wrote of one example."""

    runs: list[Generated]
    near_ties: int = 0
    """Tokens at which its two likeliest were nearer than rounding, so that the least change of its arithmetic may write another."""


Done = Callable[[int, Written], None]
"""Is told the number of a request and what was written of it, as soon as it is."""


def ignore(number: int, written: Written) -> None:
    """No-op callback."""


class Writer(Protocol):
    """Whatever writes traces greedily: each token the likeliest after all that was written and fed before it."""

    @property
    def limit(self) -> int | None:
        """Return how many tokens of a sequence can be read at all; None if there is no end."""

    def generate(self, asked: Sequence[Request], writing: Writing, done: Done = ignore) -> list[Written]:
        """Write each example, in their order. One that is longer than `limit` must not be given. `done`: is told of each, in any
        order."""


class Generator(Writer, Protocol):
    """A model that writes traces."""

    name: str
    """What messages call the model."""

    @property
    def context(self) -> ContextLimit | None:
        """Return how many tokens the model was made to read, where that is known."""

    def report(self) -> dict[str, Any]:
        """Return how the model is read, to be kept beside results."""


def cursor_of(asked: Request, writing: Writing, tokenizer: TraceTokenizer, longest: int | None) -> Cursor:
    """Walks an example as it is to be written. `longest`: how many tokens the model can read."""
    example, start, listener = asked
    cursor = (
        Cursor(example, writing.fed, tokenizer, writing.exact, writing.max_new_tokens, longest, writing.memory)
        if start is None
        else ConstrainedCursor(example, start, tokenizer, writing.max_new_tokens, longest, writing.memory)
    )
    cursor.listener = listener
    return cursor


def predictions(
    truth: Encoded, predicted: frozenset[Role], ids: Sequence[int], logprobs: Sequence[float]
) -> list[Generated]:
    """Return what a model predicted in place of each true token, as one run for every stretch whose roles were asked for."""
    return [
        Generated(start, stop, list(ids[start:stop]), list(logprobs[start:stop]), True)
        for start, stop, is_fed in runs_of(truth, frozenset(Role) - predicted)
        if not is_fed
    ]
