"""DeltaNet: a linear recurrence whose transition is a generalised Householder matrix, in chunked parallel form.

    S_t = S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T,    o_t = S_t q_t

Schlag, Irie & Schmidhuber, "Linear Transformers are secretly fast weight programmers", 2021. The chunked form follows
Yang et al., "Parallelizing linear Transformers with the delta rule over sequence length", 2024 (UT transform, section 3).
With beta in (0, 1) the transition's eigenvalues lie in [0, 1]; with beta in (0, 2), in [-1, 1] (Grazzi et al., 2024),
which lets one step be a reflection: a swap.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.cache import MixerCache
from remedy.models.checkpoint import RemedyConfig
from remedy.models.mixers.convolution import ShortConvolution

CHUNK = 32
"""Tokens a chunk holds; 32 was the fastest on a CPU at head sizes 16 to 64 (of 16, 32, 64, 128)."""


def delta_rule_recurrent(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The defining recurrence, one step at a time: q, k (B, H, T, K), v (B, H, T, V), beta (B, H, T).

    `state` is S transposed, (B, H, K, V). Returns outputs (B, H, T, V) and the final state.
    """
    batch, heads, steps, key_dim = k.shape
    if state is None:
        state = v.new_zeros(batch, heads, key_dim, v.shape[-1])
    outputs = []
    for t in range(steps):
        key, value = k[:, :, t, :, None], v[:, :, t, None, :]
        correction = value - (key * state).sum(-2, keepdim=True)
        state = state + beta[:, :, t, None, None] * key * correction
        outputs.append((q[:, :, t, :, None] * state).sum(-2))
    return torch.stack(outputs, dim=2), state


def delta_rule_chunked(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor | None = None, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """The same function, parallel inside chunks: a triangular solve per chunk, then a short loop over chunks.

    Inside a chunk the corrected values u satisfy (I + tril(diag(beta) K K^T, -1)) u = diag(beta) (V - K S_0).
    """
    batch, heads, steps, key_dim = k.shape
    padding = -steps % chunk if steps > chunk else 0
    size = min(chunk, steps)
    if padding:  # beta = 0 leaves the state alone
        q, k, v = (F.pad(x, (0, 0, 0, padding)) for x in (q, k, v))
        beta = F.pad(beta, (0, padding))
    q, k, v = (x.unflatten(2, (-1, size)) for x in (q, k, v))
    beta = beta.unflatten(2, (-1, size))[..., None]

    causal = torch.ones(size, size, dtype=q.dtype, device=q.device).tril()  # a product is faster than tril on a CPU
    below = (beta * k) @ k.transpose(-1, -2) * causal.tril(-1)
    solved = torch.linalg.solve_triangular(below, beta * torch.cat([v, k], -1), upper=False, unitriangular=True)
    u, w = solved.split([v.shape[-1], key_dim], dim=-1)  # corrected values are u - w S_0
    within = q @ k.transpose(-1, -2) * causal

    if state is None:
        state = v.new_zeros(batch, heads, key_dim, v.shape[-1])
    outputs = []
    for c in range(q.shape[2]):
        corrected = u[:, :, c] - w[:, :, c] @ state
        outputs.append(q[:, :, c] @ state + within[:, :, c] @ corrected)
        state = state + k[:, :, c].transpose(-1, -2) @ corrected
    return torch.cat(outputs, dim=2)[:, :, :steps], state


class DeltaNet(nn.Module):
    """Short convolution, L2-normalised keys and queries, the delta rule, and a per-head RMSNorm on the output."""

    def __init__(self, config: RemedyConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads = config.num_attention_heads
        self.head_dim = config.hidden_size // self.heads
        self.beta_max = 2.0 if config.eigenvalues == "signed" else 1.0
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.beta_proj = nn.Linear(config.hidden_size, self.heads, bias=True)
        self.convolution = ShortConvolution(3 * config.hidden_size, layer)
        self.out_norm = nn.RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        batch, steps, width = x.shape
        qkv = self.convolution(self.qkv_proj(x), cache)
        q, k, v = qkv.view(batch, steps, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4).float()
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        beta = (self.beta_max * torch.sigmoid(self.beta_proj(x))).transpose(1, 2).float()
        state = cache.get_recurrent_state(self.layer) if cache is not None else None
        rule = delta_rule_recurrent if steps == 1 else delta_rule_chunked
        y, state = rule(q, k, v, beta, state)
        if cache is not None:
            cache.update_recurrent_state(state, self.layer)
        y = self.out_norm(y.to(x.dtype)).transpose(1, 2).reshape(batch, steps, width)
        return self.out_proj(y)
