"""A short causal depthwise convolution with a cached window, as delta-rule and state-space mixers use before their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import kernel

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache


class ShortConvolution(nn.Module):
    """A depthwise convolution over the last `kernel` tokens, and SiLU of it unless `activation` is None; shapes (B, T, C)."""

    def __init__(self, channels: int, layer: int, kernel: int = 4, activation: Literal["silu"] | None = "silu") -> None:
        super().__init__()
        self.activation = activation
        self.layer = layer
        self.kernel = kernel
        self.conv1d = nn.Conv1d(channels, channels, kernel, groups=channels)

    def forward(self, x: Tensor, cache: MixerCache | None) -> Tensor:
        x = x.transpose(1, 2)
        if cache is None:
            fast = kernel("causal_conv1d", x)
            if fast is not None:
                weight, bias = self.conv1d.weight.squeeze(1).to(x.dtype), self.conv1d.bias
                y: Tensor = fast(x, weight, bias.to(x.dtype) if bias is not None else None, activation=self.activation)
                return y.transpose(1, 2)
            window = F.pad(x, (self.kernel - 1, 0))
        else:
            window = cache.update_conv_state(x, self.layer, conv_kernel_size=self.kernel)
            missing = x.shape[-1] + self.kernel - 1 - window.shape[-1]
            window = F.pad(window, (missing, 0)) if missing > 0 else window[..., -missing:]
        mixed = self.conv1d(window)
        return (F.silu(mixed) if self.activation == "silu" else mixed).transpose(1, 2)
