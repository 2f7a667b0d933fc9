"""RWKV-7's time mixing, and the generalised delta rule of its state.

    S_t = diag(w_t) S_{t-1} + b_t (a_t^T S_{t-1}) + k_t v_t^T,    o_t = S_t^T r_t

Peng et al., "RWKV-7 Goose with expressive dynamic state evolution", 2025 (arXiv 2503.14456); its wkv is S transposed. a = -kappa and b
= kappa * alpha, with a removal key kappa of length 1 and a learning rate alpha per channel. Chunks are solved as for the delta rule,
with a decay per key channel.

Letters: `r` receptance, `g` log of the decay w, `k` and `v` keys and values. Shapes: B batch, H heads, T time, K and V a head's key and
value channels, S a chunk's length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Operation, Use, compute
from remedy.models.mixers import MIXERS, READS
from remedy.models.mixers.base import Mixer, in_chunks

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

CHUNK = 32
"""Tokens in a chunk."""
LOWEST = -math.exp(-0.5)
"""Lowest log decay of a token, so that decays over half a chunk, by which `wkv_chunked` divides, are at least e^-10."""
WIDEST = 256
"""The widest keys and values of a head that flash-linear-attention's kernels take."""
STEPS = 128
SHIFTED = ("r", "w", "k", "v", "a", "g")
"""Inputs with token shift: receptance, decay, key, value, learning rate, gate."""


