"""Attention along a path of Householder matrices: exact, a chunk of queries at a time, with keys that later tokens go on turning.

    y_i = sum_j softmax_j(k_j^T H_{j+1} ... H_i q_i / sqrt(K)) v_j,    H_t = I - beta_t w_t w_t^T

Yang et al., "PaTH attention: position encoding via accumulating Householder transformations", 2025 (arXiv 2505.16381). A key that is
multiplied by each H_t when token t is read, k_j^T H_{j+1} ... H_i, is met by queries as they are: so a sequence goes on from its keys
and values, and an ordinary softmax. Inside a chunk products of H are one triangular system, as of the delta rule (UT transform;
sections 3.2 and 3.3). With beta in (0, 2) no product is longer than 1.

In shapes B is the batch, H heads, T time, P earlier tokens, K and V a head's key and value channels, S a chunk's length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Draw, Kernel, Operation, kernel
from remedy.models.mixers.chunk_length import chunk_length

CHUNK = 32
"""Queries a chunk holds."""
WIDTHS = (16, 32, 64, 128)
"""Channels of a head that flash-linear-attention's kernel takes."""
STEPS = 576


def attend_chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    beta: Tensor,
    keys: Tensor | None = None,
    values: Tensor | None = None,
    real: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """q, k, w (B, H, T, K), v (B, H, T, V), beta (B, H, T); w of length 1.

    `keys` (B, H, P, K) and `values` (B, H, P, V) are of earlier tokens, keys as these left them; `real` (B, 1, 1, P): which of them are
    tokens and no padding, by default all. Returns outputs (B, H, T, V) and all keys (B, H, P + T, K) as they are after the last token.

    With L = (I + tril(diag(beta) W W^T, -1))^-1 of a chunk, H_1 ... H_i q_i is the row i of Q - tril(Q W^T) L diag(beta) W, and
    k_j^T H_{j+1} ... H_i q_i the element (i, j) of tril(Q K^T) - tril(Q W^T) L tril(diag(beta) W K^T, -1).
    """
    steps, width = q.shape[2:]
    size = chunk_length(steps, chunk)
    padding = -steps % size
    if padding:  # nothing is turned; what they read is dropped, and nobody reads them
        q, k, v, w = (F.pad(x, (0, 0, 0, padding)) for x in (q, k, v, w))
        beta = F.pad(beta, (0, padding))
    past = 0 if keys is None else keys.shape[2]
    everything = v if values is None else torch.cat([values, v], 2)
    q, k, w = (x.unflatten(2, (-1, size)) for x in (q * width**-0.5, k, w))  # (B, H, chunks, S, K)
    known = beta.unflatten(2, (-1, size))[..., None] * w

    until = torch.ones(size, size, dtype=q.dtype, device=q.device).tril()
    before = until.tril(-1)
    right = torch.cat([known, known @ k.transpose(-1, -2) * before], -1)
    turned = torch.linalg.solve_triangular(known @ w.transpose(-1, -2) * before, right, upper=False, unitriangular=True)
    over, inside = turned.split([width, size], -1)  # L diag(beta) W, and L tril(diag(beta) W K^T, -1)
    by_path = q @ w.transpose(-1, -2) * until
    own = (q @ k.transpose(-1, -2) - by_path @ inside).masked_fill(until == 0, float("-inf"))
    from_start = q - by_path @ over
    at_end = k - inside.transpose(-1, -2) @ w

    if keys is None:
        keys = k.new_zeros(*k.shape[:2], 0, width)
    outputs = []
    # Unbound at once: the backward pass of an index would fill a tensor as long as the whole sequence for every chunk.
    for number, parts in enumerate(zip(*(x.unbind(2) for x in (from_start, own, over, w, at_end)))):
        query, scores, over_chunk, lines, new = parts
        earlier = query @ keys.transpose(-1, -2)
        if real is not None:
            earlier = torch.cat([earlier[..., :past].masked_fill(~real, float("-inf")), earlier[..., past:]], -1)
        weights = torch.cat([earlier, scores], -1).softmax(-1)
        outputs.append(weights @ everything[:, :, : past + (number + 1) * size])
        keys = torch.cat([keys - (keys @ over_chunk.transpose(-1, -2)) @ lines, new], 2)
    return torch.cat(outputs, 2)[:, :, :steps], keys[:, :, : past + steps]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    beta: Tensor,
    keys: Tensor | None = None,
    values: Tensor | None = None,
    real: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The fastest form for these inputs on this machine, shapes as in `attend_chunked`.

    Returns outputs (B, H, T, V), in float32 where no kernel computes them, and keys (B, H, P + T, K) in float32: keys that are turned
    anew with every token would add up the errors of half precision.
    """
    fast = kernel("path_attention", v.dtype, q, k, v, w, beta, keys, values, real)
    if fast is not None:
        return fast(q, k, v, w, beta, keys, values, real)
    with torch.autocast(q.device.type, enabled=False):
        return attend_chunked(q.float(), k.float(), v.float(), w.float(), beta.float(), keys, values, real)


def _parallel(
    function: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    """Time before heads, w and beta in float32; keys come back as k's. Between chunks the kernel has w in float16 whatever is asked of
    it, so that in float32 wide heads are too far from the reference."""
    q, k, v = (x.to(v.dtype).transpose(1, 2).contiguous() for x in (q, k, v))
    w, beta = (x.float().transpose(1, 2).contiguous() for x in (w, beta))
    y, keys = function(q, k, v, w, beta, use_cache=True)
    return y.transpose(1, 2), keys.transpose(1, 2).float()


def _fits(q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, keys: Any, values: Any, real: Any) -> bool:
    """From the start alone: the kernel takes no keys of earlier tokens."""
    return q.shape[2] > 1 and keys is None and q.shape[-1] in WIDTHS and v.shape[-1] in WIDTHS


def _example(draw: Draw, width: int) -> tuple[Any, ...]:
    """Two chunks of the kernel; w normalised and in float32, as the mixer gives it."""
    q, k, v = (draw.normal(1, 1, STEPS, width) for _ in range(3))
    w = F.normalize(draw.normal(1, 1, STEPS, width, dtype=torch.float32), dim=-1)
    return q, k, v, w, 2 * draw.uniform(1, 1, STEPS), None, None, None


OPERATIONS["path_attention"] = Operation(
    reference=attend_chunked,
    widths=lambda q, k, v, *rest: (k.shape[-1],),
    example=_example,
    kernels=(Kernel("fla.ops.path_attn.parallel_path_attn", _parallel, _fits),),
)
