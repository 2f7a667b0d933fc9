"""Positions of a batch's tokens: checks, packed examples, and randomised positions.

Ruoss et al., "Randomized positional encodings boost length generalization of Transformers", ACL 2023: a row of n tokens gets an ordered
random subset of n positions of a far longer range. A model that writes token by token must not know n: here a row takes the first n
of a subset of m, with m log-uniform from n to `capacity`: m = n is the paper's draw, m = `capacity` the even spacing of evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor
from transformers.utils.import_utils import is_tracing

from remedy.models.protocol import CausalLM
from remedy.settings import UserError

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache

_GOLDEN, _M1, _M2 = (value - (1 << 64) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def drawn_positions(tokens: Tensor, length: int, capacity: int, mask: Tensor | None = None) -> Tensor:
    """Draw increasing positions (B, T) from 0..length-1.

    A row's tokens determine its draw, in every process and batch. Padding (`mask` 0) gets position `length`.

    Raises:
        UserError: rows are longer than the range.
    """
    width = tokens.shape[1]
    if width > length:
        raise UserError(f"rows of {width} tokens, but model.position_range is {length}: raise it, or shorten rows")
    real = torch.ones_like(tokens) if mask is None else mask.to(tokens.dtype)
    offsets = torch.arange(1, width + 1, device=tokens.device) * _GOLDEN
    keys = _mix((real * _mix(tokens + offsets)).sum(1, keepdim=True))
    lengths = real.sum(1, keepdim=True)
    share = _shift(_mix(keys), 11).double() / (1 << 53)
    # (B, 1), from the row's length to capacity.
    drawn = (lengths * (capacity / lengths.double()).clamp(min=1.0) ** share).long()
    scores = _mix(keys + torch.arange(1, length + 1, device=tokens.device) * _GOLDEN)
    order = scores.argsort(1)
    chosen = torch.where(torch.arange(length, device=tokens.device) < drawn, order, length).sort(1).values[:, :width]
    past_the_end = torch.arange(width, device=tokens.device) >= lengths
    return torch.where(past_the_end, length, chosen)


def _mix(z: Tensor) -> Tensor:
    """Apply SplitMix64's finaliser, as in `remedy/rng.py`, to signed 64-bit integers."""
    z = (z ^ _shift(z, 30)) * _M1
    z = (z ^ _shift(z, 27)) * _M2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, by: int) -> Tensor:
    return (z >> by) & ((1 << (64 - by)) - 1)


def check_positions(mask: Tensor | None, positions: Tensor | None, x: Tensor, cache: MixerCache | None) -> None:
    """Refuse unsupported masks and positions for tokens `x` (B, T, ...).

    `mask` (B, P + T) includes the cache's P tokens. Padding must follow a row's tokens or, with a cache of joined rows, precede them.

    Raises:
        ValueError: the mask or the positions are others.
    """
    if is_tracing(x):  # tracing has no values
        return
    seen = 0 if cache is None else cache.seen
    if mask is not None:
        expected = (x.shape[0], seen + x.shape[1])
        if tuple(mask.shape) != expected:
            raise ValueError(
                f"attention_mask: its shape is {tuple(mask.shape)}, but it must be {expected}: rows, and places read before or now"
            )
        real = mask.ne(0)
        if cache is None:
            right = real[:, 0] & (real[:, 1:] <= real[:, :-1]).all(1)
        else:
            padding = 0 if cache.padding is None else cache.padding.to(mask.device)[:, None]
            right = (real == (torch.arange(expected[1], device=mask.device) >= padding)).all(1)
        if not right.all():
            raise ValueError(
                f"attention_mask: row {int(right.int().argmin())} has padding before, between or, where more is to be written, behind "
                "its tokens: this decoder does not skip it: hand over one sequence at a time, or sequences of equal length"
            )
    if positions is None or cache is None or not seen:
        return
    if not (positions == cache.positions(x.shape[1], positions.device)).all():
        raise ValueError("position_ids: beside past_key_values they must go on from what was read")


def has_borders(positions: Tensor) -> bool:
    """Say if rows hold several examples, by positions (B, T) in each.

    Raises:
        ValueError: positions do not count up from 0 in each example.
    """
    restarts = positions[:, 1:] == 0
    consecutive = restarts | (positions[:, 1:] == positions[:, :-1] + 1)
    if not (positions[:, 0] == 0).all() or not consecutive.all():
        raise ValueError(
            "position_ids: they must be 0 at the first token of an example and count up from there: a decoder of this project knows no "
            "other positions"
        )
    return bool(restarts.any())


