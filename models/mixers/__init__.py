"""Sequence mixers, which let a token see those before it.

To add one, write a subclass of `Mixer` in a file here, with `@MIXERS.register(name)`, and name it below, with what it reads of the
settings. These need only the names: PyTorch, which the classes import, takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from remedy.registry import Registry

if TYPE_CHECKING:
    from remedy.models.mixers.base import Mixer


class Reads(NamedTuple):
    """What a mixer reads of `DecoderSettings`, besides the widths of every decoder."""

    uses: frozenset[str] = frozenset()
    """The fields that it reads."""
    published: Mapping[str, Any] = MappingProxyType({})
    """Values of fields that are left null, as published."""
    eigenvalues: Literal["positive", "signed"] | None = None
    """Default range of its transition's eigenvalues; None if it does not read `eigenvalues`."""
    ranges: tuple[str, ...] = ("positive", "signed")
    """Values of `eigenvalues` that it allows."""
    sets_state: str = "hidden_size"
    """The field that scales its state at a fixed width, or else `hidden_size`."""


_DELTA = Reads(
    frozenset({"num_attention_heads", "eigenvalues", "short_convolution"}),
    {"short_convolution": True},
    "signed",
    ("positive", "signed", "closed"),
)
READS = {
    "attention": Reads(
        frozenset(
            {
                "num_attention_heads",
                "positions",
                "position_range",
                "position_capacity",
                "rope_theta",
                "window",
                "qk_norm",
                "short_convolution",
            }
        ),
        {"short_convolution": False},
        sets_state="window",
    ),
    "deltanet": _DELTA,
    "gated_deltanet": _DELTA,
    "deltaproduct": _DELTA._replace(uses=_DELTA.uses | {"num_householder"}),
    "mamba": Reads(frozenset({"eigenvalues", "state_size"}), {"state_size": 16}, "positive", sets_state="state_size"),
    "mamba2": Reads(
        frozenset({"num_attention_heads", "eigenvalues", "state_size"}),
        {"state_size": 128},
        "positive",
        sets_state="state_size",
    ),
    "path_attention": Reads(frozenset({"num_attention_heads", "eigenvalues"}), eigenvalues="signed"),
    "gru": Reads(),
    "lstm": Reads(),
    "rwkv7": Reads(frozenset({"num_attention_heads"})),
}
"""What the mixers of this package read."""
MIXERS: Registry[type[Mixer]] = Registry(
    "mixer",
    {
        f"{__name__}.attention": "attention",
        f"{__name__}.deltanet": "deltanet gated_deltanet deltaproduct",
        f"{__name__}.mamba": "mamba mamba2",
        f"{__name__}.path_attention": "path_attention",
        f"{__name__}.rnn": "gru lstm",
        f"{__name__}.rwkv7": "rwkv7",
    },
)


def reads_of(mixer: str) -> Reads:
    """Return what a mixer reads; those of plug-ins say it themselves."""
    return READS[mixer] if mixer in READS else MIXERS[mixer].reads
