"""Fast GPU kernels of other packages, where they work; the PyTorch forms in `mixers` are the reference and run everywhere.

Parameters are the mixers' own, so a checkpoint trained with kernels evaluates without. Whether a kernel works is found out before
anything is compiled or checkpointed (`kernel_trial.try_kernels`): on a small input of the mixer's own widths its outputs, last state
and gradients must be the reference's in float64. Packages import on machines on which they cannot run, some fail only when called,
and compilers have made kernels whose gradients were wrong. What passed is kept in a plain dict, which is all that a forward pass looks
at.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Kernel(NamedTuple):
    """A kernel that computes an operation."""

    path: str
    """Where it is imported from: module and name."""
    call: Callable[..., Any]
    """A call of it, given the function and the operation's inputs; returns the operation's outputs."""
    takes: Callable[..., bool]
    """Whether it can take these inputs (their shapes, not their widths, which are tried)."""


class Operation(NamedTuple):
    """Operation of a mixer that kernels may compute. All kernels are functions of the same inputs, tensors and others."""

    reference: Callable[..., Any]
    """The same in PyTorch, in the inputs' precision: a tensor, or an output and a last state."""
    widths: Callable[..., tuple[int, ...]]
    """What kernels are compiled for, of the inputs: channels, and which form of the operation it is."""
    example: Callable[..., tuple[Any, ...]]
    """A small input, given a function that draws (`Draw`) and widths."""
    kernels: tuple[Kernel, ...]
    """The first that works and takes the input computes it."""


class Use(NamedTuple):
    """An operation of a mixer."""

    operation: str
    widths: tuple[int, ...]


class Tried(NamedTuple):
    """Result of trying an operation's kernels: those that agree, and why the others are not used."""

    found: tuple[tuple[Kernel, Callable[..., Any]], ...]
    refused: tuple[str, ...]


class Draw:
    """Random numbers of an example: the same everywhere, whatever defaults are set."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator(device="cpu").manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Draw numbers of mean 0 and variance 1, in the precision that is tried where none is given."""
        return self._placed(torch.randn(shape, generator=self.generator, device="cpu", dtype=torch.float32), dtype)

    def uniform(self, *shape: int) -> Tensor:
        """In [0, 1), in float32."""
        drawn = torch.rand(shape, generator=self.generator, device="cpu", dtype=torch.float32)
        return self._placed(drawn, torch.float32)

    def _placed(self, x: Tensor, dtype: torch.dtype | None) -> Tensor:
        return x.to(self.device, dtype or self.dtype)


OPERATIONS: dict[str, Operation] = {}
"""Operations by name; the modules with the references fill it."""

TRIED: dict[tuple[str, str, torch.dtype, tuple[int, ...]], Tried] = {}
"""What was tried, by operation, kind of device, precision and widths."""


def kernel(operation: str, dtype: torch.dtype, *inputs: Any) -> Callable[..., Any] | None:
    """A kernel for these inputs, to be called with them; None for the reference: on a CPU, where none takes them or none was tried.

    `dtype`: the precision to compute in, which is that of the mixer's projections.
    """
    if not TRIED:
        return None
    key = (operation, inputs[0].device.type, dtype, OPERATIONS[operation].widths(*inputs))
    tried = TRIED.get(key)
    if tried is not None:
        for candidate, run in tried.found:
            if candidate.takes(*inputs):
                return run
    return None


def runs(candidate: Kernel) -> Callable[..., Any]:
    """A kernel to be called with its operation's inputs.

    Raises:
        ModuleNotFoundError: what it is imported from, or what that needs, is not installed.
    """
    os.environ.setdefault("FLA_DISABLE_BACKEND_DISPATCH", "1")  # else what else is installed chooses fla's kernels
    module, name = candidate.path.rsplit(".", 1)
    return partial(candidate.call, getattr(importlib.import_module(module), name))
