"""Interface of generators, which decode traces.

To add one, write it in a file of its own and choose it in `checkpoint.generator_of`. A forcing decides what is fed; the cursor of
`cursor_of` feeds it and ends runs. Teacher forcing needs no cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol

from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role
from remedy.eval.decoding.constrained import ConstrainedCursor
from remedy.eval.decoding.cursor import Cursor, Generated, runs_of
from remedy.eval.decoding.protocol import ConstraintState, TokenListener, ignore_token
from remedy.models.context_length import ContextLimit
from remedy.models.tokenizer import Encoded, TraceTokenizer


class Request(NamedTuple):
    """Example to be written."""

    example: Encoded
    start: ConstraintState | None = None
    """State of the constraint at the start of the trace; None without a constraint."""
    listener: TokenListener = ignore_token
    """Callback for each written token. After an out-of-memory error the example is written again, from its first token."""


def make_requests(examples: Iterable[Encoded], starts: Iterable[ConstraintState] = ()) -> list[Request]:
    """Return a request for each example. `starts`: states of a constraint."""
    return [Request(*pair) for pair in zip_longest(examples, starts)]


MOST_NEW_TOKENS = 4096
"""The limit of `max_new_tokens` where it is not set."""


class DecodingOptions(NamedTuple):
    """Decoding options: the roles that are fed, and where the model's runs end."""

    fed: frozenset[Role]
    exact: bool = False
    """Whether a run has as many tokens as the true one (one-token formats)."""
    max_new_tokens: int | None = None
    """Limit on the tokens of the last run; None: by the true trace, as `most_new_tokens` says."""
    predicted: frozenset[Role] = frozenset()
    """Under teacher forcing: roles whose tokens are predicted."""
    memory: Memory | None = None
    """Which frames the model sees before the current one; None: all."""
    constraint: str = ""
    """Name of the constraint (`eval.decoding.constraints`); empty without one."""

    def most_new_tokens(self, truth: Encoded) -> int:
        """Return the limit on the last run of an example.

        A right trace has about as many tokens as the true one. By characters, strings that are cut into subwords have some four times
        as many.
        """
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        written = len(truth.roles) - truth.roles.count(Role.CONTEXT)
        return min(max(64, 4 * written), MOST_NEW_TOKENS)


class ModelOutput(NamedTuple):
    """Model output for one example."""

    runs: list[Generated]
    near_ties: int = 0
    """Number of tokens whose two likeliest candidates were closer than rounding."""


OnWritten = Callable[[int, ModelOutput], None]
"""Callback with the number of a request and its output, as soon as the output is complete."""


def ignore_output(number: int, output: ModelOutput) -> None:
    """Do nothing."""


class Writer(Protocol):
    """Greedy writer of traces: each token is the likeliest next one."""

    @property
    def limit(self) -> int | None:
        """Return the longest readable sequence in tokens; None without a limit."""

    def generate(
        self, requests: Sequence[Request], options: DecodingOptions, on_written: OnWritten = ignore_output
    ) -> list[ModelOutput]:
        """Write each example and return outputs in the order of the requests.

        Examples may not be longer than `limit`. `on_written` is called in any order.
        """


class Generator(Writer, Protocol):
    """Model that writes traces."""

    name: str
    """Name of the model in messages."""

    @property
    def context(self) -> ContextLimit | None:
        """Return the context length of the model, if it is known."""

    def report(self) -> dict[str, Any]:
        """Return how the model is run, to be stored beside the results."""


def cursor_of(request: Request, options: DecodingOptions, tokenizer: TraceTokenizer, longest: int | None) -> Cursor:
    """Return the cursor for a request. `longest`: most tokens that the model can read."""
    example, start, listener = request
    most = options.most_new_tokens(example)
    cursor = (
        Cursor(example, options.fed, tokenizer, options.exact, most, longest, options.memory)
        if start is None
        else ConstrainedCursor(example, start, tokenizer, most, longest, options.memory)
    )
    cursor.listener = listener
    return cursor


def predictions(
    truth: Encoded, predicted: frozenset[Role], ids: Sequence[int], logprobs: Sequence[float]
) -> list[Generated]:
    """Return predictions as one run per stretch of the predicted roles."""
    return [
        Generated(start, stop, list(ids[start:stop]), list(logprobs[start:stop]), True)
        for start, stop, is_fed in runs_of(truth, frozenset(Role) - predicted)
        if not is_fed
    ]
