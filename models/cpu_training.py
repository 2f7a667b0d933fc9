"""Faster training of pretrained models in bfloat16 on a CPU.

Most of a step's time is not in matrix products. Each layer here computes the same as the library's, up to rounding.
"""

from __future__ import annotations

import ctypes
import platform
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.utils.weak import WeakIdKeyDictionary
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

from remedy.models.protocol import CausalLM

ATTENTION = "remedy_cpu"
"""Name of this attention in Transformers."""
QUERIES = 256
"""Queries in a block."""
Block = tuple[slice, slice, Tensor, Tensor]
BLOCKS: Any = WeakIdKeyDictionary()
"""Blocks of each mask in use."""


def precision_advice(precision: str) -> str | None:
    """Advise the precision with faster matrix products on this processor, unless it is set."""
    capabilities = torch.cpu.get_capabilities()
    if precision == "fp32" and capabilities.get("amx_tile"):
        return "matrix products in bf16 are about 7 times as fast on this processor: train.precision=bf16"
    if precision == "bf16" and not (capabilities.get("amx_tile") or capabilities.get("avx512_bf16")):
        return "this processor has no instructions for bf16, which is slower here: train.precision=fp32"
    return None


def keep_freed_memory() -> None:
    """Let glibc keep freed memory: new pages for activations take a third of a step."""
    if platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    for parameter, value in ((-1, -1), (-4, 0)):  # malloc.h: M_TRIM_THRESHOLD, unlimited; M_MMAP_MAX
        library.mallopt(parameter, value)


def use_fast_layers(model: CausalLM) -> None:
    """Replace a model's layers by equal ones of this module."""
    base: Any = model
    if hasattr(base, "peft_config"):
        from peft.tuners.lora import Linear

        for module in base.modules():
            if type(module) is Linear and _is_plain(module):
                module.forward = partial(_lora_forward, module, module.forward)  # type: ignore[method-assign]
        base = base.get_base_model()
    if base.config._attn_implementation == "sdpa":
        base.set_attn_implementation(ATTENTION)
    for module in base.modules():
        if type(module) in (LlamaRMSNorm, Qwen2RMSNorm):
            module.forward = partial(_norm_forward, module, module.forward)
        elif type(module) is LlamaAttention and base.config._attn_implementation == ATTENTION:
            module.forward = partial(_attention_forward, module, module.forward)  # type: ignore[method-assign]


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend as Transformers' `sdpa`, in bfloat16 training with a faster backward pass."""
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (part.to(torch.get_autocast_dtype("cpu")) for part in (query, key, value))
    fast = torch.is_grad_enabled() and query.dtype is torch.bfloat16 and query.shape[2] == key.shape[2]
    fast = fast and not dropout and kwargs.get("position_bias") is None
    mask = _causal(query.shape[2]) if fast and is_causal and attention_mask is None else attention_mask
    if not fast or mask is None or mask.dtype is not torch.bool:
        options: dict[str, Any] = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal, **kwargs}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output: Tensor = _BlockAttention.apply(query, key, value, _blocks(mask, query.shape[2]), scale)
    return output, None


@lru_cache(maxsize=1)
def _causal(tokens: int) -> Tensor:
    return torch.ones(1, 1, tokens, tokens, dtype=torch.bool).tril()


def _blocks(mask: Tensor, tokens: int) -> list[Block]:
    """Divide a mask (B or 1, 1, T, T) into blocks: queries, their range of keys, the mask, and the mask as an addend."""
    if mask not in BLOCKS:
        mask_of_all, blocks_of_mask = mask.expand(*mask.shape[:-2], tokens, tokens), []
        for start in range(0, tokens, QUERIES):
            queries = slice(start, min(start + QUERIES, tokens))
            keys = mask_of_all[..., queries, :].flatten(0, -2).any(0).nonzero()
            begin, end = (int(keys.amin()), int(keys.amax()) + 1) if len(keys) else (0, 1)
            seen = mask_of_all[..., queries, begin:end].clone()  # a view would keep the mask alive, and BLOCKS forever
            added = torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, torch.finfo(torch.bfloat16).min)
            blocks_of_mask.append((queries, slice(begin, end), seen, added))
        BLOCKS[mask] = blocks_of_mask
    blocks: list[Block] = BLOCKS[mask]
    return blocks


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