# Least ratio of lengths in a group: lower pads more, higher makes more groups, which are computed in turn.
LEAST_RATIO = 2 / 3


class Group(NamedTuple):
    """Examples of similar lengths, one per row, padded with zeros to (N, L)."""

    real: Tensor
    """Mask of tokens, (N, L)."""
    slots: Tensor
    """Indices of these tokens in N L."""
    tokens: Tensor
    """Indices of these tokens in the packed rows, flattened (B T)."""

    def split(self, flat: Tensor) -> Tensor:
        """Select the group's tokens from all (B T, ...), as (N, L, ...)."""
        padded = flat.new_zeros(self.real.numel(), *flat.shape[1:])
        return cast(Tensor, padded.index_copy(0, self.slots, flat[self.tokens]).unflatten(0, self.real.shape))


class Packing:
    """The examples of packed rows, by positions (B, T) in each.

    Mixers see examples separately, grouped by length.
    """

    def __init__(self, position_ids: Tensor) -> None:
        self.shape = position_ids.shape
        device = position_ids.device
        starts = (position_ids.flatten() == 0).nonzero().squeeze(1)
        lengths = torch.diff(starts, append=starts.new_tensor([position_ids.numel()]))
        order = lengths.argsort(descending=True, stable=True)
        self.groups: list[Group] = []
        for first, stop in _similar_lengths(lengths[order].tolist()):
            chosen = order[first:stop]
            steps = torch.arange(int(lengths[chosen[0]]), device=device)
            real = steps < lengths[chosen, None]
            self.groups.append(Group(real, real.flatten().nonzero().squeeze(1), (starts[chosen, None] + steps)[real]))
        self.back = torch.cat([group.tokens for group in self.groups]).argsort()

    def split(self, x: Tensor) -> list[Tensor]:
        """Split packed rows (B, T, ...) into groups of examples, each (N, L, ...)."""
        flat = x.flatten(0, 1)
        return [group.split(flat) for group in self.groups]

    def join(self, groups: Sequence[Tensor]) -> Tensor:
        """Invert `apart`, without the padding."""
        flat = torch.cat([y.flatten(0, 1)[group.slots] for y, group in zip(groups, self.groups, strict=True)])
        return cast(Tensor, flat[self.back].unflatten(0, self.shape))


def _similar_lengths(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = 0
    for number, length in enumerate(lengths):
        if length < LEAST_RATIO * lengths[first]:
            yield first, number
            first = number
    yield first, len(lengths)


def try_packing(model: CausalLM, pack: int, device: torch.device) -> None:
    """Test if a Transformers model in evaluation mode keeps a row's examples independent.

    Most mask attention where `position_ids` restart (`masking_utils.find_packed_sequence_indices`).

    Raises:
        UserError: one example changes the logits of the next.
    """
    inner: Any = getattr(model, "module", model)  # DDP and DeepSpeed wrap it, without its configuration
    size = inner.config.get_text_config().vocab_size  # the embeddings may be wrapped by adapters
    first, second = torch.arange(3, 15, device=device) % size, torch.arange(20, 32, device=device) % size
    positions = torch.arange(12, device=device).repeat(1, 2)
    rows = (
        (second, positions[:, :12]),
        (torch.cat([first, second]), positions),
        (torch.cat([first.flip(0), second]), positions),
    )
    try:
        with torch.no_grad():
            alone, *after = (
                model(ids[None], position_ids=row_positions, use_cache=False).logits[0, -12:].float()
                for ids, row_positions in rows
            )
    except TypeError:
        raise _refusal(inner, pack, "takes no positions, by which Transformers tells examples apart") from None
    length = alone.norm(dim=-1)
    moved, from_alone = ((x - after[0]).norm(dim=-1).div(length).max() for x in (after[1], alone))
    if not (moved < NEIGHBOUR_LIMIT and from_alone < ALONE_LIMIT):
        raise _refusal(inner, pack, "does not hold the examples of a row apart (tried on two)")


def _refusal(model: Any, pack: int, why: str) -> UserError:
    return UserError(f"train.pack {pack}: Transformers' {model.config.model_type} {why}: set train.pack to 1")


# Greatest change of the second example's logits by another first one, relative to their norm: only rounding.
NEIGHBOUR_LIMIT = 0.01
# Greatest distance from the second example alone, where other shapes round differently in half precision.
ALONE_LIMIT = 0.2
