"""Learning in bfloat16 on a CPU: attention and adapters against the same arithmetic written out in float32."""

from __future__ import annotations

from typing import Any

import peft
import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from remedy.models import cpu_training
from remedy.models.cpu_training import ATTENTION, attention, precision_advice, use_fast_layers

BATCH, TOKENS, SIZE = 2, 23, 8
EARLIER = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
PACKED = EARLIER & torch.block_diag(torch.ones(9, 9), torch.ones(14, 14)).bool()
WINDOW = EARLIER & ~EARLIER.tril(-5)
PRESENT = torch.arange(TOKENS)[None] >= torch.tensor([[0], [6]])
MASKS: dict[str, Tensor | None] = {
    "causal": None,
    "padded on the right": (EARLIER & PRESENT.flip(1)[:, None])[:, None],
    "padded on the left": (EARLIER & PRESENT[:, None])[:, None],
    "packed": PACKED[None, None],
    "window": WINDOW.expand(BATCH, 1, -1, -1),
    "all": torch.ones(1, 1, 1, TOKENS, dtype=torch.bool),
    "added": torch.randn(BATCH, 1, TOKENS, TOKENS, generator=torch.Generator().manual_seed(0)).masked_fill(
        ~EARLIER, -1e9
    ),
}


def eager(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    heads = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(heads, 1) for part in (key, value))
    scores = query @ key.mT * scale
    scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(-1).nan_to_num() @ value


@pytest.mark.parametrize("block", [5, 64])
@pytest.mark.parametrize("shared", [1, 3])
@pytest.mark.parametrize("kind", MASKS)
def test_attention_and_its_gradients_are_those_of_eager_attention(
    kind: str, shared: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_training, "QUERIES", block)
    draw, mask = torch.Generator().manual_seed(1), MASKS[kind]
    exact = [torch.randn(BATCH, heads, TOKENS, SIZE, generator=draw) for heads in (2 * shared, 2, 2)]
    exact = [part.bfloat16().float().requires_grad_() for part in exact]
    ours = [part.detach().bfloat16().requires_grad_() for part in exact]
    given = torch.randn(BATCH, TOKENS, 2 * shared, SIZE, generator=draw).bfloat16()

    module = nn.Module()
    module.num_key_value_groups = shared  # type: ignore[assignment]
    low = mask.bfloat16() if mask is not None and mask.is_floating_point() else mask
    found, _ = attention(module, *ours, low, scaling=0.3)
    wanted = eager(*exact, EARLIER if mask is None else mask, 0.3).transpose(1, 2)
    if kind == "padded on the left":  # what sees nothing is of no use, and PyTorch's attention may say anything there
        given = given * PRESENT[:, :, None, None]
        found, wanted = (part * PRESENT[:, :, None, None] for part in (found, wanted))
    torch.testing.assert_close(found.float(), wanted, atol=0.02, rtol=0.02)
    found.backward(given)
    wanted.backward(given.float())
    for low_part, part in zip(ours, exact):
        assert part.grad is not None
        assert low_part.grad is not None
        assert (low_part.grad.float() - part.grad).norm() < 0.015 * part.grad.norm(), kind


def test_what_the_attention_does_not_compute_is_the_librarys() -> None:
    query, key = (torch.randn(1, 2, n, 4, requires_grad=True) for n in (3, 5))
    module = nn.Module()
    for low, kept, options in (
        (torch.float32, query, {}),
        (torch.bfloat16, key, {}),
        (torch.bfloat16, query, {"dropout": 1.0}),
    ):
        parts = [part.to(low) for part in (query, kept, kept)]
        found, _ = attention(module, *parts, None, is_causal=False, **options)
        with torch.no_grad():
            again, _ = attention(module, *parts, None, is_causal=False, **options)
        assert "_Attention" not in str(found.grad_fn.next_functions)
        assert torch.equal(found, again)


def tiny_llama() -> Any:
    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 24, "intermediate_size": 32, "num_attention_heads": 6, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=50, num_hidden_layers=2, **sizes))


def losses_and_gradients(model: Any) -> dict[str, Tensor]:
    tokens = torch.arange(40).view(2, 20)
    loss = model(tokens, attention_mask=(tokens < 36).long(), labels=tokens).loss
    loss.backward()
    gradients = {name: part.grad.float() for name, part in model.named_parameters() if part.grad is not None}
    return {"loss": loss.detach().float(), **gradients}


@pytest.mark.parametrize("options", [{}, {"lora_dropout": 0.5}, {"use_dora": True}, {"lora_bias": True}], ids=str)
def test_a_model_with_adapters_learns_what_it_would_by_pefts_own(options: dict[str, Any]) -> None:
    settings = peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", **options)
    model: Any = peft.get_peft_model(tiny_llama().bfloat16(), settings, autocast_adapter_dtype=False)
    for name, part in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(part, std=0.3)
    torch.manual_seed(1)
    wanted = losses_and_gradients(model)
    model.zero_grad()
    use_fast_layers(model)
    replaced = sum("forward" in vars(module) for module in model.modules())
    assert replaced == (7 if options else 21)  # norms and attention; linear layers too
    assert model.get_base_model().config._attn_implementation == ATTENTION
    torch.manual_seed(1)
    found = losses_and_gradients(model)
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() < 0.1 * gradient.norm(), name
    tokens = torch.arange(8)[None]
    with torch.no_grad(), model.disable_adapter():
        assert torch.equal(model(tokens).logits, tiny_llama().bfloat16()(tokens).logits)


def test_other_attention_is_left_alone() -> None:
    model = tiny_llama()
    model.set_attn_implementation("eager")
    use_fast_layers(model)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("precision", "able", "advised"),
    [
        ("fp32", {"amx_tile": True}, "bf16"),
        ("bf16", {"amx_tile": True}, None),
        ("bf16", {}, "fp32"),
        ("fp32", {}, None),
    ],
)
def test_the_faster_precision_of_a_processor_is_named(
    precision: str, able: dict[str, bool], advised: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    advice = precision_advice(precision)
    assert (advice is None) if advised is None else f"train.precision={advised}" in str(advice)
