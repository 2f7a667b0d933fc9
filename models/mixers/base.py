"""What a sequence mixer is, and the registry of mixers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor, nn

from remedy.data_gen.registry import Registry

if TYPE_CHECKING:  # settings are checked against the mixers, and need not wait for Transformers
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


class Mixer(nn.Module):
    """A module `(x: (B, T, D), cache) -> (B, T, D)` that lets a token see those before it.

    Without a cache it runs in its parallel form over the whole sequence; with one it starts from, and leaves behind, its state in
    the cache's layer, and reads one token at a time after the first call.
    """

    uses: ClassVar[frozenset[str]] = frozenset()
    """Those of `DecoderSettings` that it reads, beside the widths that every decoder has."""
    kernels: ClassVar[tuple[str, ...]] = ()
    """Kernels that it can use, the main one first; without any it is PyTorch's own everywhere."""
    eigenvalues: ClassVar[Literal["positive", "signed"] | None] = None
    """Range of its transition's eigenvalues where `eigenvalues` is not given; None for mixers without the switch."""
    quadratic: ClassVar[bool] = False
    """Whether it compares every token with all before it, at a cost that grows with the square of the length."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        """`layer`: its number in the decoder, under which the cache holds its state."""
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        raise NotImplementedError

    @classmethod
    def eigenvalue_range(cls, chosen: str | None) -> str | None:
        """The configured range or the mixer's own; None for mixers without the switch."""
        return (chosen or cls.eigenvalues) if cls.eigenvalues is not None else None

    def read_state(self, cache: MixerCache | None) -> Tensor | None:
        """The recurrent state that an earlier call left in the cache, batch first."""
        return cache.get_recurrent_state(self.layer) if cache is not None else None

    def write_state(self, cache: MixerCache | None, state: Tensor) -> None:
        """Leave a recurrent state for the next call."""
        if cache is not None:
            cache.update_recurrent_state(state, self.layer)


MIXERS: Registry[type[Mixer]] = Registry("mixer")
