"""Kernels of other packages for the state-space scans of `ssm_scan`.

None of them has negative transitions, and none needs any: with s_t the product of the signs up to t, s_t h_t has the transition |a_t|
and the input s_t x_t, and what is read of it is multiplied by s_t again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from remedy.models.kernels import OPERATIONS, Draw, Kernel, Operation
from remedy.models.mixers.ssm_scan import chunked_duality, log_transition, scan_by_token

WIDEST = 256
"""The largest state dimension that mamba-ssm's kernels take."""
ELEMENTS = 1 << 26
"""Numbers of a state over all tokens that the elementwise scan holds at a time: 256 MiB, a few times over."""
STEPS = 128


def _mamba(function: Callable[..., Any], u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, *_: Any) -> Any:
    """In float32, which this kernel takes at no loss of tensor cores, since it uses none."""
    first, second, third, fourth = (x.float().transpose(1, 2).contiguous() for x in (u, step, b, c))
    y, last = function(first, second, a.contiguous(), third, fourth, return_last_state=True)
    return y.transpose(1, 2), last


def _elementwise(
    function: Callable[..., Any], u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Any
) -> tuple[Tensor, Tensor]:
    """Every number of the state on its own, h_t = a_t h_{t-1} + x_t, in one launch for some channels and all of time.

    The kernel keeps several tensors as large as the state over all tokens. So channels are taken in groups, and the backward pass
    computes those tensors again.
    """
    u, step, b, c = (x.float() for x in (u, step, b, c))
    channels = max(1, min(u.shape[-1], ELEMENTS // (u.shape[0] * u.shape[1] * a.shape[-1])))
    states = [None] * u.shape[-1] if state is None else state.split(channels, dim=1)

    def scan(u: Tensor, step: Tensor, a: Tensor, state: Tensor | None, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        exponent, sign = log_transition(step[..., None] * a, signed)
        arriving = (step * u)[..., None] * b[:, :, None, :]
        start = state.flatten(1).contiguous() if state is not None else None
        signs = sign.cumprod(1) if sign is not None else torch.ones((), device=u.device)
        h, _ = function((signs * arriving).flatten(2), exponent.flatten(2), start, output_final_state=False)
        h = signs * h.unflatten(2, a.shape[-2:])
        return (h @ c[:, :, :, None]).squeeze(-1), h[:, -1]

    groups = zip(u.split(channels, -1), step.split(channels, -1), a.split(channels, -2), states)
    with torch.autocast(u.device.type, enabled=False):
        parts = [checkpoint(scan, *group, b, c, use_reentrant=False, preserve_rng_state=False) for group in groups]
    return torch.cat([y for y, _ in parts], -1), torch.cat([last for _, last in parts], 1)


def _duality(function: Callable[..., Any], u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, *_: Any) -> Any:
    y, last = function(u, step, a, b[:, :, None], c[:, :, None], chunk_size=256, return_final_states=True)
    return y, last.transpose(-1, -2)


def _simple_attention(
    function: Callable[..., Any], u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Any
) -> tuple[Tensor, Tensor]:
    """As linear attention with one decay a head: c are queries, b keys (written out for every head), and step times u values."""
    exponent, sign = log_transition(step * a, signed)
    values, signs = step[..., None] * u, None
    if sign is not None:
        signs = sign.cumprod(1)
        values = signs[..., None] * values
    keys, queries = (x[:, :, None].expand(-1, -1, u.shape[2], -1).to(u.dtype).contiguous() for x in (b, c))
    given = {"scale": 1.0, "initial_state": state, "output_final_state": True}
    y, last = function(queries, keys, values.to(u.dtype).contiguous(), exponent.float().contiguous(), **given)
    return (y, last) if signs is None else (signs[..., None] * y, signs[:, -1, :, None, None] * last)


def _whole(u: Tensor, *rest: Any) -> bool:
    return u.shape[1] > 1


def _published(u: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, signed: bool, state: Any) -> bool:
    """Say if mamba-ssm can compute this: positive transitions with the same rates for all rows, from the start."""
    return u.shape[1] > 1 and a.ndim <= 2 and not signed and state is None and b.shape[-1] <= WIDEST


def _scan_example(draw: Draw, channels: int, size: int, signed: int) -> tuple[Any, ...]:
    """As the mixer begins: rates 1 to N, steps about 0.1 but some of them large, so that signed transitions are negative."""
    step = F.softplus(2 * draw.normal(1, STEPS, channels, dtype=torch.float32) - 2)
    rates = -torch.arange(1.0, size + 1, device=draw.device, dtype=torch.float32).repeat(channels, 1)
    b, c = draw.normal(1, STEPS, size), draw.normal(1, STEPS, size)
    return draw.normal(1, STEPS, channels), step, rates, b, c, bool(signed), None


def _duality_example(draw: Draw, heads: int, channels: int, size: int, signed: int) -> tuple[Any, ...]:
    step = F.softplus(2 * draw.normal(1, STEPS, heads, dtype=torch.float32) - 2)
    rates = -torch.arange(1.0, heads + 1, device=draw.device, dtype=torch.float32)
    b, c = draw.normal(1, STEPS, size), draw.normal(1, STEPS, size)
    return draw.normal(1, STEPS, heads, channels), step, rates, b, c, bool(signed), None


OPERATIONS["selective_scan"] = Operation(
    reference=scan_by_token,
    widths=lambda u, step, a, b, c, signed, state: (*a.shape[-2:], int(signed)),
    example=_scan_example,
    kernels=(
        Kernel("mamba_ssm.ops.selective_scan_interface.selective_scan_fn", _mamba, _published),
        Kernel("fla.ops.hgrn.fused_recurrent_hgrn", _elementwise, _whole),
    ),
)
OPERATIONS["state_space_duality"] = Operation(
    reference=chunked_duality,
    widths=lambda u, step, a, b, c, signed, state: (*u.shape[2:], b.shape[-1], int(signed)),
    example=_duality_example,
    kernels=(
        Kernel("mamba_ssm.ops.triton.ssd_combined.mamba_chunk_scan_combined", _duality, _published),
        Kernel("fla.ops.simple_gla.chunk_simple_gla", _simple_attention, _whole),
    ),
)
