"""The generalised delta rule of RWKV-7: as the recurrence that defines it, and in chunked parallel form.

    S_t = diag(w_t) S_{t-1} + b_t (a_t^T S_{t-1}) + k_t v_t^T,    o_t = S_t^T r_t

Peng et al., "RWKV-7 Goose with expressive dynamic state evolution", 2025 (arXiv 2503.14456): its wkv is S transposed, and with
a = -kappa and b = kappa * alpha for a removal key kappa of length 1 and an in-context learning rate alpha of every channel, its
transition is diag(w) - kappa^T (alpha * kappa). As the delta rule it is solved chunk by chunk through a triangular system; here each
channel of a key decays by itself.

Letters: `r` the receptance, `g` the logarithm of the decay w, `k` and `v` keys and values, `a` and `b` what is removed and where it
goes. In shapes B is the batch, H heads, T time, K and V a head's key and value channels, S a chunk's length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Draw, Kernel, Operation, kernel
from remedy.models.mixers.chunk_length import chunk_length

CHUNK = 32
"""Tokens a chunk holds."""
LOWEST = -math.exp(-0.5)
"""The fastest decay of a token, as a logarithm. The chunked form divides by decays over half a chunk: e^10 at this one."""
WIDEST = 256
"""The widest keys and values of a head that flash-linear-attention's kernels take."""
STEPS = 128


def wkv_recurrent(
    r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The defining recurrence, one step at a time: r, g, k, a, b (B, H, T, K), v (B, H, T, V), state (B, H, K, V).

    Returns outputs (B, H, T, V) and the final state.
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
    """The same function, parallel inside chunks; g from `LOWEST` to 0.

    With c_t the decay from the chunk's start to t, what a removes, u_t = S_{t-1}^T a_t, satisfies
    (I - tril(A B^T, -1)) u = tril(A K^T, -1) V + (a_t c_{t-1})^T S_0, where A has the rows a_t c_{t-1} and B, K those of b_s / c_s
    and k_s / c_s. Decays are counted from the chunk's middle, so that neither a product nor a quotient leaves float32.
    """
    steps = k.shape[2]
    size = chunk_length(steps, chunk)
    padding = -steps % size
    if padding:  # nothing decays, is removed or written
        r, g, k, v, a, b = (F.pad(x, (0, 0, 0, padding)) for x in (r, g, k, v, a, b))
    r, g, k, v, a, b = (x.unflatten(2, (-1, size)) for x in (r, g, k, v, a, b))  # (B, H, chunks, S, K or V)

    total = g.cumsum(-2)
    last = total[..., -1:, :]
    middle = total[..., size // 2, None, :].detach()  # it cancels
    by_then, since = (total - middle).exp(), (middle - total).exp()
    until = torch.ones(size, size, dtype=k.dtype, device=k.device).tril()
    seen = torch.cat([a * (total - g - middle).exp(), r * by_then], -2)
    products = seen @ torch.cat([b * since, k * since], -2).transpose(-1, -2)
    (removed_of_b, removed_of_k), (read_of_b, read_of_k) = (
        (part * mask).chunk(2, dim=-1)
        for part, mask in zip(products.chunk(2, dim=-2), (until.tril(-1).repeat(1, 2), until.repeat(1, 2)))
    )
    from_start = torch.cat([removed_of_k @ v, a * (total - g).exp()], -1)
    solved = torch.linalg.solve_triangular(-removed_of_b, from_start, upper=False, unitriangular=True)
    u, known = solved.split([v.shape[-1], k.shape[-1]], dim=-1)  # what is removed is u + known S_0
    own = read_of_k @ v
    to_end = (torch.cat([b, k], -2) * (last - total).exp().repeat(1, 1, 1, 2, 1)).transpose(-1, -2)

    if state is None:
        state = v.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    outputs = []
    # Unbound at once: the backward pass of an index would fill a tensor as long as the whole sequence for every chunk.
    parts = (r * total.exp(), read_of_b, own, u, known, to_end, v, last.exp().transpose(-1, -2))
    for query, of_b, output, removed, by_state, ends, values, decay in zip(*(x.unbind(2) for x in parts)):
        removed = removed + by_state @ state
        outputs.append(query @ state + of_b @ removed + output)
        state = decay * state + ends @ torch.cat([removed, values], -2)
    return torch.cat(outputs, dim=2)[:, :, :steps], state


def wkv(
    r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The fastest form for these inputs on this machine, shapes as in `wkv_recurrent`.

    Returns outputs (B, H, T, V) and the final state in float32. The precision of `v` is that in which a kernel computes; without one
    it is float32.
    """
    fast = kernel("wkv", v.dtype, r, g, k, v, a, b, state)
    if fast is not None:
        return fast(r, g, k, v, a, b, state)
    with torch.autocast(v.device.type, enabled=False):  # errors of half precision would add up over the tokens
        return _reference(r.float(), g.float(), k.float(), v.float(), a.float(), b.float(), state)


def _reference(
    r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    return (wkv_recurrent if k.shape[2] == 1 else wkv_chunked)(r, g, k, v, a, b, state)


def _chunk(
    function: Callable[..., Any], r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Any
) -> Any:
    """Time before heads, all in v's precision but the decay."""
    parts = [x.to(v.dtype).transpose(1, 2).contiguous() for x in (r, k, v, a, b)]
    decay = g.float().transpose(1, 2).contiguous()
    given = {"scale": 1.0, "initial_state": state, "output_final_state": True, "lower_bound": LOWEST}
    y, last = function(parts[0], decay, *parts[1:], **given)
    return y.transpose(1, 2), last


def _fits(r: Tensor, g: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor | None) -> bool:
    return k.shape[2] > 1 and max(k.shape[-1], v.shape[-1]) <= WIDEST


def _example(draw: Draw, keys: int, values: int) -> tuple[Any, ...]:
    """Two chunks of the kernel; removal keys normalised and in float32, as the mixer gives them."""
    removed = F.normalize(draw.normal(1, 2, STEPS, keys, dtype=torch.float32), dim=-1)
    g, rate = LOWEST * draw.uniform(1, 2, STEPS, keys), draw.uniform(1, 2, STEPS, keys)
    r, k = draw.normal(1, 2, STEPS, keys), draw.normal(1, 2, STEPS, keys)
    return r, g, k, draw.normal(1, 2, STEPS, values), -removed, removed * rate, None


OPERATIONS["wkv"] = Operation(
    reference=_reference,
    widths=lambda r, g, k, v, a, b, state: (k.shape[-1], v.shape[-1]),
    example=_example,
    kernels=(Kernel("fla.ops.rwkv7.chunk_rwkv7", _chunk, _fits),),
)
