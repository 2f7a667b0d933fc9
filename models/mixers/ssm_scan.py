"""Scans of state-space mixers: h_t = a_t h_{t-1} + step_t b_t u_t^T.

The output is y_t = c_t h_t. The transition a_t is exp(step_t A), in (0, 1), or with `signed` 2 exp(step_t A) - 1, in (-1, 1). Letters:
`u` inputs, `step` step sizes (Delta), `a` rates A (negative), `b` and `c` input and output maps, `h` the state. Shapes: B batch, T
time, D channels, H heads, P channels of a head, N state dimension, S a chunk's length.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from remedy.models.kernels import OPERATIONS, Operation, compute
from remedy.models.mixers.base import in_chunks

CHUNK = 64
ELEMENTS = 1 << 26
"""Numbers of a state over all tokens in one call of the elementwise scan: 256 MiB per tensor."""
STEPS = 128
SMALLEST = 1e-6
"""Smallest size of a signed transition, whose logarithm is taken."""


class _SelectiveScan(torch.autograd.Function):
    """A scan token by token, with its own backward pass.

    Automatic differentiation keeps six tensors per token, and is twenty times slower on a CPU.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, h: Tensor) -> Any:
        """Scan over time; returns y and the last h.

        u, step (T, B, D); a (D, N) or (B, D, N); b, c (T, B, N); h (B, D, N).
        """
        states = u.new_empty(u.shape[0], *h.shape)
        weighted, first = step * u, h
        for t in range(u.shape[0]):
            transition = torch.exp(step[t, :, :, None] * a)
            if signed:
                transition.mul_(2).sub_(1)
            h = torch.addcmul(weighted[t, :, :, None] * b[t, :, None, :], transition, h, out=states[t])
        ctx.save_for_backward(u, step, a, b, c, states, first)
        ctx.signed = signed
        return (states @ c[..., None]).squeeze(-1), h.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        u, step, a, b, c, states, first = ctx.saved_tensors
        grad_y, grad_h = grads[0], grads[1].clone()
        weighted = step * u
        grad_c = (grad_y[:, :, None, :] @ states).squeeze(2)
        grad_weighted, grad_step = torch.empty_like(u), torch.empty_like(u)
        grad_a, grad_b = torch.zeros_like(a), torch.empty_like(b)
        for t in reversed(range(u.shape[0])):
            decay = torch.exp(step[t, :, :, None] * a)
            grad_h = torch.addcmul(grad_h, grad_y[t, :, :, None], c[t, :, None, :])
            grad_weighted[t] = (grad_h @ b[t, :, :, None]).squeeze(-1)
            grad_b[t] = (weighted[t, :, None, :] @ grad_h).squeeze(1)
            before = states[t - 1] if t else first
            exponent = grad_h * before * decay  # gradient of step * a, without the signed form's factor 2
            grad_step[t] = (exponent * a).sum(-1)
            grad_a += (exponent * step[t, :, :, None]).sum_to_size(a.shape)
            grad_h = grad_h * (2 * decay - 1 if ctx.signed else decay)
        factor = 2.0 if ctx.signed else 1.0
        grad_step = factor * grad_step + grad_weighted * u
        return grad_weighted * step, grad_step, factor * grad_a, grad_b, grad_c, None, grad_h


