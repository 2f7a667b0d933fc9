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


def describe_kernels(layers: Iterable[Mixer], precision: str) -> str:
    """One line: which path each mixer of a decoder takes, and why."""
    names = {mixer: name for name, mixer in MIXERS.items()}
    return "; ".join(dict.fromkeys(f"{names[type(layer)]} by {_path(layer, precision)}" for layer in layers))


def _path(mixer: Mixer, precision: str) -> str:
    if not mixer.kernels:
        return "PyTorch's own"
    main = mixer.kernels[0]
    try:
        load_kernel(main)
        if precision == "fp32":
            raise KernelUnavailable("kernels need train.precision bf16 or fp16")
        missing = mixer.without_kernel()
        if missing:
            raise KernelUnavailable(missing)
    except KernelUnavailable as reason:
        return f"PyTorch ({reason})"
    return KERNELS[main].module
