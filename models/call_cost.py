"""What reading costs beside the tokens that are read, counted in tokens: by a model's size and the kind of its device.

Nothing is timed, so that two evaluations make the same calls wherever they run.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from remedy.models.protocol import CausalLM

OVERHEAD = {"cpu": (12.0, 3e6), "cuda": (250.0, 2e10)}
"""Tokens that are computed while weights are fetched, and, over the weights of a layer, while its modules are called.

One core: measured, from 60 for layers of 60,000 weights to 15 for SmolLM2-135M. A GPU does some 300 operations for every byte that it
fetches (H100 in bf16: 989 TFLOPS, 3.35 TB/s), and a weight has two bytes and takes two operations a token.
"""
BOOKKEEPING = {"cpu": 7.5e5, "cuda": 1e10}
"""Weights that a device multiplies a token with in the 0.05 ms in which Python handles a row of a call: at 30 and at 400,000 GFLOPS."""


class Pace(NamedTuple):
    """How many tokens could be read in the time that a call takes beside them, and each of its rows."""

    overhead: float
    bookkeeping: float


def pace(model: CausalLM, device: torch.device) -> Pace:
    """The pace of a model on a device; accelerators that are not listed count as CUDA's."""
    kind = device.type if device.type in OVERHEAD else "cuda"
    layers = getattr(model.config, "num_hidden_layers", None) or 1
    weights = sum(parameter.numel() for parameter in model.parameters())
    fetched, called = OVERHEAD[kind]
    return Pace(fetched + called * layers / weights, BOOKKEEPING[kind] / weights)