def selective_scan(
    u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute Mamba's scan by a kernel or in PyTorch.

    u, step (B, T, D), a (D, N) or (B, 1, D, N), b, c (B, T, N), state (B, D, N). Returns y (B, T, D) and the last state.
    """
    if u.shape[1] > 1:
        result: tuple[Tensor, Tensor] = compute("selective_scan", u.dtype, u, step, a, b, c, signed, state)
        return result
    u, step, b, c = (x[:, 0].float() for x in (u, step, b, c))
    decay = torch.exp(step[..., None] * _rates(a))
    added = (step * u)[..., None] * b[:, None, :]
    state = added if state is None else (2 * decay - 1 if signed else decay) * state + added
    return (state @ c[..., None]).transpose(1, 2), state


def scan_by_token(
    u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute `selective_scan` in PyTorch, in the precision of the inputs."""
    by_time = [x.transpose(0, 1).contiguous() for x in (u, step, b, c)]
    state = u.new_zeros(u.shape[0], *a.shape[-2:]) if state is None else state
    y, last = _SelectiveScan.apply(by_time[0], by_time[1], _rates(a), by_time[2], by_time[3], signed, state)
    return y.transpose(0, 1), last


def _rates(a: Tensor) -> Tensor:
    return a if a.ndim == 2 else a.squeeze(1)


def log_transition(exponent: Tensor, signed: bool) -> tuple[Tensor, Tensor | None]:
    """Return a transition's log size and its sign (None: positive), from step times rate."""
    if not signed:
        return exponent, None
    transition = 2 * torch.exp(exponent) - 1
    sign = torch.where(transition < 0, -1.0, 1.0).to(transition.dtype)
    return transition.abs().clamp(min=SMALLEST).log(), sign


def chunked_duality(
    u: Tensor,
    step: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    signed: bool,
    state: Tensor | None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Compute Mamba-2's scan in PyTorch, in the precision of the inputs.

    u (B, T, H, P), step (B, T, H), a (H,) or (B, 1, H), b, c (B, T, N), state (B, H, N, P). Returns y (B, T, H, P) and the last state.
    Inside a chunk y = ((c b^T) * D) (step u), where D_ts is the product of the transitions from s + 1 to t (Dao & Gu, 2024, section 6).
    """
    steps = u.shape[1]
    g, sign = log_transition(step * a, signed)
    q, k, v = c[:, :, None], b[:, :, None], step[..., None] * u
    q, k, v, g, sign = in_chunks(chunk, 1, q, k, v, g, sign)  # padded: no input, no decay
    q, k, v = (x.permute(0, 3, 1, 2, 4) for x in (q, k, v))  # (B, H, chunks, S, N or P)
    total, size = g.permute(0, 3, 1, 2).cumsum(-1), v.shape[3]
    between = (total[..., :, None] - total[..., None, :]).clamp(max=0).exp()
    between = between * torch.ones(size, size, device=v.device).tril()
    from_start, to_end = total.exp(), (total[..., -1:] - total).exp()
    if sign is not None:
        signs = sign.where(sign != 0, 1.0).permute(0, 3, 1, 2).cumprod(-1)  # 1 on padding
        between = between * (signs[..., :, None] * signs[..., None, :])
        from_start, to_end = from_start * signs, to_end * (signs[..., -1:] * signs)
    within = ((q @ k.transpose(-1, -2)) * between) @ v
    chunk_states = (k * to_end[..., None]).transpose(-1, -2) @ v  # (B, H, chunks, N, P)
    if state is None:
        state = torch.zeros_like(chunk_states[:, :, 0])
    before = []
    for decay, added in zip(from_start[..., -1, None, None].unbind(2), chunk_states.unbind(2)):
        before.append(state)
        state = decay * state + added
    y = within + (q * from_start[..., None]) @ torch.stack(before, dim=2)
    return y.flatten(2, 3)[:, :, :steps].transpose(1, 2), state


# Kernels have no negative transitions. With s_t the product of the signs up to t, s_t h_t has the transition |a_t| and the input
# s_t x_t, and outputs are multiplied by s_t again.


def _elementwise(
    u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Any
) -> tuple[Tensor, Tensor]:
    """Scan every number of the state on its own, h_t = a_t h_{t-1} + x_t.

    To save memory, groups of channels are recomputed in the backward pass.
    """
    from fla.ops.hgrn import fused_recurrent_hgrn

    u, step, b, c = (x.float() for x in (u, step, b, c))
    channels = max(1, min(u.shape[-1], ELEMENTS // (u.shape[0] * u.shape[1] * a.shape[-1])))
    states = [None] * u.shape[-1] if state is None else state.split(channels, dim=1)

    def scan(u: Tensor, step: Tensor, a: Tensor, state: Tensor | None, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        exponent, sign = log_transition(step[..., None] * a, signed)
        added = (step * u)[..., None] * b[:, :, None, :]
        start = state.flatten(1).contiguous() if state is not None else None
        signs = sign.cumprod(1) if sign is not None else torch.ones((), device=u.device)
        h, _ = fused_recurrent_hgrn((signs * added).flatten(2), exponent.flatten(2), start, output_final_state=False)
        h = signs * h.unflatten(2, a.shape[-2:])
        return (h @ c[:, :, :, None]).squeeze(-1), h[:, -1]

    groups = zip(u.split(channels, -1), step.split(channels, -1), a.split(channels, -2), states)
    with torch.autocast(u.device.type, enabled=False):
        parts = [checkpoint(scan, *group, b, c, use_reentrant=False, preserve_rng_state=False) for group in groups]
    return torch.cat([y for y, _ in parts], -1), torch.cat([last for _, last in parts], 1)


def _simple_attention(
    u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Any
) -> tuple[Tensor, Tensor]:
    """Compute linear attention with queries c, keys b, values step times u."""
    from fla.ops.simple_gla import chunk_simple_gla

    exponent, sign = log_transition(step * a, signed)
    values, signs = step[..., None] * u, None
    if sign is not None:
        signs = sign.cumprod(1)
        values = signs[..., None] * values
    keys, queries = (x[:, :, None].expand(-1, -1, u.shape[2], -1).to(u.dtype).contiguous() for x in (b, c))
    options = {"scale": 1.0, "initial_state": state, "output_final_state": True}
    y, last = chunk_simple_gla(queries, keys, values.to(u.dtype).contiguous(), exponent.float().contiguous(), **options)
    return (y, last) if signs is None else (signs[..., None] * y, signs[:, -1, :, None, None] * last)


def _is_sequence(u: Tensor, *rest: Any) -> bool:
    return u.shape[1] > 1


def _example(dtype: torch.dtype, shape: tuple[int, ...], rates: Tensor, size: int, signed: int) -> tuple[Any, ...]:
    """Draw inputs whose steps make some signed transitions negative."""
    step = F.softplus(2 * torch.randn(1, STEPS, shape[0]) - 2)
    u, b, c = (torch.randn(1, STEPS, *widths, dtype=dtype) for widths in (shape, (size,), (size,)))
    return u, step, -rates, b, c, bool(signed), None


OPERATIONS["selective_scan"] = Operation(
    reference=scan_by_token,
    widths=lambda u, step, a, b, c, signed, state: (*a.shape[-2:], int(signed)),
    example=lambda dtype, channels, size, signed: _example(
        dtype, (channels,), torch.arange(1.0, size + 1).repeat(channels, 1), size, signed
    ),
    kernel=_elementwise,
    takes=_is_sequence,
)
OPERATIONS["state_space_duality"] = Operation(
    reference=chunked_duality,
    widths=lambda u, step, a, b, c, signed, state: (*u.shape[2:], b.shape[-1], int(signed)),
    example=lambda dtype, heads, channels, size, signed: _example(
        dtype, (heads, channels), torch.arange(1.0, heads + 1), size, signed
    ),
    kernel=_simple_attention,
    takes=_is_sequence,
)
