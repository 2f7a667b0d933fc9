"""The delta rule, with or without decay: as the recurrence that defines it, and in chunked parallel form.

    S_t = a_t S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T,    o_t = S_t q_t

Schlag, Irie & Schmidhuber, "Linear Transformers are secretly fast weight programmers", 2021; the chunked form follows Yang et
al., "Parallelizing linear Transformers with the delta rule over sequence length", 2024 (UT transform, section 3), and with decay
a_t = exp(g_t) Yang, Kautz & Hatamizadeh, "Gated delta networks", 2024. With beta in (0, 1) the eigenvalues of the transition
lie in [0, a]; with beta in (0, 2), in [-a, a] (Grazzi et al., 2024), which lets one step be a reflection: a swap.

Letters are the papers': `q`, `k` and `v` queries, keys and values, `beta` how much of a value is written, `g` the logarithm of the
decay. In shapes B is the batch, H heads, T time, K and V a head's key and value channels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from remedy.models.kernels import WIDEST, kernel

CHUNK = 32
"""Tokens a chunk holds; 32 was the fastest on a CPU at head sizes 16 to 64 (of 16, 32, 64, 128)."""


def delta_rule_recurrent(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None = None, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The defining recurrence, one step at a time: q, k (B, H, T, K), v (B, H, T, V), beta, g (B, H, T).

    `state` is S transposed, (B, H, K, V). Returns outputs (B, H, T, V) and the final state.
    """
    batch, heads, steps, key_dim = k.shape
    if state is None:
        state = v.new_zeros(batch, heads, key_dim, v.shape[-1])
    outputs = []
    for t in range(steps):
        key, value = k[:, :, t, :, None], v[:, :, t, None, :]
        if g is not None:
            state = state * g[:, :, t, None, None].exp()
        correction = value - (key * state).sum(-2, keepdim=True)
        state = state + beta[:, :, t, None, None] * key * correction
        outputs.append((q[:, :, t, :, None] * state).sum(-2))
    return torch.stack(outputs, dim=2), state


def delta_rule_chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor | None = None,
    state: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """The same function, parallel inside chunks: a triangular solve per chunk, then a short loop over chunks.

    With c_t the decay from the chunk's start to t and D_ts = c_t / c_s, the corrected values u of a chunk satisfy
    (I + tril(diag(beta) (K K^T * D), -1)) u = diag(beta) (V - diag(c) K S_0).
    """
    batch, heads, steps, key_dim = k.shape
    padding = -steps % chunk if steps > chunk else 0
    size = min(chunk, steps)
    if padding:  # beta = 0 and g = 0 leave the state alone
        q, k, v = (F.pad(x, (0, 0, 0, padding)) for x in (q, k, v))
        beta = F.pad(beta, (0, padding))
        g = F.pad(g, (0, padding)) if g is not None else None
    q, k, v = (x.unflatten(2, (-1, size)) for x in (q, k, v))
    beta = beta.unflatten(2, (-1, size))[..., None]

    between = torch.ones(size, size, dtype=q.dtype, device=q.device).tril()  # a product is faster than tril on a CPU
    from_start, to_end, over = k, k, None
    if g is not None:
        total = g.unflatten(2, (-1, size)).cumsum(-1)
        # Above the diagonal the difference is positive and may overflow: it is cut before the exponential.
        between = (total[..., :, None] - total[..., None, :]).clamp(max=0).exp() * between
        from_start = total.exp()[..., None] * k
        to_end = (total[..., -1:] - total).exp()[..., None] * k
        over = total[..., -1].exp()[..., None, None]
    below = (beta * k) @ k.transpose(-1, -2) * between.tril(-1)
    solved = torch.linalg.solve_triangular(
        below, beta * torch.cat([v, from_start], -1), upper=False, unitriangular=True
    )
    u, w = solved.split([v.shape[-1], key_dim], dim=-1)  # corrected values are u - w S_0
    within = q @ k.transpose(-1, -2) * between
    q = q if g is None else total.exp()[..., None] * q

    if state is None:
        state = v.new_zeros(batch, heads, key_dim, v.shape[-1])
    outputs = []
    # Unbound at once: the backward pass of an index would fill a tensor as long as the whole sequence for every chunk.
    chunks = zip(*(x.unbind(2) for x in (q, within, u, w, to_end)))
    decays = [None] * q.shape[2] if over is None else over.unbind(2)
    for (query, inside, values, known, keys), decay in zip(chunks, decays):
        corrected = values - known @ state
        outputs.append(query @ state + inside @ corrected)
        state = (state if decay is None else decay * state) + keys.transpose(-1, -2) @ corrected
    return torch.cat(outputs, dim=2)[:, :, :steps], state


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The fastest form for these inputs on this machine; shapes as `delta_rule_recurrent`, the state in float32."""
    fits = q.shape[2] > 1 and max(k.shape[-1], v.shape[-1]) <= WIDEST
    fast = kernel("delta_rule" if g is None else "gated_delta_rule", q) if fits else None
    if fast is None:
        rule = delta_rule_recurrent if q.shape[2] == 1 else delta_rule_chunked
        with torch.autocast(q.device.type, enabled=False):  # errors of half precision would add up over the tokens
            return rule(q.float(), k.float(), v.float(), beta.float(), g, state)
    by_time = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    gates = [] if g is None else [g.transpose(1, 2).contiguous()]
    last = beta.transpose(1, 2).to(q.dtype).contiguous()
    y, state = fast(*by_time, *gates, last, scale=1.0, initial_state=state, output_final_state=True)
    assert state is not None
    return y.transpose(1, 2), state
