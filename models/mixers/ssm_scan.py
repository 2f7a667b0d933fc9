"""The recurrences of state-space mixers, h_t = a_t h_{t-1} + step_t b_t u_t^T and y_t = c_t h_t, in forms fit for training.

The transition a_t is exp(step_t A), in (0, 1), or with `signed` 2 exp(step_t A) - 1, in (-1, 1). Letters are the papers': `u` the
inputs, `step` their step sizes (Delta), `a` the rates A (negative), `b` and `c` the input and output maps, `h` the state. In
shapes B is the batch, T time, D channels, H heads, P channels of a head, N the state's dimension, S a chunk's length.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from remedy.models.kernels import kernel
from remedy.models.mixers.chunk_length import chunk_length

CHUNK = 64
SMALLEST = 1e-6
"""A transition nearer to zero than this counts as this: its logarithm is taken."""


class _SelectiveScan(torch.autograd.Function):
    """Token by token over time, all else in parallel, with a backward pass of its own: automatic differentiation would keep
    half a dozen tensors a token, and takes twenty times as long on a CPU."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, h: Tensor) -> Any:
        """u, step (T, B, D); a (D, N) or (B, D, N); b, c (T, B, N); h (B, D, N). Returns y (T, B, D) and the last state."""
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
            exponent = grad_h * before * decay  # gradient of step * a, but for the 2 of the signed form
            grad_step[t] = (exponent * a).sum(-1)
            grad_a += (exponent * step[t, :, :, None]).sum_to_size(a.shape)
            grad_h = grad_h * (2 * decay - 1 if ctx.signed else decay)
        factor = 2.0 if ctx.signed else 1.0
        grad_step = factor * grad_step + grad_weighted * u
        return grad_weighted * step, grad_step, factor * grad_a, grad_b, grad_c, None, grad_h


def selective_scan(
    u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mamba's scan: u, step (B, T, D), a (D, N), or of each row (B, 1, D, N), b, c (B, T, N), state (B, D, N). Returns y (B, T, D)
    and the last state.

    No gradient comes back through the last state where mamba-ssm's kernel computes it.
    """
    fast = kernel("selective_scan", u.dtype, u, step, a, b, c, signed, state)
    if fast is not None:
        return fast(u, step, a, b, c, signed, state)
    if u.shape[1] > 1:
        with torch.autocast(u.device.type, enabled=False):
            return scan_by_token(u.float(), step.float(), a, b.float(), c.float(), signed, state)
    u, step, b, c = (x[:, 0].float() for x in (u, step, b, c))
    decay = torch.exp(step[..., None] * _rates(a))
    arriving = (step * u)[..., None] * b[:, None, :]
    state = arriving if state is None else (2 * decay - 1 if signed else decay) * state + arriving
    return (state @ c[..., None]).transpose(1, 2), state


def scan_by_token(
    u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The same in PyTorch, in the precision of the inputs."""
    by_time = [x.transpose(0, 1).contiguous() for x in (u, step, b, c)]
    state = u.new_zeros(u.shape[0], *a.shape[-2:]) if state is None else state
    y, last = _SelectiveScan.apply(by_time[0], by_time[1], _rates(a), by_time[2], by_time[3], signed, state)
    return y.transpose(0, 1), last


def _rates(a: Tensor) -> Tensor:
    """Rates (D, N), or (B, D, N) of (B, 1, D, N), as one token meets them."""
    return a if a.ndim == 2 else a.squeeze(1)


def state_space_duality(
    u: Tensor,
    step: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    signed: bool,
    state: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Mamba-2's scan: u (B, T, H, P), step (B, T, H), a (H,) or (B, 1, H), b, c (B, T, N), state (B, H, N, P).

    Returns y (B, T, H, P) and the last state. Chunked: inside a chunk y = ((c b^T) * D) (step u) with D_ts the product of the
    transitions from s + 1 to t (Dao & Gu, 2024, section 6), between chunks a short loop. A product of transitions is the exponential
    of a sum of logarithms of their sizes, times the product of their signs.
    """
    fast = kernel("state_space_duality", u.dtype, u, step, a, b, c, signed, state)
    if fast is not None:
        return fast(u, step, a, b, c, signed, state)
    with torch.autocast(u.device.type, enabled=False):
        return chunked_duality(u.float(), step.float(), a, b.float(), c.float(), signed, state, chunk)


def log_transition(exponent: Tensor, signed: bool) -> tuple[Tensor, Tensor | None]:
    """The logarithm of a transition's size, and its sign (None where it is positive), from step times rate."""
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
    """The same in PyTorch, in the precision of the inputs."""
    exponent, sign = log_transition(step * a, signed)
    return decayed_attention(c[:, :, None], b[:, :, None], step[..., None] * u, exponent, state, sign, chunk)


def decayed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    state: Tensor | None = None,
    sign: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """h_t = sign_t exp(g_t) h_{t-1} + k_t v_t^T and y_t = q_t h_t, chunk by chunk, in the precision of the inputs.

    q, k (B, T, H or 1, N), v (B, T, H, P), g, sign (B, T, H), state (B, H, N, P). Returns y (B, T, H, P) and the last state.
    """
    steps = v.shape[1]
    size = chunk_length(steps, chunk)
    padding = -steps % size
    if padding:  # nothing comes in and nothing decays
        q, k, v = (F.pad(x, (0, 0, 0, 0, 0, padding)) for x in (q, k, v))
        g = F.pad(g, (0, 0, 0, padding))
        sign = F.pad(sign, (0, 0, 0, padding), value=1.0) if sign is not None else None
    q, k, v = (x.unflatten(1, (-1, size)).permute(0, 3, 1, 2, 4) for x in (q, k, v))  # (B, H, chunks, S, N or P)
    total = g.unflatten(1, (-1, size)).permute(0, 3, 1, 2).cumsum(-1)
    between = (total[..., :, None] - total[..., None, :]).clamp(max=0).exp()
    between = between * torch.ones(size, size, device=v.device).tril()
    from_start, to_end = total.exp(), (total[..., -1:] - total).exp()
    if sign is not None:
        signs = sign.unflatten(1, (-1, size)).permute(0, 3, 1, 2).cumprod(-1)
        between = between * (signs[..., :, None] * signs[..., None, :])
        from_start, to_end = from_start * signs, to_end * (signs[..., -1:] * signs)
    within = ((q @ k.transpose(-1, -2)) * between) @ v
    brought = (k * to_end[..., None]).transpose(-1, -2) @ v  # (B, H, chunks, N, P)
    if state is None:
        state = torch.zeros_like(brought[:, :, 0])
    before = []
    for decay, arriving in zip(from_start[..., -1, None, None].unbind(2), brought.unbind(2)):
        before.append(state)
        state = decay * state + arriving
    y = within + (q * from_start[..., None]) @ torch.stack(before, dim=2)
    return y.flatten(2, 3)[:, :, :steps].transpose(1, 2), state
