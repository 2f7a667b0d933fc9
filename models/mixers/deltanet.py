"""DeltaNet, Gated DeltaNet and DeltaProduct, with the delta rule as recurrence and in chunks.

    S_t = a_t S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T,    o_t = S_t q_t

DeltaNet (Schlag, Irie & Schmidhuber, "Linear Transformers are secretly fast weight programmers", 2021) has one generalised Householder
matrix per token; chunks are as in Yang et al., "Parallelizing linear Transformers with the delta rule over sequence length", 2024,
section 3. Gated DeltaNet decays, a_t = exp(g_t) (Yang, Kautz & Hatamizadeh, "Gated delta networks", 2024). DeltaProduct takes n steps
per token, decays before the first and reads after the last (Siems et al., "DeltaProduct", 2025). For beta in (0, 1) eigenvalues are in
[0, a]; for beta in (0, 2) in [-a, a], where a step can be a reflection (Grazzi et al., 2024).

Unlike flash-linear-attention (`fla/layers`), keys are as wide as the model (Gated DeltaNet's authors: 3/4), convolution and beta have
biases, queries are not scaled, which the output norm undoes, and DeltaProduct has no decay.

Letters: `q`, `k`, `v`, `beta`, `g` log decay. Shapes: B batch, H heads, T time, K and V a head's key and value channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Operation, Use, compute
from remedy.models.mixers import MIXERS, READS
from remedy.models.mixers.base import Mixer, in_chunks, step_bias
from remedy.models.mixers.short_convolution import ShortConvolution

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

CHUNK = 32
"""Tokens in a chunk; the fastest of 16, 32, 64 and 128 on a CPU at head sizes 16 to 64."""


def delta_rule_recurrent(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None = None, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence; returns outputs (B, H, T, V) and the final state.

    q, k (B, H, T, K), v (B, H, T, V), beta, g (B, H, T); `state` is S transposed, (B, H, K, V).
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
    """Compute `delta_rule_recurrent` in parallel inside chunks.

    With c_t the decay since the chunk's start and D_ts = c_t / c_s, the corrected values u satisfy (I + tril(diag(beta) (K K^T * D),
    -1)) u = diag(beta) (V - diag(c) K S_0).
    """
    batch, heads, steps, key_dim = k.shape
    q, k, v, beta, g = in_chunks(chunk, 2, q, k, v, beta, g)  # padded: beta = 0 and g = 0 keep the state
    beta, size = beta[..., None], k.shape[3]

    between = torch.ones(size, size, dtype=q.dtype, device=q.device).tril()  # a product is faster than tril on a CPU
    from_start, to_end, chunk_decay = k, k, None
    if g is not None:
        total = g.cumsum(-1)
        # Above the diagonal the difference is positive, and its exponential might overflow.
        between = (total[..., :, None] - total[..., None, :]).clamp(max=0).exp() * between
        from_start = total.exp()[..., None] * k
        to_end = (total[..., -1:] - total).exp()[..., None] * k
        chunk_decay = total[..., -1].exp()[..., None, None]
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
    # Unbound at once: an index's backward pass would fill a tensor of the whole sequence for every chunk.
    chunks = zip(*(x.unbind(2) for x in (q, within, u, w, to_end)))
    decays = [None] * q.shape[2] if chunk_decay is None else chunk_decay.unbind(2)
    for (query, scores, values, of_state, keys), decay in zip(chunks, decays):
        corrected = values - of_state @ state
        outputs.append(query @ state + scores @ corrected)
        state = (state if decay is None else decay * state) + keys.transpose(-1, -2) @ corrected
    return torch.cat(outputs, dim=2)[:, :, :steps], state


def _reference(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute n >= 1 steps per token, as kernels do.

    q (B, H, T, K), k (B, H, T n, K), v (B, H, T n, V), beta (B, H, T n), g (B, H, T), state (B, H, K, V).
    """
    n = k.shape[2] // q.shape[2]
    rule = delta_rule_recurrent if k.shape[2] == 1 else delta_rule_chunked
    y, state = rule(*_steps_as_tokens(q, k, v, beta, g), state)
    return y[:, :, n - 1 :: n], state


