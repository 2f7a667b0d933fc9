"""Floating-point operations of training, for MFU."""

from __future__ import annotations

from typing import Any

import torch

from remedy.models.mixers import MIXERS
from remedy.models.protocol import CausalLM

PEAK_TFLOPS = {"H200": 989.0, "H100 PCIe": 756.0, "H100": 989.0, "A100": 312.0, "L40S": 362.0, "A10G": 70.0}
"""Dense bf16 peak of one device by a part of its name (the makers' data sheets); the first that fits counts."""


def training_flops(model: CausalLM) -> tuple[float, float]:
    """Operations of forward and backward per token, and per token and token of length: 6 for every trained weight in a product
    and 4 for every frozen one; 12 * layers * width for attention's scores (Chowdhery et al., "PaLM", 2022, appendix B)."""
    total = 0.0
    tables = {id(model.get_input_embeddings().weight)} - {id(_output_weight(model))}
    for parameter in model.parameters():
        if id(parameter) not in tables and parameter.ndim >= 2:
            count = getattr(parameter, "ds_numel", parameter.numel())  # under ZeRO-3 a process holds a part
            total += count * (6.0 if parameter.requires_grad else 4.0)
    config = model.config
    mixers = getattr(config, "layer_mixers", None)
    layers = sum(MIXERS[mixer].quadratic for mixer in mixers) if mixers else config.num_hidden_layers
    return total, 12.0 * layers * config.hidden_size


def device_peak(tflops: float | None = None) -> float | None:
    """FLOP/s of one device: as given, else of a GPU that is known; none on others."""
    if tflops is not None:
        return tflops * 1e12
    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name()
    return next((peak * 1e12 for part, peak in PEAK_TFLOPS.items() if part in name), None)


def _output_weight(model: CausalLM) -> Any:
    output = model.get_output_embeddings()
    return output.weight if output is not None else None
