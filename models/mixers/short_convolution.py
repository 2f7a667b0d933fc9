"""A short causal depthwise convolution with a cached window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Operation, Use, kernel

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache

Activation = Literal["silu"] | None


class ShortConvolution(nn.Module):
    """A depthwise convolution (B, T, C) over the last `kernel` tokens, then `activation`."""

    def __init__(self, channels: int, layer: int, kernel: int = 4, activation: Activation = "silu") -> None:
        super().__init__()
        self.activation: Activation = activation
        self.layer = layer
        self.kernel = kernel
        self.conv1d = nn.Conv1d(channels, channels, kernel, groups=channels)

    def forward(self, x: Tensor, cache: MixerCache | None) -> Tensor:
        weight, bias = self.conv1d.weight.squeeze(1), self.conv1d.bias
        assert bias is not None
        if cache is None:
            fast = kernel("short_convolution", x.dtype, x, weight, bias, self.activation)
            return (fast or _reference)(x, weight, bias, self.activation)
        window = cache.update_conv_state(x.transpose(1, 2), self.layer, conv_kernel_size=self.kernel).transpose(1, 2)
        missing = x.shape[1] + self.kernel - 1 - window.shape[1]
        window = F.pad(window, (0, 0, missing, 0)) if missing > 0 else window[:, -missing:]
        return _convolved(window, weight, bias, self.activation)

    def operations(self) -> list[Use]:
        return [("short_convolution", (self.conv1d.out_channels, self.kernel, int(self.activation is not None)))]


def _reference(x: Tensor, weight: Tensor, bias: Tensor, activation: Activation) -> Tensor:
    return _convolved(F.pad(x, (0, 0, weight.shape[1] - 1, 0)), weight, bias, activation)


def _convolved(window: Tensor, weight: Tensor, bias: Tensor, activation: Activation) -> Tensor:
    """Convolve T tokens after earlier ones, (B, kernel - 1 + T, C)."""
    steps = window.shape[1] - weight.shape[1] + 1
    if window.device.type == "cpu":  # a product per offset is faster there
        mixed = bias
        for offset, by_channel in enumerate(weight.unbind(1)):
            mixed = torch.addcmul(mixed, window[:, offset : offset + steps], by_channel)
        mixed = mixed.to(window.dtype)  # under autocast, float32 weights made it float32
    else:
        mixed = F.conv1d(window.transpose(1, 2), weight[:, None], bias, groups=len(weight)).transpose(1, 2)
    return F.silu(mixed) if activation == "silu" else mixed


def _fast(x: Tensor, weight: Tensor, bias: Tensor, activation: Activation) -> Tensor:
    from fla.modules.causal_conv1d import causal_conv1d

    y: Tensor = causal_conv1d(x.contiguous(), weight.to(x.dtype), bias.to(x.dtype), activation=activation)[0]
    return y


def _is_sequence(x: Tensor, weight: Tensor, bias: Tensor, activation: Activation) -> bool:
    return x.shape[1] > 1


def _example(dtype: torch.dtype, channels: int, kernel: int, activated: int) -> tuple[Any, ...]:
    # The input is part of a projection, as in the state-space mixers.
    x = torch.randn(1, 128, channels + 4, dtype=dtype)[..., :channels]
    weight, bias = torch.randn(channels, kernel, dtype=dtype), torch.randn(channels, dtype=dtype)
    return x, weight, bias, "silu" if activated else None


OPERATIONS["short_convolution"] = Operation(
    reference=_reference,
    widths=lambda x, weight, bias, activation: (*weight.shape, int(activation is not None)),
    example=_example,
    kernel=_fast,
    takes=_is_sequence,
)
