"""Randomised positions: what attention is told of where tokens stand, when it must not count.

Ruoss et al., "Randomized positional encodings boost length generalization of Transformers", ACL 2023: a row of n tokens gets an
ordered random subset of n positions of a range far longer than any row, so that the positions of longer rows are not new at test
time. Their tests draw a subset of the test's length. A model that writes its row token by token does not know that length, and must
not be told, so here a row of n tokens takes the first n of a subset of m, with m drawn too, evenly on a logarithmic scale from n to
`capacity`: with m = n it is the paper's draw, and m = `capacity` is how evaluation goes, at even distances. (A 2-layer Transformer that
had learnt swaps, every state revealed, was right on 15 % of texts of its trained length in evaluation with m = n alone, one seed, and
on 97 % with this.)
"""

from __future__ import annotations

import torch
from torch import Tensor

from remedy.settings import UserError

_GOLDEN, _M1, _M2 = (value - (1 << 64) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def drawn_positions(tokens: Tensor, length: int, capacity: int, mask: Tensor | None = None) -> Tensor:
    """For rows of tokens (B, T) the first of an ordered random subset of 0..length-1 each, (B, T), up to the row's own end.

    A row's tokens decide the draw: the same row has the same positions on whatever process and in whatever batch, and when its
    activations are computed again, and there is no random state. `mask` (B, T) is 1 up to a row's end, 0 on its padding, which
    stands past the range.

    Raises:
        UserError: the rows are longer than the range.
    """
    width = tokens.shape[1]
    if width > length:
        raise UserError(f"rows of {width} tokens, but model.position_range is {length}: raise it, or shorten rows")
    real = torch.ones_like(tokens) if mask is None else mask.to(tokens.dtype)
    places = torch.arange(1, width + 1, device=tokens.device) * _GOLDEN
    keys = _mix((real * _mix(tokens + places)).sum(1, keepdim=True))
    own = real.sum(1, keepdim=True)
    share = _shift(_mix(keys), 11).double() / (1 << 53)
    drawn = (own * (capacity / own.double()).clamp(min=1.0) ** share).long()  # (B, 1), from own to capacity
    scores = _mix(keys + torch.arange(1, length + 1, device=tokens.device) * _GOLDEN)
    order = scores.argsort(1)
    chosen = torch.where(torch.arange(length, device=tokens.device) < drawn, order, length).sort(1).values[:, :width]
    past_the_end = torch.arange(width, device=tokens.device) >= own
    return torch.where(past_the_end, length, chosen)


def _mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser, as in `remedy/rng.py`, on 64-bit integers with a sign."""
    z = (z ^ _shift(z, 30)) * _M1
    z = (z ^ _shift(z, 27)) * _M2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, by: int) -> Tensor:
    return (z >> by) & ((1 << (64 - by)) - 1)
