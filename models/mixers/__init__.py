"""Sequence mixers: what lets a token see those before it.

To add one, write a subclass of `Mixer` in a file of its own, with `@MIXERS.register(name)`, and import the file here.
"""

from __future__ import annotations

from collections.abc import Iterable

from remedy.models.kernels import KERNELS, KernelUnavailable, load_kernel
from remedy.models.mixers.attention import Attention
from remedy.models.mixers.base import MIXERS, Mixer
from remedy.models.mixers.deltanet import DeltaNet, DeltaProduct, GatedDeltaNet
from remedy.models.mixers.mamba import Mamba, Mamba2
from remedy.models.mixers.rnn import GRU, LSTM

__all__ = [
    "GRU",
    "LSTM",
    "MIXERS",
    "Attention",
    "DeltaNet",
    "DeltaProduct",
    "GatedDeltaNet",
    "Mamba",
    "Mamba2",
    "Mixer",
    "describe_kernels",
    "eigenvalues_of",
]


def eigenvalues_of(mixer: str, chosen: str | None) -> str | None:
    """`positive` or `signed`, by a configuration's choice or the mixer's default; None for mixers without the switch."""
    return MIXERS[mixer].eigenvalue_range(chosen)


def describe_kernels(mixers: Iterable[str], eigenvalues: str | None, precision: str) -> str:
    """One line: which path each mixer takes, and why."""
    return "; ".join(f"{mixer} by {_path(mixer, eigenvalues, precision)}" for mixer in dict.fromkeys(mixers))


def _path(mixer: str, eigenvalues: str | None, precision: str) -> str:
    if not MIXERS[mixer].kernels:
        return "PyTorch's own"
    main = MIXERS[mixer].kernels[0]
    try:
        load_kernel(main)
        if precision == "fp32":
            raise KernelUnavailable("kernels need train.precision bf16 or fp16")
        if eigenvalues_of(mixer, eigenvalues) == "signed" and not KERNELS[main].signed:
            raise KernelUnavailable("no kernel has eigenvalues in [-1, 1]")
    except KernelUnavailable as reason:
        return f"PyTorch ({reason})"
    return KERNELS[main].module
