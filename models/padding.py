"""Places of a batch's tokens: padding and positions as Transformers hands them over, read as they are meant or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers.utils.import_utils import is_tracing

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache


def row_starts(mask: Tensor | None, positions: Tensor | None, x: Tensor, cache: MixerCache | None) -> list[int] | None:
    """The place of each row's first token in `x` (B, T, ...); None where all rows begin at the first place.

    `mask` (B, P + T) is 1 on tokens and 0 on padding, of the P places that the cache has read too; `positions` are those of the new
    tokens. Padding stands before a row's tokens, or behind them where no cache is to be gone on from.

    Raises:
        ValueError: the mask or the positions say something else.
    """
    if is_tracing(x):  # there are no values to look at
        return None
    if cache is not None and cache.seen:
        _check_continued(mask, positions, x, cache)
        return None
    starts = None if mask is None else _fresh_starts(mask, x, cache is not None)
    if starts is not None and positions is not None:
        first = torch.tensor(starts, device=x.device)[:, None]
        places = torch.arange(x.shape[1], device=x.device) - first
        if not torch.equal(positions.expand_as(places).clamp(min=0)[places >= 0], places[places >= 0]):
            raise ValueError(
                "position_ids: in rows with padding before their tokens they must count up from 0 at the first token"
            )
    return starts


def has_borders(positions: Tensor) -> bool:
    """Say if rows hold several examples, by the place of each token in its own (B, T).

    Raises:
        ValueError: they do not begin with 0 and count up from every 0.
    """
    again = positions[:, 1:] == 0
    counted = again | (positions[:, 1:] == positions[:, :-1] + 1)
    if not (positions[:, 0] == 0).all() or not counted.all():
        raise ValueError(
            "position_ids: they must be 0 at the first token of an example and count up from there: a decoder of this project knows no "
            "other positions"
        )
    return bool(again.any())


def _fresh_starts(mask: Tensor, x: Tensor, kept: bool) -> list[int] | None:
    _check_shape(mask, x, 0)
    steps, real = x.shape[1], mask.ne(0).int()
    bounds = torch.stack(
        [real.argmax(1), steps - real.flip(1).argmax(1), real.sum(1)], 1
    ).tolist()  # one wait for the device
    for row, (first, stop, count) in enumerate(bounds):
        if count != stop - first or not count:
            raise ValueError(
                f"attention_mask: row {row} has {'padding between its tokens' if count else 'no token'}: tokens must stand in one piece"
            )
        if kept and stop < steps:
            raise ValueError(
                f"attention_mask: row {row} is padded on the right, and what is written next would follow the padding: pad on the left "
                "(padding_side='left' of the tokenizer)"
            )
    starts = [first for first, _, _ in bounds]
    return starts if any(starts) else None


def _check_continued(mask: Tensor | None, positions: Tensor | None, x: Tensor, cache: MixerCache) -> None:
    steps = x.shape[1]
    if mask is not None:
        _check_shape(mask, x, cache.seen)
        padding = 0 if cache.padding is None else cache.padding.to(mask.device)[:, None]
        expected = torch.arange(cache.seen + steps, device=mask.device) >= padding
        if not torch.equal(mask.ne(0), expected.expand_as(mask)):
            raise ValueError(
                "attention_mask: it must be 0 on the padding that past_key_values began with, and nowhere else: padding between "
                "tokens is not skipped"
            )
    if positions is not None:
        places = cache.places(steps, positions.device)
        if not bool((positions == places).all()):
            raise ValueError("position_ids: beside past_key_values they must go on from what was read")


def _check_shape(mask: Tensor, x: Tensor, seen: int) -> None:
    wanted = (x.shape[0], seen + x.shape[1])
    if tuple(mask.shape) != wanted:
        raise ValueError(
            f"attention_mask: its shape is {tuple(mask.shape)}, but it must be {wanted}: rows, and places read before or now"
        )
