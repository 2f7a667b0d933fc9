"""Likeliest tokens at each position, among all tokens or among allowed ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from remedy.eval.decoding.protocol import UNCUT, UNKNOWN, Cut

BLOCK = 2**24
"""Number of logits processed at once."""
TIE = 4.0
"""A near tie is a margin below this many departures: twice for a difference of two logits, and twice for safety."""
LEAST_TIE = 2.0**-17
"""Smallest bound of near ties: the spacing of float32 at 64."""


def near_tie(departure: float) -> float:
    """Return the margin below which two tokens are a near tie.

    `departure`: difference between a model's two ways of computing.
    """
    return max(TIE * departure, LEAST_TIE)


class Prediction(NamedTuple):
    """Likeliest token, its log-probability (NaN if unknown), and its margin.

    The margin is the difference of logits to the next token. `cut`: probability that a constraint removed.
    """

    token: int
    logprob: float
    margin: float
    cut: Cut = UNCUT


class Scores(NamedTuple):
    """Likeliest token at each position, with log-probability and margin, and logits (n, V).

    A server returns no logits: the likeliest of some tokens is then known only if it is that of all.
    """

    tokens: list[int]
    logprobs: list[float]
    margins: list[float]
    logits: Tensor | None = None

    def knows(self, position: int, choices: Sequence[int] | None = None) -> bool:
        """Return whether the likeliest of the tokens `choices` is known at a position."""
        return choices is None or self.logits is not None or self.tokens[position] in choices

    def prediction(self, position: int, choices: Sequence[int] | None = None) -> Prediction:
        """Return the prediction at a position, among some tokens if given."""
        token, logprob, margin = self.tokens[position], self.logprobs[position], self.margins[position]
        if choices is None:
            return Prediction(token, logprob, margin)
        if self.logits is None:
            assert token in choices
            return Prediction(token, math.nan, margin, UNKNOWN)
        *values, most = self.logits[position, [*choices, token]].tolist()
        first, *rest = sorted(values, reverse=True)
        chosen = choices[values.index(first)]
        mass = sum(math.exp(min(value - most + logprob, 0.0)) for value in values)
        cut = Cut(max(0.0, 1.0 - mass), chosen != token)
        return Prediction(chosen, first - most + logprob, first - rest[0] if rest else math.inf, cut)


def scores(logits: Sequence[Tensor]) -> Iterator[Scores]:
    """Yield the scores for the logits (n, V) of each row."""
    block: list[Tensor] = []
    room = BLOCK
    for row_logits in logits:
        room -= row_logits.numel()
        if block and room < 0:
            yield from _of(block)
            block, room = [], BLOCK - row_logits.numel()
        block.append(row_logits)
    if block:
        yield from _of(block)


def most_likely(logits: Tensor) -> Scores:
    """Return the scores for logits (N, V). Of equal logits, the first counts."""
    best, exact = logits.argmax(-1), logits.float()
    logprobs = exact.log_softmax(-1).gather(-1, best[:, None])[:, 0]
    values = exact.topk(2, dim=-1).values
    return Scores(best.tolist(), logprobs.tolist(), (values[:, 0] - values[:, 1]).tolist(), logits)


def _of(block: list[Tensor]) -> Iterator[Scores]:
    logits = (torch.cat(block) if len(block) > 1 else block[0]).float()
    values, tokens = logits.topk(2, dim=-1)
    logprobs = (values[:, 0] - logits.logsumexp(-1)).tolist()
    best, margins = tokens[:, 0].tolist(), (values[:, 0] - values[:, 1]).tolist()
    start = 0
    for part in block:
        stop = start + len(part)
        yield Scores(best[start:stop], logprobs[start:stop], margins[start:stop], part)
        start = stop
