"""AdamW for a model whose weights are held in bfloat16."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn


class MasterWeights(torch.optim.AdamW):
    """AdamW on float32 copies of a model's bfloat16 weights.

    An update is often too small to change a bfloat16 weight, so the float32 values of `rounded` are kept here. They are
    saved within `restored`; a run that loads them before this is made continues bit-exactly.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], rounded: Iterable[nn.Parameter], **options: Any) -> None:
        # A master takes over its weight's float32 storage, so that nothing is copied.
        self.masters = {weight: weight.detach() for weight in rounded}
        float32_groups = [{**group, "params": [self.masters.get(w, w) for w in group["params"]]} for group in groups]
        super().__init__(float32_groups, **options)
        for weight in self.masters:
            weight.data = weight.data.bfloat16()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        groups, rounded = self.param_groups, {master: weight for weight, master in self.masters.items()}
        for group in groups:
            for master in group["params"]:  # one by one, so that the cast gradient stays in the CPU cache
                weight = rounded.get(master)
                if weight is not None:
                    master.grad = None if weight.grad is None else weight.grad.float()
                self.param_groups = [{**group, "params": [master]}]
                super().step()
                if weight is not None:
                    weight.data.copy_(master)
                    master.grad = None
        self.param_groups = groups

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        # The backward pass fills the model's weights; the groups hold their masters.
        for weight in self.masters:
            weight.grad = None

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Put the float32 weights into the model for the block."""
        rounded = {weight: weight.data for weight in self.masters}
        for weight, master in self.masters.items():
            weight.data = master
        try:
            yield
        finally:
            for weight, data in rounded.items():
                weight.data = data
