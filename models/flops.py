"""Cost of a model: operations per token, and size of its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from remedy.models.mixers.base import Mixer
from remedy.models.protocol import CausalLM

PEAK_TFLOPS = {"H200": 989.0, "H100 PCIe": 756.0, "H100": 989.0, "A100": 312.0, "L40S": 362.0, "A10G": 70.0}
"""Dense bf16 peak of one device by a part of its name (the makers' data sheets); the first match counts."""


class Window(NamedTuple):
    """Layers whose attention sees at most `tokens` tokens, with operations and state of each token."""

    tokens: int
    flops: float
    state: float


class TokenCost(NamedTuple):
    """Operations of a token, products and sums counted separately, and a sequence's state.

    `flops_by_length` and `state_by_length` are added per token of the sequence, for full attention (Chowdhery et al., "PaLM", 2022,
    appendix B). `flops` and `state_floats` count `windows` as full.
    """

    flops: float
    flops_by_length: float
    state_floats: int
    state_by_length: int
    windows: tuple[Window, ...] = ()

    def at(self, length: float) -> tuple[float, float]:
        """Return a token's operations and the state, in a sequence of `length` tokens."""
        unfilled = [(max(0.0, window.tokens - length), window) for window in self.windows]
        return (
            self.flops + length * self.flops_by_length - sum(count * window.flops for count, window in unfilled),
            self.state_floats + length * self.state_by_length - sum(count * window.state for count, window in unfilled),
        )

    def of(self, lengths: Iterable[float]) -> float:
        """Sum the operations of separate sequences of these lengths."""
        return sum(length * self.at(length)[0] for length in lengths)

    def times(self, factor: float) -> TokenCost:
        windows = tuple(window._replace(flops=factor * window.flops) for window in self.windows)
        return self._replace(flops=factor * self.flops, flops_by_length=factor * self.flops_by_length, windows=windows)


def mixing_cost(modules: Iterable[nn.Module]) -> TokenCost:
    """Sum the mixers' cost, without products with weights."""
    mixers = [module for module in modules if isinstance(module, Mixer)]
    flops = [mixer.sequence_flops() for mixer in mixers]
    states = [mixer.state_floats() for mixer in mixers]
    return TokenCost(
        sum(fixed for fixed, _ in flops),
        sum(growing for _, growing in flops),
        sum(fixed for fixed, _ in states),
        sum(growing for _, growing in states),
        tuple(
            Window(mixer.window, operations / mixer.window, stored / mixer.window)
            for mixer, (operations, _), (stored, _) in zip(mixers, flops, states)
            if mixer.window is not None
        ),
    )


def weights_in_products(module: nn.Module) -> list[nn.Parameter]:
    """List the matrices that tokens are multiplied with, without mixers' decay rates."""
    return [
        parameter
        for part in module.modules()
        for name, parameter in part.named_parameters(recurse=False)
        if len(getattr(parameter, "ds_shape", parameter.shape)) >= 2
        and not (isinstance(part, Mixer) and name in part.undecayed)
    ]


def token_cost(model: CausalLM) -> TokenCost | None:
    """Return the cost of a forward pass; None for pretrained models of unknown state."""
    mixing = _mixing(model)
    if mixing is None:
        return None
    weights = sum(share * weight_count(parameter) for parameter, share in _products(model))
    return mixing._replace(flops=mixing.flops + 2.0 * weights)


def training_flops(model: CausalLM) -> TokenCost:
    """Estimate forward and backward operations, with the forward pass's state.

    6 per trained weight in a product, 4 per frozen one, and three times the forward pass's others.
    """
    weights = sum(
        share * weight_count(parameter) * (6.0 if parameter.requires_grad else 4.0)
        for parameter, share in _products(model)
    )
    mixing = (_mixing(model) or TokenCost(0.0, 0.0, 0, 0)).times(3.0)
    return mixing._replace(flops=mixing.flops + weights)


def device_peak(tflops: float | None = None) -> float | None:
    """Return the FLOP/s of a device: as given, or of a known GPU, else None."""
    if tflops is not None:
        return tflops * 1e12
    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name()
    return next((peak * 1e12 for part, peak in PEAK_TFLOPS.items() if part in name), None)


def _products(model: CausalLM) -> Iterator[tuple[nn.Parameter, float]]:
    """Yield weights of products, each with the share of tokens that use it."""
    output = model.get_output_embeddings()
    head = _base(output).weight if output is not None else None
    table = _base(model.get_input_embeddings()).weight
    module: Any = model
    experts, used = _experts(model)
    for parameter in {id(p): p for p in weights_in_products(module)}.values():
        if parameter is table and parameter is not head:
            continue
        shape = getattr(parameter, "ds_shape", parameter.shape)
        yield parameter, used / experts if len(shape) == 3 and shape[0] == experts else 1.0


def _base(layer: Any) -> Any:
    adapter = getattr(layer, "token_adapter", None)
    return layer if adapter is None else adapter.base_layer


def _experts(model: CausalLM) -> tuple[int, int]:
    """Count a layer's experts, stored as (experts, out, in), and those used per token."""
    config = model.config.get_text_config()
    counts = (getattr(config, name, None) for name in ("num_experts", "num_local_experts", "n_routed_experts"))
    experts = next((count for count in counts if count), 0)
    return experts, getattr(config, "num_experts_per_tok", None) or experts


def weight_count(parameter: nn.Parameter) -> int:
    """Count a parameter's weights, also if ZeRO-3 divides or 4 bits pack them."""
    packed = getattr(parameter, "quant_state", None)
    return int(getattr(parameter, "ds_numel", parameter.numel() if packed is None else packed.shape.numel()))


def _mixing(model: CausalLM) -> TokenCost | None:
    module: Any = model
    config = model.config
    if any(isinstance(part, Mixer) for part in module.modules()):
        return mixing_cost(module.modules())
    heads = getattr(config, "num_attention_heads", None)
    if not heads:
        return None
    window: int = getattr(config, "sliding_window", None) or 0
    kinds = getattr(config, "layer_types", None)
    if kinds is None:  # older architectures: all layers have the window, if any
        kinds = ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
    if not set(kinds) <= {"full_attention", "sliding_attention"}:
        return None
    windowed = kinds.count("sliding_attention") if window else 0
    full = len(kinds) - windowed
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    stored = 2 * head_dim * (getattr(config, "num_key_value_heads", None) or heads)
    scores = 4.0 * heads * head_dim
    window_tokens = windowed * window
    windows = (Window(window, windowed * scores, windowed * stored),) if windowed else ()
    return TokenCost(window_tokens * scores, full * scores, window_tokens * stored, full * stored, windows)
