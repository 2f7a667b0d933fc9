"""Interface of sequence mixers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import Use
from remedy.models.mixers import Reads

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


class Mixer(nn.Module):
    """A module `(x: (B, T, D), cache) -> (B, T, D)`; tokens see earlier ones.

    Without a cache it runs in parallel. With one it continues from its layer's state, after the first call one token at a time. Its own
    parameters must broadcast over (B, T, ...): in stacked models they are (B, 1, ...).
    """

    reads: ClassVar[Reads] = Reads()
    """What it reads of the settings."""
    positional: ClassVar[bool] = False
    """Whether `forward` takes positions as third argument: (T,) or (B, T), or None if they count up from 0."""
    undecayed: ClassVar[frozenset[str]] = frozenset()
    """Names of its parameters without weight decay, besides norms and biases."""
    state_flops: float = 0.0
    """Operations of a token per number of the state, besides products with weights."""
    window: int | None = None
    """Number of tokens that it sees, if limited."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        raise NotImplementedError

    @classmethod
    def setting(cls, config: DecoderConfig, key: str) -> Any:
        value = getattr(config, key)
        return cls.reads.published[key] if value is None else value

    @classmethod
    def eigenvalue_range(cls, chosen: str | None) -> str | None:
        return (chosen or cls.reads.eigenvalues) if cls.reads.eigenvalues is not None else None

    def initialised(self) -> list[nn.Module]:
        """List linear layers to which `initializer_range` does not apply."""
        return []

    def operations(self) -> list[Use]:
        """List what kernels of other packages may compute, besides short convolutions."""
        return []

    def own_path(self, device: torch.device, dtype: torch.dtype) -> str:
        """Describe what computes a mixer without kernels."""
        return "PyTorch's own"

    def state_floats(self) -> tuple[int, int]:
        """Count the numbers in one sequence's state: fixed, and per token read.

        Short convolutions are not counted.
        """
        return 0, 0

    def sequence_flops(self) -> tuple[float, float]:
        """Count a token's operations without weights: fixed, and per token of the sequence."""
        fixed, per_token = self.state_floats()
        return self.state_flops * fixed, self.state_flops * per_token

    def read_state(self, cache: MixerCache | None) -> Tensor | None:
        """Return the recurrent state of an earlier call, batch first, or None."""
        return cache.get_recurrent_state(self.layer) if cache is not None else None

    def write_state(self, cache: MixerCache | None, state: Tensor) -> None:
        if cache is not None:
            cache.update_recurrent_state(state, self.layer)


def in_chunks(most: int, dim: int, *tensors: Tensor | None) -> list[Any]:
    """Cut T steps along `dim` into equal chunks of at most `most` steps.

    Returns (..., chunks, S, ...), padded with zeros.
    """
    steps = next(x.shape[dim] for x in tensors if x is not None)
    size = -(-steps // max(1, -(-steps // most))) or 1
    padding = -steps % size

    def cut(x: Tensor) -> Tensor:
        padded = F.pad(x, [0, 0] * (x.ndim - dim - 1) + [0, padding]) if padding else x
        return padded.unflatten(dim, (-1, size))

    return [None if x is None else cut(x) for x in tensors]


def step_bias(count: int) -> Tensor:
    """Draw biases whose softplus is spread log-uniformly between 0.001 and 0.1."""
    step = torch.exp(torch.rand(count) * math.log(100) + math.log(0.001))
    return step + torch.log(-torch.expm1(-step))