class LowRank(nn.Module):
    """A projection (..., D) -> (..., D) through few channels, starting as its bias.

    The rank is `scale` sqrt(D), rounded to a multiple of 32, at least 32.
    """

    def __init__(
        self, width: int, scale: float, activation: Callable[[Tensor], Tensor] | None, bias: bool = True
    ) -> None:
        super().__init__()
        rank = max(32, round(scale * width**0.5 / 32) * 32)
        self.activation = activation
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=bias)
        nn.init.zeros_(self.down.weight)
        nn.init.orthogonal_(self.up.weight, gain=0.1 * max(1.0, (rank / width) ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        low = self.down(x)
        return cast(Tensor, self.up(low if self.activation is None else self.activation(low)))


@MIXERS.register("rwkv7")
class RWKV7(Mixer):
    """RWKV-7 time mixing: token shift, low-rank gates, `wkv`, head norm and bonus.

    With kappa = k * k_k, normalised in each head, k (1 + k_a (a - 1)) is written and the content along kappa removed. w is in
    (exp(-e^-0.5), 1) = (0.545, 1) and a in (0, 1), so the transition diag(w) - kappa^T (a * kappa) has eigenvalues in (-0.455, 1): it
    is similar to diag(w) - z^T z with z = sqrt(a) * kappa. Ranks and initial values are the authors' (RWKV-LM, v7;
    `fla/layers/rwkv7.py`). The value residual is left out.
    """

    reads = READS["rwkv7"]
    undecayed = frozenset({*(f"shift_{name}" for name in SHIFTED), "k_k", "k_a", "r_k"})
    state_flops = 9.0  # removal, its addition, writing, output (2 each), decay

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.head_dim = width // self.heads
        self.r_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        wide = self.head_dim / 64
        self.w_lora = LowRank(width, 2.5 * wide, torch.tanh)
        self.a_lora = LowRank(width, 2.5 * wide, None)
        self.g_lora = LowRank(width, 5.0, torch.sigmoid, bias=False)
        self.out_norm = nn.GroupNorm(self.heads, width, eps=self.head_dim * config.rms_norm_eps)
        for name in SHIFTED:
            self.register_parameter(f"shift_{name}", nn.Parameter(torch.empty(width)))
        self.k_k, self.k_a = nn.Parameter(torch.empty(width)), nn.Parameter(torch.full((width,), 1.02))
        self.r_k = nn.Parameter(torch.full((self.heads, self.head_dim), -0.04))
        self._initialise(layer, config.num_hidden_layers)

    @torch.no_grad()
    def _initialise(self, layer: int, layers: int) -> None:
        width = len(self.k_k)
        channel = torch.arange(width)
        position = channel / (width - 1)
        zigzag = 2 * channel.remainder(self.head_dim) / (self.head_dim - 1) - 1
        zigzag = zigzag * zigzag.abs()
        for name, power in zip(SHIFTED, (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)):
            self.get_parameter(f"shift_{name}").copy_(1 - (channel / width) ** (power * (1 - layer / layers)))
        depth = layer / max(1, layers - 1)
        self.k_k.copy_(0.71 - 0.1 * (position - 0.5))
        self.w_lora.up.bias.copy_(-5.5 + 6 * position ** (1 + depth**0.3) + 2.5 * zigzag)
        self.a_lora.up.bias.copy_(-0.19 + 0.3 * zigzag + 0.4 * (position - 0.5))
        self.out_norm.weight.fill_(((layer + 1) / layers) ** 0.7)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        difference = self._previous(x, cache) - x
        shifted = {name: x + difference * getattr(self, f"shift_{name}") for name in SHIFTED}
        r, k, v = self.r_proj(shifted["r"]), self.k_proj(shifted["k"]), self.v_proj(shifted["v"])
        # In float32, since errors of decays are multiplied over the tokens.
        g = LOWEST * torch.sigmoid(self.w_lora(shifted["w"]).float())
        rate = torch.sigmoid(self.a_lora(shifted["a"]).float())
        removed = F.normalize(self._heads((k * self.k_k).float()), dim=-1)
        k = k * (1 + (rate - 1) * self.k_a).to(k.dtype)
        r, g, k, v, rate = (self._heads(part) for part in (r, g, k, v, rate))
        state = self.read_state(cache)
        y, state = compute("wkv", v.dtype, r, g, k, v, -removed, removed * rate, state)
        self.write_state(cache, state)
        y = self.out_norm(y.to(x.dtype).transpose(1, 2).flatten(0, 1).flatten(1)).view_as(x)
        r, k, v = (part.transpose(1, 2) for part in (r, k, v))
        bonus = (r * self.r_k * k).sum(-1, keepdim=True)
        y = y + (bonus * v).flatten(2)
        return self.out_proj(y * self.g_lora(shifted["g"]))

    def initialised(self) -> list[nn.Module]:
        return [part for lora in (self.w_lora, self.a_lora, self.g_lora) for part in (lora.down, lora.up)]

    def operations(self) -> list[Use]:
        return [("wkv", (self.head_dim, self.head_dim))]

    def state_floats(self) -> tuple[int, int]:
        return self.heads * self.head_dim**2, 0

    def _previous(self, x: Tensor, cache: MixerCache | None) -> Tensor:
        if cache is None:
            return F.pad(x, (0, 0, 1, -1))
        window = cache.update_conv_state(x.transpose(1, 2), self.layer, conv_kernel_size=1)
        return F.pad(window, (1, -1))[..., -x.shape[1] :].transpose(1, 2)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)


def wkv_recurrent(
    r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence; returns outputs (B, H, T, V) and the final state.

    r, g, k, a, b (B, H, T, K), v (B, H, T, V), state (B, H, K, V).
    """
    if state is None:
        state = v.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    outputs = []
    for t in range(k.shape[2]):
        removed = (a[:, :, t, :, None] * state).sum(-2, keepdim=True)
        written = b[:, :, t, :, None] * removed + k[:, :, t, :, None] * v[:, :, t, None, :]
        state = g[:, :, t, :, None].exp() * state + written
        outputs.append((r[:, :, t, :, None] * state).sum(-2))
    return torch.stack(outputs, dim=2), state


def wkv_chunked(
    r: Tensor,
    g: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    state: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Compute `wkv_recurrent` in parallel inside chunks; g is in [`LOWEST`, 0].

    With c_t the decay since the chunk's start, the removed u_t = S_{t-1}^T a_t satisfies (I - tril(A B^T, -1)) u = tril(A K^T, -1) V +
    (a_t c_{t-1})^T S_0, where A has rows a_t c_{t-1}, B rows b_s / c_s and K rows k_s / c_s. Decays count from the chunk's middle, to
    stay within float32.
    """
    steps = k.shape[2]
    # (B, H, chunks, S, K or V), padded: no decay, nothing removed or written.
    r, g, k, v, a, b = in_chunks(chunk, 2, r, g, k, v, a, b)
    size = k.shape[3]

    total = g.cumsum(-2)
    last = total[..., -1:, :]
    middle = total[..., size // 2, None, :].detach()  # it cancels in the result
    decay_to, decay_from = (total - middle).exp(), (middle - total).exp()
    causal = torch.ones(size, size, dtype=k.dtype, device=k.device).tril()
    readers = torch.cat([a * (total - g - middle).exp(), r * decay_to], -2)
    products = readers @ torch.cat([b * decay_from, k * decay_from], -2).transpose(-1, -2)
    (removed_of_b, removed_of_k), (read_of_b, read_of_k) = (
        (part * mask).chunk(2, dim=-1)
        for part, mask in zip(products.chunk(2, dim=-2), (causal.tril(-1).repeat(1, 2), causal.repeat(1, 2)))
    )
    from_start = torch.cat([removed_of_k @ v, a * (total - g).exp()], -1)
    solved = torch.linalg.solve_triangular(-removed_of_b, from_start, upper=False, unitriangular=True)
    u, of_state = solved.split([v.shape[-1], k.shape[-1]], dim=-1)  # removed: u + of_state S_0
    own_outputs = read_of_k @ v
    to_end = (torch.cat([b, k], -2) * (last - total).exp().repeat(1, 1, 1, 2, 1)).transpose(-1, -2)

    if state is None:
        state = v.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    outputs = []
    # Unbound at once: an index's backward pass would fill a tensor of the whole sequence for every chunk.
    parts = (r * total.exp(), read_of_b, own_outputs, u, of_state, to_end, v, last.exp().transpose(-1, -2))
    for query, of_b, output, removed, by_state, ends, values, decay in zip(*(x.unbind(2) for x in parts)):
        removed = removed + by_state @ state
        outputs.append(query @ state + of_b @ removed + output)
        state = decay * state + ends @ torch.cat([removed, values], -2)
    return torch.cat(outputs, dim=2)[:, :, :steps], state


def _reference(
    r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    return (wkv_recurrent if k.shape[2] == 1 else wkv_chunked)(r, g, k, v, a, b, state)


def _chunk(r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Any) -> Any:
    from fla.ops.rwkv7 import chunk_rwkv7

    parts = [x.to(v.dtype).transpose(1, 2).contiguous() for x in (r, k, v, a, b)]
    decay = g.float().transpose(1, 2).contiguous()
    options = {"scale": 1.0, "initial_state": state, "output_final_state": True, "lower_bound": LOWEST}
    y, last = chunk_rwkv7(parts[0], decay, *parts[1:], **options)
    return y.transpose(1, 2), last


def _fits(r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor | None) -> bool:
    return k.shape[2] > 1 and max(k.shape[-1], v.shape[-1]) <= WIDEST


def _example(dtype: torch.dtype, keys: int, values: int) -> tuple[Any, ...]:
    removed = F.normalize(torch.randn(1, 2, STEPS, keys), dim=-1)
    g, rate = LOWEST * torch.rand(1, 2, STEPS, keys), torch.rand(1, 2, STEPS, keys)
    r, k = (torch.randn(1, 2, STEPS, keys, dtype=dtype) for _ in range(2))
    return r, g, k, torch.randn(1, 2, STEPS, values, dtype=dtype), -removed, removed * rate, None


OPERATIONS["wkv"] = Operation(
    reference=_reference,
    widths=lambda r, g, k, v, a, b, state: (k.shape[-1], v.shape[-1]),
    example=_example,
    kernel=_chunk,
    takes=_fits,
)
