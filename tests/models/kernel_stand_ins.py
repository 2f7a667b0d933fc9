"""What packages' kernels take and return, in the packages' own layouts, computed by our references: B, T, H before channels in
flash-linear-attention. `test_kernel_contracts` holds the packages themselves to the same trial that these pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from remedy.models.mixers.deltanet import _reference as delta_rule
from remedy.models.mixers.path_attention import attend_chunked
from remedy.models.mixers.rwkv7 import wkv_recurrent
from remedy.models.mixers.short_convolution import _reference as convolved
from remedy.models.mixers.ssm_scan import chunked_duality, scan_by_token


def by_head(*tensors: Tensor) -> list[Tensor]:
    """(B, T, H, ...) as (B, H, T, ...), or back, in float64."""
    return [x.double().transpose(1, 2) for x in tensors]


def chunk_gated_delta_product(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor, num_householder: int, *, scale: float, **given: Any
) -> tuple[Tensor, Tensor]:
    """q (B, T, H, K), k (B, T n, H, K), v (B, T n, H, V), g (B, T, H), beta (B, T n, H)."""
    assert {x.dtype for x in (q, k, v)} == {v.dtype}
    assert all(x.is_contiguous() for x in (q, k, v, beta))
    assert k.shape[1] == num_householder * q.shape[1]
    decay = None if g is None else by_head(g)[0]
    y, last = delta_rule(*by_head(scale * q, k, v, beta), decay, given["initial_state"])
    return by_head(y)[0].to(v.dtype), last.float()


def chunk_delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    assert v.dtype != torch.float32, "ChunkDeltaRuleFunction does not support float32. Please use bfloat16."
    return chunk_gated_delta_product(q, k, v, None, beta, 1, **given)


def chunk_gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, **given: Any
) -> tuple[Tensor, Tensor]:
    return chunk_gated_delta_product(q, k, v, g, beta, 1, **given)


def chunk_simple_gla(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, *, scale: float, initial_state: Tensor | None, output_final_state: bool
) -> tuple[Tensor, Tensor]:
    """q, k (B, T, H, K), v (B, T, H, V), g (B, T, H)."""
    assert output_final_state
    assert (g <= 0).all()  # a decay
    none = torch.zeros_like(k)
    y, last = wkv_recurrent(*by_head(scale * q, g[..., None].expand_as(k), k, v, none, none), initial_state)
    return by_head(y)[0].to(v.dtype), last.float()


def chunk_rwkv7(
    r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, *, initial_state: Tensor | None, **given: Any
) -> tuple[Tensor, Tensor]:
    """r, w, k, a, b (B, T, H, K), v (B, T, H, V); w is the logarithm of the decay."""
    assert given["output_final_state"]
    assert given["scale"] == 1.0
    assert w.dtype == torch.float32
    assert w.max() <= 0
    assert w.min() >= given["lower_bound"]
    assert {x.dtype for x in (r, k, a, b)} == {v.dtype}
    y, last = wkv_recurrent(*by_head(r, w, k, v, a, b), initial_state)
    return by_head(y)[0].to(v.dtype), last.float()


def parallel_path_attn(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, *, use_cache: bool
) -> tuple[Tensor, Tensor]:
    """q, k, v, w (B, T, H, K), beta (B, T, H); the scale is that of the keys' width."""
    assert use_cache
    assert w.dtype == beta.dtype == torch.float32
    assert q.dtype == k.dtype == v.dtype
    assert k.shape[-1] in (16, 32, 64, 128)
    y, keys = by_head(*attend_chunked(*by_head(q, k, v, w, beta)))
    return y.to(v.dtype), keys.to(v.dtype)


def fused_recurrent_hgrn(x: Tensor, g: Tensor, start: Tensor | None, output_final_state: bool) -> Any:
    """x, g (B, T, D)."""
    assert not output_final_state
    h, outputs = torch.zeros_like(x[:, 0]) if start is None else start, []
    for t in range(x.shape[1]):
        h = g[:, t].exp() * h + x[:, t]
        outputs.append(h)
    return torch.stack(outputs, 1), None


def selective_scan_fn(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, *, return_last_state: bool) -> Any:
    """u, delta (B, D, T), a (D, N), b, c (B, N, T)."""
    assert return_last_state
    assert {x.dtype for x in (u, delta, a, b, c)} == {torch.float32}
    assert all(x.stride(-1) == 1 for x in (u, delta, b, c))
    y, last = scan_by_token(
        *(x.transpose(1, 2) for x in (u, delta)), a, *(x.transpose(1, 2) for x in (b, c)), False, None
    )
    return y.transpose(1, 2), last.detach()


def mamba_chunk_scan_combined(
    x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, *, chunk_size: int, return_final_states: bool
) -> tuple[Tensor, Tensor]:
    """x (B, T, H, P), dt (B, T, H), a (H,), b, c (B, T, 1, N); the state is (B, H, P, N)."""
    assert return_final_states
    y, last = chunked_duality(x.float(), dt, a, b[:, :, 0].float(), c[:, :, 0].float(), False, None)
    return y.to(x.dtype), last.transpose(-1, -2)


def causal_conv1d_fn(x: Tensor, weight: Tensor, bias: Tensor, activation: Any) -> Tensor:
    """x (B, D, T): with channels together it wants multiples of 8 (csrc/causal_conv1d.cpp of 1.7.0)."""
    assert x.dtype == weight.dtype == bias.dtype
    if x.stride(1) == 1 and x.stride(2) > 1 and (x.shape[1] % 8 or x.stride(0) % 8 or x.stride(2) % 8):
        raise RuntimeError("causal_conv1d with channel last layout requires strides to be multiples of 8")
    return convolved(x.transpose(1, 2), weight, bias, activation).transpose(1, 2)


def causal_conv1d(x: Tensor, weight: Tensor, bias: Tensor, activation: Any) -> tuple[Tensor, None]:
    """x (B, T, D), flash-linear-attention's."""
    assert x.is_contiguous()
    return convolved(x, weight, bias, activation), None


PATHS = {
    "fla.ops.gated_delta_product.chunk_gated_delta_product": chunk_gated_delta_product,
    "fla.ops.delta_rule.chunk_delta_rule": chunk_delta_rule,
    "fla.ops.gated_delta_rule.chunk_gated_delta_rule": chunk_gated_delta_rule,
    "fla.ops.simple_gla.chunk_simple_gla": chunk_simple_gla,
    "fla.ops.hgrn.fused_recurrent_hgrn": fused_recurrent_hgrn,
    "fla.ops.rwkv7.chunk_rwkv7": chunk_rwkv7,
    "fla.ops.path_attn.parallel_path_attn": parallel_path_attn,
    "fla.modules.causal_conv1d.causal_conv1d": causal_conv1d,
    "mamba_ssm.ops.selective_scan_interface.selective_scan_fn": selective_scan_fn,
    "mamba_ssm.ops.triton.ssd_combined.mamba_chunk_scan_combined": mamba_chunk_scan_combined,
    "causal_conv1d.causal_conv1d_fn": causal_conv1d_fn,
}
