"""Mamba-3: a state-space mixer whose state rotates as it decays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Draw, Kernel, Operation, Use, kernel
from remedy.models.mixers.base import MIXERS, Mixer
from remedy.models.mixers.mamba import EXPAND, step_bias
from remedy.models.mixers.ssm_scan import decayed_attention

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

SLOWEST = 1e-4
"""The least rate of decay."""
STEPS = 128


@MIXERS.register("mamba3")
class Mamba3(Mixer):
    """The layer of one input and one output (SISO) of Lahoti et al., "Mamba-3", 2026 (arXiv 2603.15569), as in mamba-ssm 2.3.2
    (`mamba_ssm/modules/mamba3.py`), with its defaults.

        h_t = a_t R_t h_{t-1} + (1 - m_t) step_t a_t R_t b_{t-1} u_{t-1}^T + m_t step_t b_t u_t^T,    y_t = c_t h_t

    a_t = exp(step_t A_t) is the decay of a head, R_t turns half of the state's channels, in pairs, by -step_t pi tanh(angle_t), as
    complex eigenvalues do, and m_t mixes the ends of a step (exponential-trapezoidal discretisation); all three depend on the input.
    b and c are normalised and have a bias for each head. As in the paper rotations are counted from the start and applied to b and c
    (`trapezoid`). There is no short convolution and no norm of the output. A state of one number cannot turn.
    """

    uses = frozenset({"num_attention_heads", "state_size"})
    published = {"state_size": 128}
    undecayed = frozenset({"D", "B_bias", "C_bias"})
    sets_state = "state_size"

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width, inner, size = config.hidden_size, EXPAND * config.hidden_size, self.setting(config, "state_size")
        self.heads = EXPAND * config.num_attention_heads
        self.head_dim = inner // self.heads
        self.size = size
        self.angles = min(max(1, size // 4), size // 2)
        self.sizes = [inner, inner, size, size, self.heads, self.heads, self.heads, self.angles]
        self.in_proj = nn.Linear(width, sum(self.sizes), bias=False)
        self.dt_bias = nn.Parameter(step_bias(self.heads))
        self.b_norm = nn.RMSNorm(size, eps=config.rms_norm_eps)
        self.c_norm = nn.RMSNorm(size, eps=config.rms_norm_eps)
        self.B_bias = nn.Parameter(torch.ones(self.heads, size))
        self.C_bias = nn.Parameter(torch.ones(self.heads, size))
        self.D = nn.Parameter(torch.ones(self.heads))
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        gate, u, b, c, step, rate, mix, angle = self.in_proj(x).split(self.sizes, dim=-1)
        u = u.unflatten(-1, (self.heads, -1))
        step = F.softplus(step.float() + self.dt_bias)
        g = -F.softplus(rate.float()).clamp(min=SLOWEST) * step
        state, turned, last_b, last_u = self._parts(self.read_state(cache), u)
        # Counted in float64: a sum over thousands of tokens would lose the digits of an angle.
        turns = (math.pi * torch.tanh(angle.float())[:, :, None] * step[..., None]).double().cumsum(1)
        turns = (turned[:, None] + turns).remainder(2 * math.pi).float()
        # Normalised in the weights' precision: autocast leaves those in float32.
        b, c = (norm(part.to(norm.weight.dtype)) for norm, part in ((self.b_norm, b), (self.c_norm, c)))
        b = turn(b.float()[:, :, None] + self.B_bias, turns)
        c = turn(c.float()[:, :, None] + self.C_bias, turns)
        y, state = trapezoidal(u, step, g, torch.sigmoid(mix.float()), b, c, last_b, last_u, state)
        left = (state, turns[:, -1], b[:, -1], u[:, -1].float())
        self.write_state(cache, torch.cat([part.flatten(1) for part in left], 1))
        y = (y + self.D[..., None] * u).flatten(2).to(x.dtype)
        return self.out_proj(y * F.silu(gate))

    def operations(self) -> list[Use]:
        return [Use("decayed_attention", (2 * self.heads, self.head_dim, self.size))]

    def state_floats(self) -> tuple[int, int]:
        """The state, its angles, and the last token's b and u."""
        return sum(math.prod(shape) for shape in self._shapes()), 0

    def sequence_flops(self) -> tuple[float, float]:
        """For each number of the state: a decay, two inputs (2 each), an output (2)."""
        return 7.0 * self.heads * self.head_dim * self.size, 0.0

    def _shapes(self) -> list[tuple[int, ...]]:
        """List the shapes of the parts of a token's state."""
        sizes = [(self.size, self.head_dim), (self.angles,), (self.size,), (self.head_dim,)]
        return [(self.heads, *size) for size in sizes]

    def _parts(self, stored: Tensor | None, u: Tensor) -> tuple[Tensor, ...]:
        shapes = self._shapes()
        if stored is None:
            return tuple(torch.zeros(len(u), *shape, dtype=torch.float32, device=u.device) for shape in shapes)
        parts = stored.split([math.prod(shape) for shape in shapes], dim=1)
        return tuple(part.unflatten(1, shape) for part, shape in zip(parts, shapes))


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """x (..., N) with its first pairs of neighbours turned by `angles` (..., n), in radians."""
    pairs = x[..., : 2 * angles.shape[-1]].unflatten(-1, (-1, 2))
    one, two = pairs.unbind(-1)
    cos, sin = angles.cos(), angles.sin()
    turned = torch.stack([one * cos - two * sin, one * sin + two * cos], -1).flatten(-2)
    return torch.cat([turned, x[..., 2 * angles.shape[-1] :]], -1)