class _BlockAttention(torch.autograd.Function):
    """PyTorch's attention, with a backward pass by blocks that recomputes probabilities.

    Query (B, H, T, D), key and value (B, K, T, D) with K a divisor of H; returns (B, T, H, D).
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, blocks: list[Block], scale: float) -> Tensor:
        ctx.save_for_backward(query, key, value)
        ctx.blocks, ctx.scale = blocks, scale
        output = torch.empty_like(query.transpose(1, 2), memory_format=torch.contiguous_format)
        for queries, keys, seen, _ in blocks:
            part = query[:, :, queries], key[:, :, keys], value[:, :, keys]
            block_output = scaled_dot_product_attention(*part, attn_mask=seen, scale=scale, enable_gqa=True)
            output[:, queries] = block_output.transpose(1, 2)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value = ctx.saved_tensors
        all_keys, all_values = key.flatten(0, 1), value.flatten(0, 1)
        query_grad = torch.empty_like(query)
        key_grad, value_grad = (torch.zeros(part.shape) for part in (all_keys, all_values))
        for queries, keys, seen, added in ctx.blocks:
            # Queries without keys get no gradient. Queries that share a key head are rows of one matrix.
            output_grad = gradient.transpose(1, 2)[:, :, queries]
            output_grad = (output_grad * seen.any(-1, keepdim=True)).reshape(len(all_keys), -1, value.shape[-1])
            scaled_query = (query[:, :, queries] * ctx.scale).reshape(len(all_keys), -1, query.shape[-1])
            scores = torch.bmm(scaled_query, all_keys[:, keys].transpose(1, 2))
            scores.view(*query.shape[:2], -1, scores.shape[-1]).add_(added)
            probabilities = scores.softmax(-1)
            score_grad = torch.bmm(output_grad, all_values[:, keys].transpose(1, 2))
            score_grad = torch._softmax_backward_data(score_grad, probabilities, -1, query.dtype)
            block_grad = torch.bmm(score_grad, all_keys[:, keys]).mul_(ctx.scale)
            query_grad[:, :, queries] = block_grad.view(*query.shape[:2], -1, query.shape[-1])
            key_grad[:, keys] += torch.bmm(score_grad.transpose(1, 2), scaled_query)
            value_grad[:, keys] += torch.bmm(probabilities.transpose(1, 2), output_grad)
        return query_grad, key_grad.to(key.dtype).view_as(key), value_grad.to(value.dtype).view_as(value), None, None


def _attention_forward(
    module: Any,
    original: Any,
    hidden_states: Tensor,
    position_embeddings: Any,
    attention_mask: Any = None,
    **kwargs: Any,
) -> Any:
    shape = *hidden_states.shape[:-1], -1, module.head_dim
    if not torch.is_grad_enabled() or kwargs.get("past_key_values") is not None:
        return original(hidden_states, position_embeddings, attention_mask, **kwargs)
    query, key, value = (layer(hidden_states).view(shape) for layer in (module.q_proj, module.k_proj, module.v_proj))
    cos, sin = (part[:, :, None] for part in position_embeddings)
    query, key, value = (
        part.transpose(1, 2) for part in (_Rotation.apply(query, cos, sin), _Rotation.apply(key, cos, sin), value)
    )
    dropout = module.attention_dropout if module.training else 0.0
    output, _ = attention(module, query, key, value, attention_mask, dropout, module.scaling, **kwargs)
    return module.o_proj(output.flatten(2)), None


class _Rotation(torch.autograd.Function):
    """Rotary embedding of x (B, T, H, D).

    cos and sin (B, T, 1, D) have equal halves.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        ctx.cos, ctx.sin = cos[..., :half].float(), sin[..., :half].float()
        return _rotate(x, ctx.cos, ctx.sin)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _rotate(gradient, ctx.cos, -ctx.sin), None, None


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, -1)
    rotated = torch.empty(x.shape, dtype=x.dtype)
    torch.addcmul(first * cos, second, sin, value=-1, out=rotated[..., : first.shape[-1]])
    torch.addcmul(second * cos, first, sin, out=rotated[..., first.shape[-1] :])
    return rotated


def _norm_forward(module: Any, original: Any, x: Tensor) -> Tensor:
    """Apply RMSNorm, under autocast in the precision of the next matrix product."""
    autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if autocast else x.dtype
    if dtype is not torch.bfloat16 or not torch.is_grad_enabled():
        return original(x)  # type: ignore[no-any-return]
    return _RMSNorm.apply(x, module.weight, module.variance_epsilon, dtype)  # type: ignore[no-any-return]


class _RMSNorm(torch.autograd.Function):
    """RMSNorm, computed in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
        float_x = x.float()
        norm = torch.linalg.vector_norm(float_x, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return torch.mul(float_x * scale, weight, out=torch.empty(x.shape, dtype=dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        unit = x.float() * scale
        product = gradient * unit
        weight_grad = product.flatten(0, -2).sum(0).to(weight.dtype) if ctx.needs_input_grad[1] else None
        along = (product @ weight.float()).unsqueeze_(-1).div_(-x.shape[-1])
        x_grad = unit.mul_(along).addcmul_(gradient.float(), weight.float()).mul_(scale)
        return x_grad.to(x.dtype), weight_grad, None, None


def _is_plain(module: Any) -> bool:
    """Say if a PEFT layer is one LoRA without dropout, bias or variant."""
    if len(module.lora_A) != 1 or module.lora_variant or type(module.base_layer) is not nn.Linear:
        return False
    name = next(iter(module.lora_A))
    return isinstance(module.lora_dropout[name], nn.Identity) and module.lora_B[name].bias is None


def _lora_forward(module: Any, original: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    name = next(iter(module.lora_A))
    low, high = module.lora_A[name].weight, module.lora_B[name].weight
    plain = not (args or kwargs or module.disable_adapters or module.merged) and module.active_adapters == [name]
    if not plain or not x.dtype == low.dtype == high.dtype == module.base_layer.weight.dtype:
        return original(x, *args, **kwargs)  # type: ignore[no-any-return]
    layer = module.base_layer
    return _LoraLinear.apply(x, layer.weight, layer.bias, low, high, module.scaling[name])  # type: ignore[no-any-return]


class _LoraLinear(torch.autograd.Function):
    """A frozen linear layer plus LoRA, `x W' + b + scale (x A') B'`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Any, low: Tensor, high: Tensor, scale: float) -> Tensor:
        rows = x.flatten(0, -2)
        inner = rows @ low.t()
        ctx.save_for_backward(rows, weight, low, high, inner)
        ctx.scale = scale
        return linear(rows, weight, bias).addmm_(inner, high.t(), alpha=scale).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, low, high, inner = ctx.saved_tensors
        output_grad = gradient.flatten(0, -2)
        inner_grad = (output_grad @ high).mul_(ctx.scale)
        x_grad = (output_grad @ weight).addmm_(inner_grad, low) if ctx.needs_input_grad[0] else None
        high_grad = (output_grad.t() @ inner).mul_(ctx.scale)
        return (
            x_grad.view(*gradient.shape[:-1], -1) if x_grad is not None else None,
            None,
            None,
            inner_grad.t() @ rows,
            high_grad,
            None,
        )
