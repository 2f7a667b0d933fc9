"""Attention over a window of earlier tokens, block by block: time and memory that grow with the length and not with its square."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Causal softmax attention of q, k, v (B, H, T, K) in which a token sees itself and the `window - 1` before it; (B, H, T, K).

    The sequence is cut into blocks of `window` tokens, each of which sees itself and the block before: up to rounding what a mask of
    (T, T) gives (Beltagy, Peters & Cohan, "Longformer", 2020, section 3.2, by "sliding chunks").
    """
    batch, heads, steps = q.shape[:3]
    blocks = -(-steps // window)
    q, k, v = (
        F.pad(x, (0, 0, 0, blocks * window - steps)).reshape(batch, heads, blocks, window, -1) for x in (q, k, v)
    )
    k, v = (torch.cat([F.pad(x, (0, 0, 0, 0, 1, 0))[:, :, :-1], x], dim=3) for x in (k, v))
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
    seen = torch.ones(window, 2 * window, dtype=torch.bool, device=q.device).tril(window).triu(1).repeat(blocks, 1, 1)
    seen[0, :, :window] = False  # before the first block there is nothing
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen.repeat(batch, 1, 1)[:, None])
    return (
        y.view(batch, blocks, heads, window, -1)
        .transpose(1, 2)
        .reshape(batch, heads, blocks * window, -1)[:, :, :steps]
    )
