"""PaTH attention, whose position encoding accumulates Householder transformations.

    y_i = sum_j softmax_j(k_j^T H_{j+1} ... H_i q_i / sqrt(K)) v_j,    H_t = I - beta_t w_t w_t^T

Yang et al., "PaTH attention", 2025 (arXiv 2505.16381). In a chunk, products of H are a triangular system (UT transform; sections
3.2 and 3.3). With beta in (0, 2) no product has a norm above 1.

Shapes: B batch, H heads, T time, P earlier tokens, K and V a head's key and value channels, S a chunk's length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import OPERATIONS, Operation, Use, compute
from remedy.models.mixers import MIXERS, READS
from remedy.models.mixers.base import Mixer, in_chunks
from remedy.models.mixers.short_convolution import ShortConvolution

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

CHUNK = 32
"""Tokens in a chunk."""
WIDTHS = (16, 32, 64, 128)
"""Channels of a head that flash-linear-attention's kernel takes."""
STEPS = 576
RANK = 32
"""Rank of the projection to w."""
WINDOW = 3
"""Width of w's convolution."""


@MIXERS.register("path_attention")
class PaTHAttention(Mixer):
    """Attention whose keys are transformed by every later token (Yang et al., 2025).

    w is a low-rank projection, convolved and normalised in each head (flash-linear-attention, `fla/layers/path_attn.py`); here the
    convolution has a bias. beta is in (0, 2) as published, or in (0, 1) with `eigenvalues` positive. The forget gate of PaTH-FoX is
    left out. There is no window, since past keys depend on all later tokens.
    """

    reads = READS["path_attention"]
    state_flops = 4.0  # as attention, and a transformation of every earlier key

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.head_dim = width // self.heads
        self.beta_max = 2.0 if self.eigenvalue_range(config.eigenvalues) == "signed" else 1.0
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.w_down, self.w_up = nn.Linear(width, RANK, bias=False), nn.Linear(RANK, width, bias=False)
        self.convolution = ShortConvolution(width, layer, WINDOW)
        self.beta_proj = nn.Linear(width, self.heads, bias=True)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        w = self.convolution(self.w_up(self.w_down(x)), cache)
        q, k, v, w = (
            part.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)
            for part in (*self.qkv_proj(x).chunk(3, dim=-1), w)
        )
        w = F.normalize(w.float(), dim=-1)  # in float32: rounded, w is no unit vector, and H no reflection
        beta = self.beta_max * torch.sigmoid(self.beta_proj(x).float()).transpose(1, 2)
        past = (None, None, None) if cache is None else cache.transformed_keys(self.layer)
        y, keys = compute("path_attention", v.dtype, q, k, v, w, beta, *past)
        if cache is not None:
            cache.replace_keys(keys, v, self.layer)
        return self.out_proj(y.to(x.dtype).transpose(1, 2).flatten(2))

    def operations(self) -> list[Use]:
        return [("path_attention", (self.head_dim,))]

    def state_floats(self) -> tuple[int, int]:
        return 0, 2 * self.heads * self.head_dim


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
    """Attend in chunks, and transform all keys.

    q, k, w (B, H, T, K), |w| = 1, v (B, H, T, V), beta (B, H, T). `keys` (B, H, P, K), transformed by earlier tokens, and `values` (B,
    H, P, V); `real` (B, 1, 1, P): those that are no padding, by default all. Returns (B, H, T, V) and (B, H, P + T, K).

    With L = (I + tril(diag(beta) W W^T, -1))^-1 of a chunk, H_1 ... H_i q_i is row i of Q - tril(Q W^T) L diag(beta) W, and k_j^T
    H_{j+1} ... H_i q_i is element (i, j) of tril(Q K^T) - tril(Q W^T) L tril(diag(beta) W K^T, -1).
    """
    steps, width = q.shape[2:]
    past = 0 if keys is None else keys.shape[2]
    # (B, H, chunks, S, K), padded: beta = 0 changes no key, and outputs of padding are dropped.
    q, k, v, w, beta = in_chunks(chunk, 2, q * width**-0.5, k, v, w, beta)
    all_values, size = v.flatten(2, 3), k.shape[3]
    all_values = all_values if values is None else torch.cat([values, all_values], 2)
    scaled_lines = beta[..., None] * w

    causal = torch.ones(size, size, dtype=q.dtype, device=q.device).tril()
    strict = causal.tril(-1)
    right_side = torch.cat([scaled_lines, scaled_lines @ k.transpose(-1, -2) * strict], -1)
    solved = torch.linalg.solve_triangular(
        scaled_lines @ w.transpose(-1, -2) * strict, right_side, upper=False, unitriangular=True
    )
    solved_w, solved_k = solved.split([width, size], -1)  # L diag(beta) W, and L tril(diag(beta) W K^T, -1)
    reflected = q @ w.transpose(-1, -2) * causal
    own_scores = (q @ k.transpose(-1, -2) - reflected @ solved_k).masked_fill(causal == 0, float("-inf"))
    from_start = q - reflected @ solved_w
    at_end = k - solved_k.transpose(-1, -2) @ w

    if keys is None:
        keys = k.new_zeros(*k.shape[:2], 0, width)
    outputs = []
    # Unbound at once: an index's backward pass would fill a tensor of the whole sequence for every chunk.
    for number, parts in enumerate(zip(*(x.unbind(2) for x in (from_start, own_scores, solved_w, w, at_end)))):
        query, scores, removal, lines, new = parts
        earlier = query @ keys.transpose(-1, -2)
        if real is not None:
            earlier = torch.cat([earlier[..., :past].masked_fill(~real, float("-inf")), earlier[..., past:]], -1)
        weights = torch.cat([earlier, scores], -1).softmax(-1)
        outputs.append(weights @ all_values[:, :, : past + (number + 1) * size])
        keys = torch.cat([keys - (keys @ removal.transpose(-1, -2)) @ lines, new], 2)
    return torch.cat(outputs, 2)[:, :, :steps], keys[:, :, : past + steps]


def _parallel(q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Call the kernel, with time before heads.

    It holds w in float16 between chunks; for wide heads in float32 its error exceeds the limit.
    """
    from fla.ops.path_attn import parallel_path_attn

    q, k, v = (x.to(v.dtype).transpose(1, 2).contiguous() for x in (q, k, v))
    w, beta = (x.float().transpose(1, 2).contiguous() for x in (w, beta))
    y, keys = parallel_path_attn(q, k, v, w, beta, use_cache=True)
    return y.transpose(1, 2), keys.transpose(1, 2).float()


def _fits(q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, keys: Any, values: Any, real: Any) -> bool:
    return q.shape[2] > 1 and keys is None and q.shape[-1] in WIDTHS and v.shape[-1] in WIDTHS


def _example(dtype: torch.dtype, width: int) -> tuple[Any, ...]:
    q, k, v = (torch.randn(1, 1, STEPS, width, dtype=dtype) for _ in range(3))
    w = F.normalize(torch.randn(1, 1, STEPS, width), dim=-1)
    return q, k, v, w, 2 * torch.rand(1, 1, STEPS), None, None, None


OPERATIONS["path_attention"] = Operation(
    reference=attend_chunked,
    widths=lambda q, k, v, *rest: (k.shape[-1],),
    example=_example,
    kernel=_parallel,
    takes=_fits,
)
