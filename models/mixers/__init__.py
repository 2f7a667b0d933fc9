"""Sequence mixers: modules `(x: (B, T, D), cache) -> (B, T, D)` that let a token see those before it.

Without a cache a mixer runs in its parallel form over the whole sequence; with one it starts from, and leaves behind, its
state in the cache's layer, and reads one token at a time after the first call. To add a mixer, write a module with this
signature in a file of its own and register its constructor here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers.attention import Attention
from remedy.models.mixers.deltanet import DeltaNet
from remedy.models.mixers.mamba import Mamba, Mamba2
from remedy.models.mixers.rnn import GRU, LSTM

MIXERS: dict[str, Callable[[DecoderConfig, int], nn.Module]] = {
    "attention": Attention,
    "mamba": Mamba,
    "mamba2": Mamba2,
    "deltanet": DeltaNet,
    "gated_deltanet": partial(DeltaNet, gated=True),
    "deltaproduct": lambda config, layer: DeltaNet(config, layer, num_householder=config.num_householder),
    "gru": GRU,
    "lstm": LSTM,
}


def build_mixer(config: DecoderConfig, layer: int) -> nn.Module:
    """The mixer of one layer.

    Raises:
        ValueError: the configuration names a mixer that is not registered.
    """
    name = config.layer_mixers[layer]
    if name not in MIXERS:
        raise ValueError(f"layer {layer}: unknown mixer {name!r}; registered: {', '.join(MIXERS)}")
    return MIXERS[name](config, layer)
