"""Faster training of pretrained models in bfloat16 on a CPU.

A step spends most of its time beside matrix products. Each part here computes what the library's own does, up to rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from remedy.models.protocol import CausalLM

ATTENTION = "remedy_cpu"
"""The attention's name among those of Transformers."""
QUERIES = 256
"""Queries of an example whose probabilities are in memory at once in the backward pass."""


def precision_advice(precision: str) -> str | None:
    """Say which precision multiplies matrices faster on this processor, if it is another one."""
    able = torch.cpu.get_capabilities()
    if precision == "fp32" and able.get("amx_tile"):
        return "matrix products in bf16 are about 7 times as fast on this processor: train.precision=bf16"
    if precision == "bf16" and not (able.get("amx_tile") or able.get("avx512_bf16")):
        return "this processor has no instructions for bf16, which is slower here: train.precision=fp32"
    return None


def use_fast_layers(model: CausalLM) -> None:
    """Let a model learn by this module's attention where it uses PyTorch's, and by its adapters where they are plain LoRA."""
    whole: Any = model
    if hasattr(whole, "peft_config"):
        from peft.tuners.lora import Linear

        for module in whole.modules():
            if type(module) is Linear and _is_plain(module):
                module.forward = partial(_adapted, module, module.forward)  # type: ignore[method-assign]
        whole = whole.get_base_model()
    if whole.config._attn_implementation == "sdpa":
        whole.set_attn_implementation(ATTENTION)


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
    """Attend as Transformers' `sdpa` does; in bfloat16, where something is learnt, with another backward pass."""
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (part.to(torch.get_autocast_dtype("cpu")) for part in (query, key, value))
    ours = torch.is_grad_enabled() and query.dtype is torch.bfloat16 and query.shape[2] == key.shape[2]
    if not ours or dropout or kwargs.get("position_bias") is not None:
        options: dict[str, Any] = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal, **kwargs}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    attended: Tensor = _Attention.apply(query, key, value, attention_mask, scale, is_causal and attention_mask is None)
    return attended.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


class _Attention(torch.autograd.Function):
    """PyTorch's attention forward, and backward matrix products over blocks of queries, whose probabilities are computed again.

    Query (B, H, T, D), key and value (B, K, T, D) with K a divisor of H. The mask broadcasts to (B, H, T, T): true where a query sees
    a key, or added to the scores.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, scale: float, causal: bool) -> Tensor:
        ctx.save_for_backward(query, key, value, mask)
        ctx.scale, ctx.causal = scale, causal
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=True
        )

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask = ctx.saved_tensors
        heads, tokens = query.shape[1], query.shape[2]
        keys, values = key.flatten(0, 1), value.flatten(0, 1)
        by_query = torch.empty(query.shape, dtype=query.dtype)
        by_key, by_value = (torch.zeros(part.shape) for part in (keys, values))
        if ctx.causal:
            mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        for start in range(0, tokens, QUERIES):
            part = slice(start, min(start + QUERIES, tokens))
            given, bias, end = gradient[:, :, part], None, tokens
            if mask is not None:
                bias = mask.expand(*mask.shape[:-2], tokens, tokens)[..., part, :]
            if bias is not None and bias.dtype is torch.bool:
                end = int(bias.flatten(0, -2).any(0).nonzero().amax()) + 1 if bias.any() else 1
                seen = bias[..., :end]
                given = given.masked_fill(~seen.any(-1, keepdim=True), 0)  # who sees nothing attends to nothing
                lowest = torch.finfo(query.dtype).min
                bias = torch.zeros(seen.shape, dtype=query.dtype).masked_fill_(~seen, lowest)
            # Queries that share a head of keys are rows of one matrix.
            asked = (query[:, :, part] * ctx.scale).reshape(len(keys), -1, query.shape[-1])
            given = given.reshape(len(keys), -1, value.shape[-1])
            scores = torch.bmm(asked, keys[:, :end].transpose(1, 2))
            if bias is not None:
                scores.view(len(query), heads, -1, end).add_(bias)
            likely = scores.softmax(-1)
            change = torch.bmm(given, values[:, :end].transpose(1, 2))
            change = torch._softmax_backward_data(change, likely, -1, query.dtype)
            by_query[:, :, part] = (
                torch.bmm(change, keys[:, :end]).mul_(ctx.scale).view(len(query), heads, -1, query.shape[-1])
            )
            by_key[:, :end] += torch.bmm(change.transpose(1, 2), asked)
            by_value[:, :end] += torch.bmm(likely.transpose(1, 2), given)
        return by_query, by_key.to(key.dtype).view_as(key), by_value.to(value.dtype).view_as(value), None, None, None


def _is_plain(module: Any) -> bool:
    """Say if a layer of PEFT's adds one LoRA without dropout, bias or variant to a linear layer."""
    if len(module.lora_A) != 1 or module.lora_variant or type(module.base_layer) is not nn.Linear:
        return False
    name = next(iter(module.lora_A))
    return isinstance(module.lora_dropout[name], nn.Identity) and module.lora_B[name].bias is None


def _adapted(module: Any, slow: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A layer with its adapter; by PEFT's own forward pass where the adapter is switched off, merged or in another precision."""
    name = next(iter(module.lora_A))
    low, high = module.lora_A[name].weight, module.lora_B[name].weight
    plain = not (args or kwargs or module.disable_adapters or module.merged) and module.active_adapters == [name]
    if not plain or not x.dtype == low.dtype == high.dtype == module.base_layer.weight.dtype:
        return slow(x, *args, **kwargs)  # type: ignore[no-any-return]
    layer = module.base_layer
    return _Adapted.apply(x, layer.weight, layer.bias, low, high, module.scaling[name])  # type: ignore[no-any-return]


class _Adapted(torch.autograd.Function):
    """A frozen linear layer plus LoRA, `x W' + b + scale (x A') B'`, whose sums are made within matrix products."""

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
        given = gradient.flatten(0, -2)
        by_inner = (given @ high).mul_(ctx.scale)
        by_x = (given @ weight).addmm_(by_inner, low) if ctx.needs_input_grad[0] else None
        by_high = (given.t() @ inner).mul_(ctx.scale)
        return (
            by_x.view(*gradient.shape[:-1], -1) if by_x is not None else None,
            None,
            None,
            by_inner.t() @ rows,
            by_high,
            None,
        )
