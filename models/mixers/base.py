"""Interface and registry of sequence mixers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import Use
from remedy.registry import Registry

if TYPE_CHECKING:  # settings are checked against the mixers, and need not wait for Transformers
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


class Mixer(nn.Module):
    """A module `(x: (B, T, D), cache) -> (B, T, D)` that lets a token see those before it.

    Without a cache it runs in parallel. With one it continues from the state in the cache's layer, after the first call one token at
    a time. Its own parameters must broadcast over (B, T, ...): those of stacked models come as (B, 1, ...) (`stacked.py`).
    """

    uses: ClassVar[frozenset[str]] = frozenset()
    """Those of `DecoderSettings` that it reads, beside the widths that every decoder has."""
    published: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Its values of settings that are left null: those it was published with."""
    eigenvalues: ClassVar[Literal["positive", "signed"] | None] = None
    """Range of its transition's eigenvalues where `eigenvalues` is not given; None for mixers without the switch."""
    ranges: ClassVar[tuple[str, ...]] = ("positive", "signed")
    """What `eigenvalues` may be of a mixer that has the switch."""
    positional: ClassVar[bool] = False
    """Whether it takes the tokens' positions as a third argument: (T,) or (B, T), or None where they count up from 0."""
    undecayed: ClassVar[frozenset[str]] = frozenset()
    """Names of its parameters that weight decay must leave alone, beside norms and biases."""
    sets_state: ClassVar[str] = "hidden_size"
    """The setting that scales its state while the width stays; `hidden_size` where there is none."""
    window: int | None = None
    """How many tokens it sees at most, if that is less than all: its operations and its state are those of so many."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        """Make the mixer of a layer, under whose number the cache holds its state."""
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        raise NotImplementedError

    @classmethod
    def setting(cls, config: DecoderConfig, key: str) -> Any:
        """Return the configured value, or the published one."""
        value = getattr(config, key)
        return cls.published[key] if value is None else value

    @classmethod
    def eigenvalue_range(cls, chosen: str | None) -> str | None:
        """Return the configured range or the mixer's own; None without the switch."""
        return (chosen or cls.eigenvalues) if cls.eigenvalues is not None else None

    def initialised(self) -> list[nn.Module]:
        """List linear layers that `initializer_range` leaves as the authors initialise them."""
        return []

    def operations(self) -> list[Use]:
        """List what kernels of other packages may compute, beside a short convolution."""
        return []

    def own_path(self, device: torch.device, dtype: torch.dtype) -> str:
        """Name what computes a mixer without such operations."""
        return "PyTorch's own"

    def state_floats(self) -> tuple[int, int]:
        """Count the numbers it carries for one sequence: fixed, and for each token read.

        A short convolution's few tokens are not counted.
        """
        return 0, 0

    def sequence_flops(self) -> tuple[float, float]:
        """Count a token's operations beside products with weights: fixed, and for each token of the sequence."""
        return 0.0, 0.0

    def read_state(self, cache: MixerCache | None) -> Tensor | None:
        """Return the recurrent state of an earlier call, batch first, or None."""
        return cache.get_recurrent_state(self.layer) if cache is not None else None

    def write_state(self, cache: MixerCache | None, state: Tensor) -> None:
        """Store a recurrent state for the next call."""
        if cache is not None:
            cache.update_recurrent_state(state, self.layer)


MIXERS: Registry[type[Mixer]] = Registry("mixer")


def in_chunks(most: int, dim: int, *tensors: Tensor | None) -> list[Any]:
    """Cut T steps along `dim` into the fewest equal chunks of at most `most`, (..., chunks, S, ...), padded with zeros."""
    steps = next(x.shape[dim] for x in tensors if x is not None)
    size = -(-steps // max(1, -(-steps // most))) or 1
    padding = -steps % size

    def cut(x: Tensor) -> Tensor:
        padded = F.pad(x, [0, 0] * (x.ndim - dim - 1) + [0, padding]) if padding else x
        return padded.unflatten(dim, (-1, size))

    return [None if x is None else cut(x) for x in tensors]
