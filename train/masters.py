"""AdamW for a model whose weights are held in bfloat16."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn


class MasterWeights(torch.optim.AdamW):
    """AdamW on float32 weights, of which the model holds roundings to bfloat16.

    It takes a model's float32 weights for its own and leaves their roundings in the model: an update is often too small to change
    these. What is saved within `restored` is in float32, so that files are those of any other training, and a run that loads one
    before this is made goes on to the bit.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], **options: Any) -> None:
        groups = list(groups)
        self.rounded: list[nn.Parameter] = [weight for group in groups for weight in group["params"]]
        super().__init__([{**group, "params": [w.detach() for w in group["params"]]} for group in groups], **options)
        for weight in self.rounded:
            weight.data = weight.data.bfloat16()

    @property
    def masters(self) -> list[torch.Tensor]:
        """The float32 weights, in the order of `rounded`."""
        return [master for group in self.param_groups for master in group["params"]]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        masters = self.masters
        for master, weight in zip(masters, self.rounded):
            master.grad = None if weight.grad is None else weight.grad.float()
        super().step()
        for master, weight in zip(masters, self.rounded):
            weight.data.copy_(master)
            master.grad = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        for weight in self.rounded:
            weight.grad = None

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """The model holds the float32 weights while it lasts."""
        rounded = [weight.data for weight in self.rounded]
        for weight, master in zip(self.rounded, self.masters):
            weight.data = master
        try:
            yield
        finally:
            for weight, data in zip(self.rounded, rounded):
                weight.data = data