def trapezoidal(
    u: Tensor,
    step: Tensor,
    g: Tensor,
    mix: Tensor,
    b: Tensor,
    c: Tensor,
    last_b: Tensor,
    last_u: Tensor,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """Mamba-3's recurrence over the inputs of this token and of the one before it: two sums with the same decays, as twice the heads.

    (mamba-ssm's kernel adds the next token's share to this one's and takes it off the diagonal, at half the cost; here no token's
    rounding depends on the next.) u (B, T, H, P), step, g = log a, mix (B, T, H), b, c (B, T, H, N); last_b (B, H, N) and last_u
    (B, H, P) of the token before the first, state (B, H, N, P). Returns y (B, T, H, P) and the last state.
    """
    b_before = torch.cat([last_b[:, None], b[:, :-1]], 1)
    u_before = torch.cat([last_u[:, None].to(u.dtype), u[:, :-1]], 1)
    now, before = mix * step, (1 - mix) * step * g.exp()
    values = torch.cat([now[..., None] * u, before[..., None] * u_before], 2).to(u.dtype)
    keys, queries, decays = torch.cat([b, b_before], 2), torch.cat([c, c], 2), torch.cat([g, g], 2)
    start = torch.cat([state, torch.zeros_like(state)], 1)
    fast = kernel("decayed_attention", u.dtype, queries, keys, values, decays, start)
    if fast is not None:
        y, last = fast(queries, keys, values, decays, start)
    else:
        with torch.autocast(u.device.type, enabled=False):
            y, last = decayed_attention(queries.float(), keys.float(), values.float(), decays, start)
    return sum_of_halves(y, 2), sum_of_halves(last, 1)


def sum_of_halves(x: Tensor, dim: int) -> Tensor:
    """The first half along a dimension plus the second."""
    one, two = x.chunk(2, dim)
    return one + two


def _simple(function: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Any) -> Any:
    q, k, v = (x.to(v.dtype).contiguous() for x in (q, k, v))
    return function(q, k, v, g.float().contiguous(), scale=1.0, initial_state=state, output_final_state=True)


def _whole(q: Tensor, *rest: Any) -> bool:
    return q.shape[1] > 1


def _example(draw: Draw, heads: int, channels: int, size: int) -> tuple[Any, ...]:
    g = -F.softplus(2 * draw.normal(1, STEPS, heads, dtype=torch.float32) - 2)
    q, k = draw.normal(1, STEPS, heads, size), draw.normal(1, STEPS, heads, size)
    return q, k, draw.normal(1, STEPS, heads, channels), g, draw.normal(1, heads, size, channels, dtype=torch.float32)


OPERATIONS["decayed_attention"] = Operation(
    reference=decayed_attention,
    widths=lambda q, k, v, g, state: (*v.shape[2:], k.shape[-1]),
    example=_example,
    kernels=(Kernel("fla.ops.simple_gla.chunk_simple_gla", _simple, _whole),),
)