def _steps_as_tokens(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Make every step a token; a token's decay belongs to its first step."""
    n = k.shape[2] // q.shape[2]
    if n > 1:
        q = q.repeat_interleave(n, dim=2)
        g = F.pad(g[..., None], (0, n - 1)).flatten(2) if g is not None else None
    return q, k, v, beta, g


def _rounded(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Convert inputs for flash-linear-attention, with time before heads.

    Rounding changes |k|, and so the eigenvalue 1 - beta |k|^2; beta corrects that.
    """
    rounded = k.to(v.dtype)
    if rounded.dtype != k.dtype:
        with torch.no_grad():
            lengths = [x.float().square().sum(-1) for x in (k, rounded)]
            ratio = torch.where(lengths[1] > 0, lengths[0] / lengths[1], 1.0)
        beta = beta * ratio
    q, k, v, beta = (x.transpose(1, 2).contiguous() for x in (q.to(v.dtype), rounded, v, beta.float()))
    return q, k, v, beta


def _fast(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None, state: Tensor | None) -> Any:
    """Call the kernel of the form: products of steps, the plain rule, or the gated one, which alone takes float32."""
    n, exact = k.shape[2] // q.shape[2], v.dtype == torch.float32
    options = {"scale": 1.0, "initial_state": state, "output_final_state": True}
    if n > 1 and not exact:
        from fla.ops.gated_delta_product import chunk_gated_delta_product

        query, key, value, rates = _rounded(q, k, v, beta)
        decay = g.transpose(1, 2).contiguous() if g is not None else None
        y, last = chunk_gated_delta_product(query, key, value, decay, rates, num_householder=n, **options)
        return y.transpose(1, 2), last
    q, k, v, beta, g = _steps_as_tokens(q, k, v, beta, g)
    query, key, value, rates = _rounded(q, k, v, beta)
    if g is None and not exact:
        from fla.ops.delta_rule import chunk_delta_rule

        y, last = chunk_delta_rule(query, key, value, rates, **options)
    else:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule

        decay = g.transpose(1, 2).float().contiguous() if g is not None else torch.zeros_like(rates)
        y, last = chunk_gated_delta_rule(query, key, value, decay, rates, **options)
    return y[:, n - 1 :: n].transpose(1, 2), last


STEPS = 128
WIDEST = 256
"""The widest keys and values of a head that flash-linear-attention's kernels take."""


def _fits(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None, state: Tensor | None) -> bool:
    return q.shape[2] > 1 and max(k.shape[-1], v.shape[-1]) <= WIDEST


def _example(dtype: torch.dtype, keys: int, values: int, n: int, gated: int) -> tuple[Any, ...]:
    steps = STEPS // n
    q, k = (F.normalize(torch.randn(1, 2, count, keys), dim=-1) for count in (steps, steps * n))
    v, beta = torch.randn(1, 2, steps * n, values, dtype=dtype), torch.rand(1, 2, steps * n)
    return q, k, v, beta, -0.3 * torch.rand(1, 2, steps) if gated else None, None


OPERATIONS["delta_rule"] = Operation(
    reference=_reference,
    widths=lambda q, k, v, beta, g, state: (k.shape[-1], v.shape[-1], k.shape[2] // q.shape[2], int(g is not None)),
    example=_example,
    kernel=_fast,
    takes=_fits,
)


# With `closed` eigenvalues a sigmoid is stretched beyond 0 and 1 by this much and clipped, so that it reaches both ("hard concrete",
# Louizos, Welling & Kingma, 2018). The gradient ignores the clipping (straight through: Bengio, Leonard & Courville, 2013).
OVERHANG = 0.01


@MIXERS.register("deltanet")
class DeltaNet(Mixer):
    """Short convolution, normalised keys and queries, delta rule, head norm and optional gate."""

    reads = READS["deltanet"]
    gated: ClassVar[bool] = False
    """Whether the transition decays."""
    wide: ClassVar[bool] = False
    """Whether values are twice as wide as keys, and the output is gated."""

    def __init__(self, config: DecoderConfig, layer: int, num_householder: int = 1) -> None:
        super().__init__(config, layer)
        width = config.hidden_size
        value_width = (2 if self.wide else 1) * width
        self.heads = config.num_attention_heads
        self.num_householder = num_householder
        self.state_flops = 4.0 * num_householder + self.gated + 2.0  # steps, decay, output
        self.head_dims = (width // self.heads, value_width // self.heads)
        self.sizes = [width, num_householder * width, num_householder * value_width]
        eigenvalues = self.eigenvalue_range(config.eigenvalues)
        self.beta_max = 1.0 if eigenvalues == "positive" else 2.0
        self.overhang = OVERHANG if eigenvalues == "closed" else 0.0
        self.qkv_proj = nn.Linear(width, sum(self.sizes), bias=False)
        self.beta_proj = nn.Linear(width, num_householder * self.heads, bias=True)
        convolved = self.setting(config, "short_convolution")
        self.convolution = ShortConvolution(sum(self.sizes), layer) if convolved else None
        self.decay_proj = nn.Linear(width, self.heads, bias=False) if self.gated else None
        if self.gated:
            # As in Mamba-2: decay rates between 1 and 16, steps between 0.001 and 0.1.
            bias = step_bias(self.heads)
            self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(1, 16).log())
            self.dt_bias = nn.Parameter(bias)
        self.out_norm = nn.RMSNorm(self.head_dims[1], eps=config.rms_norm_eps)
        self.out_proj = nn.Linear(value_width, width, bias=False)
        self.gate_proj = nn.Linear(width, value_width, bias=False) if self.wide else None

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        batch, steps, _ = x.shape
        mixed = self.qkv_proj(x)
        mixed = self.convolution(mixed, cache) if self.convolution is not None else F.silu(mixed)
        # Shapes (B, T, 1 or n, H, K or V).
        q, k, v = (
            part.unflatten(-1, (-1, self.heads, size))
            for part, size in zip(mixed.split(self.sizes, dim=-1), (self.head_dims[0], *self.head_dims))
        )
        # In float32: a rounded key is no unit vector, and its step no reflection.
        q, k = F.normalize(q.float(), dim=-1), F.normalize(k.float(), dim=-1)
        beta = self._beta(x).unflatten(-1, (self.num_householder, self.heads))
        g = None
        if self.decay_proj is not None:
            g = -self.A_log.float().exp() * F.softplus(self.decay_proj(x).float() + self.dt_bias)
        state = self.read_state(cache)
        q, k, v, beta = (part.flatten(1, 2).transpose(1, 2) for part in (q, k, v, beta))
        y, state = compute("delta_rule", v.dtype, q, k, v, beta, g.transpose(1, 2) if g is not None else None, state)
        self.write_state(cache, state)
        y = self.out_norm(y.to(x.dtype)).transpose(1, 2).reshape(batch, steps, -1)
        if self.gate_proj is not None:
            y = y * F.silu(self.gate_proj(x))
        return self.out_proj(y)

    def operations(self) -> list[Use]:
        return [("delta_rule", (*self.head_dims, self.num_householder, int(self.gated)))]

    def state_floats(self) -> tuple[int, int]:
        return self.heads * self.head_dims[0] * self.head_dims[1], 0

    def _beta(self, x: Tensor) -> Tensor:
        share = torch.sigmoid(self.beta_proj(x).float())
        if self.overhang:
            share = share * (1 + 2 * self.overhang) - self.overhang
            # Clipped, with the gradient of the unclipped value: a clipped gate still learns.
            share = share + (share.clamp(0, 1) - share).detach()
        return self.beta_max * share


@MIXERS.register("gated_deltanet")
class GatedDeltaNet(DeltaNet):
    """DeltaNet whose state decays before each step."""

    gated = wide = True
    undecayed = frozenset({"A_log"})


@MIXERS.register("deltaproduct")
class DeltaProduct(DeltaNet):
    """DeltaNet with several Householder steps per token."""

    reads = READS["deltaproduct"]
    wide = True

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer, config.num_householder)
