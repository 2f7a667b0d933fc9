"""Mamba-3's recurrence, whose inputs are this token and the one before it, as linear attention with decay over both.

    h_t = a_t h_{t-1} + (1 - m_t) step_t a_t b_{t-1} u_{t-1}^T + m_t step_t b_t u_t^T,    y_t = c_t h_t

Lahoti et al., "Mamba-3", 2026 (arXiv 2603.15569), equations of the exponential-trapezoidal discretisation; b and c carry its rotations.
The two inputs are two sums with the same decays, so they are computed as twice the heads. (mamba-ssm's kernel adds the next token's
share to this one's and takes it off the diagonal, at half the cost; here no token's rounding depends on the next.)

Shapes as in `ssm_scan`: B is the batch, T time, H heads, P channels of a head, N the state's dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Draw, Kernel, Operation, kernel
from remedy.models.mixers.ssm_scan import decayed_attention

STEPS = 128


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
    """u (B, T, H, P), step, g = log a, mix (B, T, H), b, c (B, T, H, N); last_b (B, H, N) and last_u (B, H, P) of the token before the
    first, state (B, H, N, P). Returns y (B, T, H, P) and the last state.
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
