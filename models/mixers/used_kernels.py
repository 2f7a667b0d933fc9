"""What computes the mixers of a decoder: kernels of other packages, or PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version

import torch

from remedy.models.kernels import LIBRARY, TRIALS, UNTRIED, Use, try_kernels
from remedy.models.mixers import MIXERS
from remedy.models.mixers.base import Mixer
from remedy.models.mixers.short_convolution import ShortConvolution


def find_kernels(layers: Iterable[Mixer], device: torch.device, dtype: torch.dtype) -> None:
    """Try the kernels of a decoder's mixers on a GPU; elsewhere do nothing.

    Call it in every process, after its device is chosen and before anything is compiled or run.
    """
    if device.type == "cuda":
        try_kernels((use for layer in layers for use in _uses(layer)), device, dtype)


def describe_kernels(layers: Iterable[Mixer], device: torch.device, dtype: torch.dtype) -> str:
    return "; ".join(f"{name}: {path}" for name, path in kernels_of(layers, device, dtype).items())


def kernels_of(layers: Iterable[Mixer], device: torch.device, dtype: torch.dtype) -> dict[str, str]:
    """Return by mixer what computes its operations, and why no kernel does."""
    names = {mixer: name for name, mixer in MIXERS.items()}
    paths_of: dict[str, dict[str, None]] = {}  # mixers of one name may have different widths
    for layer in layers:
        parts = [f"{use[0]} by {_path(use, device, dtype)}" for use in _uses(layer)]
        paths_of.setdefault(names[type(layer)], {})[", ".join(parts) or layer.own_path(device, dtype)] = None
    return {name: "; ".join(paths) for name, paths in paths_of.items()}


def _uses(mixer: Mixer) -> Iterator[Use]:
    yield from mixer.operations()
    for part in mixer.children():
        if isinstance(part, ShortConvolution):
            yield from part.operations()


def _path(use: Use, device: torch.device, dtype: torch.dtype) -> str:
    if device.type != "cuda":
        return "PyTorch (no CUDA device)"
    refusal = TRIALS.get((use, device.type, dtype), UNTRIED)
    if refusal is not None:
        return f"PyTorch ({refusal})"
    try:
        return f"{LIBRARY} {version(LIBRARY)}"
    except PackageNotFoundError:  # its folder alone is on the search path
        return LIBRARY
