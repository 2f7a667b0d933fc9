"""Sequence mixers: their interface and their registry."""

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

    Without a cache it runs in its parallel form over the whole sequence; with one it starts from, and leaves behind, its state in
    the cache's layer, and reads one token at a time after the first call. Its own parameters must stand for (B, T, ...) by
    broadcasting, since those of stacked models come as (B, 1, ...) (`stacked.py`).
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
        """`layer`: its number in the decoder, under which the cache holds its state."""
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        raise NotImplementedError

    @classmethod
    def setting(cls, config: DecoderConfig, key: str) -> Any:
        """The configured value, or where that is null the published one."""
        value = getattr(config, key)
        return cls.published[key] if value is None else value

    @classmethod
    def eigenvalue_range(cls, chosen: str | None) -> str | None:
        """The configured range or the mixer's own; None for mixers without the switch."""
        return (chosen or cls.eigenvalues) if cls.eigenvalues is not None else None

    def initialised(self) -> list[nn.Module]:
        """Linear layers whose initialisation is its authors' and belongs to it, which `initializer_range` leaves alone."""
        return []

    def operations(self) -> list[Use]:
        """Name what kernels of other packages may compute of it, beside a short convolution; without any it is PyTorch's own."""
        return []

    def own_path(self, device: torch.device, dtype: torch.dtype) -> str:
        """Name what computes it where it has no operations."""
        return "PyTorch's own"

    def state_floats(self) -> tuple[int, int]:
        """Numbers it carries from token to token for one sequence: always, and more for each token read.

        The few tokens that a short convolution sees are not counted.
        """
        return 0, 0

    def sequence_flops(self) -> tuple[float, float]:
        """Forward operations beside products with weights: per token, and per token and token of the sequence's length."""
        return 0.0, 0.0

    def read_state(self, cache: MixerCache | None) -> Tensor | None:
        """The recurrent state that an earlier call left in the cache, batch first."""
        return cache.get_recurrent_state(self.layer) if cache is not None else None

    def write_state(self, cache: MixerCache | None, state: Tensor) -> None:
        """Leave a recurrent state for the next call."""
        if cache is not None:
            cache.update_recurrent_state(state, self.layer)


MIXERS: Registry[type[Mixer]] = Registry("mixer")


def in_chunks(most: int, dim: int, *tensors: Tensor | None) -> list[Any]:
    """Tensors with T steps along `dim` as (..., chunks, S, ...), in as few chunks of at most `most` steps as hold them: all alike, so
    that the last one is padded little, with zeros."""
    steps = next(x.shape[dim] for x in tensors if x is not None)
    size = -(-steps // max(1, -(-steps // most))) or 1
    padding = -steps % size

    def cut(x: Tensor) -> Tensor:
        padded = F.pad(x, [0, 0] * (x.ndim - dim - 1) + [0, padding]) if padding else x
        return padded.unflatten(dim, (-1, size))

    return [None if x is None else cut(x) for x in tensors]
