"""Rows of several examples, which must not see one another: where each begins, and the examples laid apart for what mixes tokens."""

from __future__ import annotations

import inspect
from typing import Any, cast

import torch
from torch import Tensor

from remedy.data_gen.settings import UserError
from remedy.models.protocol import CausalLM


class Packing:
    """The examples of packed rows (B, T), given by the place of each token in its own, which is 0 at the first and counts up.

    `lengths` (N,): tokens of each example, in order of the rows; padding is an example, too.
    """

    def __init__(self, position_ids: Tensor) -> None:
        self.shape = position_ids.shape
        places = position_ids.flatten()
        example = (places == 0).cumsum(0) - 1
        self.lengths = torch.bincount(example)
        self.longest = int(self.lengths.max())
        self.places = example * self.longest + places

    def apart(self, x: Tensor) -> Tensor:
        """Packed rows (B, T, ...) with a row for every example, (N, longest, ...), zero behind its end."""
        laid = x.new_zeros(len(self.lengths) * self.longest, *x.shape[2:])
        laid = laid.index_copy(0, self.places, x.flatten(0, 1))
        return cast(Tensor, laid.unflatten(0, (-1, self.longest)))

    def together(self, y: Tensor) -> Tensor:
        """The inverse of `apart`: what is behind an example's end is dropped."""
        return cast(Tensor, y.flatten(0, 1).index_select(0, self.places).unflatten(0, self.shape))

    def real(self) -> Tensor:
        """Which places of the rows laid apart are tokens, (N, longest)."""
        return torch.arange(self.longest, device=self.lengths.device) < self.lengths[:, None]


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

    It masks attention where `position_ids` restart (`masking_utils.find_packed_sequence_indices`), in most architectures; in others
    masks, convolutions or positions go on, and nothing in a model says so.

    Raises:
        UserError: what is read of one example depends on the one before it.
    """
    size = model.get_input_embeddings().num_embeddings
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
        base: Any = model
        raise _refusal(base, pack, "does not hold the examples of a row apart (tried on two)")


def _refusal(model: Any, pack: int, why: str) -> UserError:
    return UserError(f"train.pack {pack}: Transformers' {model.config.model_type} {why}: set train.pack to 1")


MOVED = 0.01
"""Of a token's logits, how far another first example may move those of the second: what it does not see moves nothing but rounding."""
FROM_ALONE = 0.2
"""How far the second's may be from what they are alone. Shapes differ there, and with them rounding in half precision."""
