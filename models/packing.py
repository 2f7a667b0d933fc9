"""Rows of several examples, which must not see one another: where each begins, and the examples laid apart for what mixes tokens."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from remedy.models.protocol import CausalLM
from remedy.settings import UserError

ALIKE = 2 / 3
"""The shortest example of a group over its longest: less pads more, more makes more groups to be computed one after another."""


class Group(NamedTuple):
    """Examples of like lengths, laid apart: (N, L), each in a row of its own, with zeros behind its end."""

    real: Tensor
    """Which places are tokens, (N, L)."""
    slots: Tensor
    """Where these are, of N L places."""
    tokens: Tensor
    """Where they are in the packed rows, of B T places."""

    def apart(self, flat: Tensor) -> Tensor:
        """The group's part of all tokens (B T, ...), as (N, L, ...)."""
        laid = flat.new_zeros(self.real.numel(), *flat.shape[1:])
        return cast(Tensor, laid.index_copy(0, self.slots, flat[self.tokens]).unflatten(0, self.real.shape))


class Packing:
    """The examples of packed rows (B, T), given by the place of each token in its own, which is 0 at the first and counts up.

    Examples are laid apart for what mixes tokens, those of like lengths together: then it needs to know nothing of borders, and
    neither does a kernel, and little is computed for padding. Padding of the rows is an example, too.
    """

    def __init__(self, position_ids: Tensor) -> None:
        self.shape = position_ids.shape
        device = position_ids.device
        starts = (position_ids.flatten() == 0).nonzero().squeeze(1)
        lengths = torch.diff(starts, append=starts.new_tensor([position_ids.numel()]))
        order = lengths.argsort(descending=True, stable=True)
        self.groups: list[Group] = []
        for first, stop in _alike(lengths[order].tolist()):
            chosen = order[first:stop]
            steps = torch.arange(int(lengths[chosen[0]]), device=device)
            real = steps < lengths[chosen, None]
            self.groups.append(Group(real, real.flatten().nonzero().squeeze(1), (starts[chosen, None] + steps)[real]))
        self.back = torch.cat([group.tokens for group in self.groups]).argsort()

    def apart(self, x: Tensor) -> list[Tensor]:
        """Packed rows (B, T, ...) as groups of examples, each (N, L, ...)."""
        flat = x.flatten(0, 1)
        return [group.apart(flat) for group in self.groups]

    def together(self, groups: Sequence[Tensor]) -> Tensor:
        """The inverse of `apart`: what is behind an example's end is dropped."""
        flat = torch.cat([y.flatten(0, 1)[group.slots] for y, group in zip(groups, self.groups, strict=True)])
        return cast(Tensor, flat[self.back].unflatten(0, self.shape))

    def real(self) -> list[Tensor]:
        """Mark the places of the groups that are tokens, each (N, L)."""
        return [group.real for group in self.groups]


def _alike(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Find where groups of examples begin and end, of lengths that fall."""
    first = 0
    for number, length in enumerate(lengths):
        if length < ALIKE * lengths[first]:
            yield first, number
            first = number
    yield first, len(lengths)


def refuse_unpackable(model: CausalLM, pack: int) -> None:
    """Refuse to pack for a pretrained model that is known to be unable to tell examples apart: before anything is tried.

    Raises:
        UserError: the model is such a one.
    """
    base: Any = model
    base = base.get_base_model() if hasattr(base, "get_base_model") else base
    if base._is_stateful:
        raise _refusal(base, pack, "carries a recurrent state from one example to the next")
    if "position_ids" not in inspect.signature(base.forward).parameters:
        raise _refusal(base, pack, "takes no positions, by which Transformers tells examples apart")


def try_packing(model: CausalLM, pack: int, device: torch.device) -> None:
    """Find out on two small examples whether a model of Transformers', in evaluation mode, holds those of a row apart.

    The model is handed over as it is trained, in what divides it over processes if there are several. It masks attention where
    `position_ids` restart (`masking_utils.find_packed_sequence_indices`), in most architectures; in others
    masks, convolutions or positions go on, and nothing in a model says so.

    Raises:
        UserError: what is read of one example depends on the one before it.
    """
    inside: Any = getattr(model, "module", model)  # DDP and DeepSpeed wrap it, and have no or another configuration
    size = inside.config.get_text_config().vocab_size  # adapters may stand in for the table of embeddings
    first, second = torch.arange(3, 15, device=device) % size, torch.arange(20, 32, device=device) % size
    positions = torch.arange(12, device=device).repeat(1, 2)
    with torch.no_grad():
        alone, *after = (
            model(ids[None], position_ids=places, use_cache=False).logits[0, -12:].float()
            for ids, places in (
                (second, positions[:, :12]),
                (torch.cat([first, second]), positions),
                (torch.cat([first.flip(0), second]), positions),
            )
        )
    length = alone.norm(dim=-1)
    moved, from_alone = ((x - after[0]).norm(dim=-1).div(length).max() for x in (after[1], alone))
    if not (moved < MOVED and from_alone < FROM_ALONE):
        raise _refusal(inside, pack, "does not hold the examples of a row apart (tried on two)")


def _refusal(model: Any, pack: int, why: str) -> UserError:
    return UserError(f"train.pack {pack}: Transformers' {model.config.model_type} {why}: set train.pack to 1")


MOVED = 0.01
"""Of a token's logits, how far another first example may move those of the second: what it does not see moves nothing but rounding."""
FROM_ALONE = 0.2
"""How far the second's may be from what they are alone. Shapes differ there, and with them rounding in half precision."""
