"""Likeliest tokens after a position, among all tokens or among those that are allowed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from remedy.eval.decoding.protocol import UNCUT, UNKNOWN, Cut

BLOCK = 2**24
"""Logits that are looked through at once."""
TIE = 4.0
"""How many times a departure two logits are apart that are no near tie: for a difference of two, and twice for safety."""
LEAST_TIE = 2.0**-17
"""What is a near tie at least: the spacing of float32 at 64."""


def near_tie(departure: float) -> float:
    """Margins below it are near ties, of a model whose two ways of computing depart so far from each other."""
    return max(TIE * departure, LEAST_TIE)


class Prediction(NamedTuple):
    """The likeliest token, the natural logarithm of its probability among all tokens (NaN where that is unknown), and how much that
    is above the next likeliest one's. `cut`: what could not be chosen."""

    token: int
    logprob: float
    margin: float
    cut: Cut = UNCUT


class Scores(NamedTuple):
    """The likeliest token after each position, its log-probability and its margin; and the logits (n, V), to choose among fewer. A
    server gives no logits: there the likeliest of some tokens is known where it is the likeliest of all."""

    tokens: list[int]
    logprobs: list[float]
    margins: list[float]
    logits: Tensor | None = None

    def tells(self, place: int, among: Sequence[int] | None = None) -> bool:
        """Say if it is known what is likeliest after a position, `among` some tokens."""
        return among is None or self.logits is not None or self.tokens[place] in among

    def at(self, place: int, among: Sequence[int] | None = None) -> Prediction:
        """Return what is likeliest after a position, `among` some tokens (None: all)."""
        token, logprob, margin = self.tokens[place], self.logprobs[place], self.margins[place]
        if among is None:
            return Prediction(token, logprob, margin)
        if self.logits is None:
            assert token in among
            return Prediction(token, math.nan, margin, UNKNOWN)
        *values, most = self.logits[place, [*among, token]].tolist()
        first, *rest = sorted(values, reverse=True)
        chosen = among[values.index(first)]
        mass = sum(math.exp(min(value - most + logprob, 0.0)) for value in values)
        cut = Cut(max(0.0, 1.0 - mass), chosen != token)
        return Prediction(chosen, first - most + logprob, first - rest[0] if rest else math.inf, cut)


def scores(logits: Sequence[Tensor]) -> Iterator[Scores]:
    """For the logits (n, V) of each row, what is likeliest."""
    block: list[Tensor] = []
    room = BLOCK
    for one in logits:
        room -= one.numel()
        if block and room < 0:
            yield from _of(block)
            block, room = [], BLOCK - one.numel()
        block.append(one)
    if block:
        yield from _of(block)


def most_likely(logits: Tensor) -> Scores:
    """For logits (N, V), the most likely token of each, its log-probability and its margin, in float32: as the plain loop has it, of
    equals the first."""
    best, exact = logits.argmax(-1), logits.float()
    logprobs = exact.log_softmax(-1).gather(-1, best[:, None])[:, 0]
    values = exact.topk(2, dim=-1).values
    return Scores(best.tolist(), logprobs.tolist(), (values[:, 0] - values[:, 1]).tolist(), logits)


def _of(block: list[Tensor]) -> Iterator[Scores]:
    best, logprobs, margins = _likeliest(torch.cat(block) if len(block) > 1 else block[0])
    start = 0
    for part in block:
        stop = start + len(part)
        yield Scores(best[start:stop], logprobs[start:stop], margins[start:stop], part)
        start = stop


def _likeliest(logits: Tensor) -> tuple[list[int], list[float], list[float]]:
    """For logits (N, V), the likeliest tokens, their log-probabilities, and how far their logits are above the next."""
    logits = logits.float()
    values, tokens = logits.topk(2, dim=-1)
    logprobs = values[:, 0] - logits.logsumexp(-1)
    return tokens[:, 0].tolist(), logprobs.tolist(), (values[:, 0] - values[:, 1]).tolist()
