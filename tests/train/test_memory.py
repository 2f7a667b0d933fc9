"""Weights, gradients and optimizer state against DeepSpeed's own estimators, loss and activations against what is really held."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.train import losses
from remedy.train.config import TrainSettings
from remedy.train.losses import Head, mean_loss
from remedy.train.memory import NF4, ParameterCounts, activations, loss_bytes, model_states

P = ParameterCounts(1_000_000, 0, 0, 40_000)


def settings(precision: str = "bf16", **deepspeed: object) -> TrainSettings:
    return TrainSettings.model_validate({"precision": precision, "batch_size": 64, "deepspeed": deepspeed})


@pytest.mark.parametrize(
    ("stage", "offload"), [(2, "none"), (2, "optimizer"), (3, "none"), (3, "optimizer"), (3, "all")]
)
def test_stages_are_deepspeeds_estimates(stage: int, offload: str) -> None:
    gpus = 8
    found = model_states(P, settings(stage=stage, offload=offload), gpus, lora=False)
    if stage == 2:
        two = pytest.importorskip("deepspeed.runtime.zero.stage_1_and_2")
        host, gpu = two.estimate_zero2_model_states_mem_needs(P.trained, gpus, 1, offload != "none")
    else:
        three = pytest.importorskip("deepspeed.runtime.zero.stage3")
        host, gpu, layer = three.estimate_zero3_model_states_mem_needs(
            P.trained, P.largest, gpus, 1, offload != "none", offload == "all"
        )
        assert found.gathered == layer
    assert sum(found._replace(host=0.0)) == pytest.approx(gpu, abs=1)
    if offload != "none":
        assert found.host == pytest.approx(host, abs=1)


def test_without_deepspeed_adam_takes_sixteen_bytes_and_frozen_weights_their_precision() -> None:
    counts = ParameterCounts(10, 100, 60, 20)
    plain = TrainSettings(precision="bf16")
    assert sum(model_states(counts, plain, 1, lora=True)) == 16 * 10 + 2 * 100
    assert model_states(counts, plain, 2, lora=True).gradients == 8 * 10  # the buckets of DistributedDataParallel
    assert model_states(counts, plain, 1, lora=True, four_bit=True).weights == 4 * 10 + NF4 * 60 + 4 * 40


class Live(TorchDispatchMode):
    """Bytes of all storages that are made while it lasts, at their highest."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen: set[int] = set()

    def freed(self, key: int, size: int) -> None:
        self.now -= size
        self.seen.discard(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {x.untyped_storage()._cdata for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)}
        found = func(*args, **kwargs)
        for tensor in found if isinstance(found, tuple | list) else (found,):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                if key not in self.seen and key not in given:  # no view of what was there before
                    self.seen.add(key)
                    self.now += size
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self.freed, key, size)
        return found


@pytest.mark.parametrize(
    ("trained", "chunk", "accumulated"), [(True, 40, True), (True, 1000, False), (False, 40, True)]
)
def test_the_losss_memory_is_what_is_held(
    trained: bool, chunk: int, accumulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, width, tokens = 5000, 16, 200
    monkeypatch.setattr(losses, "CHUNK", chunk * words)
    torch.manual_seed(0)
    sizes = {"hidden_size": width, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model: Any = LlamaForCausalLM(LlamaConfig(vocab_size=words, **sizes))  # type: ignore[arg-type]
    model.model.requires_grad_(False)
    model.model.norm.requires_grad_(True)  # so that hidden states have gradients
    model.lm_head.requires_grad_(trained)
    head, ids = Head(model), torch.randint(words, (2, tokens))
    if trained and accumulated:
        model.lm_head.weight.grad = torch.zeros(words, width)
    with Live() as live:
        with head.learning(ids):
            loss = mean_loss(model(ids), ids)
        loss.backward()  # type: ignore[no-untyped-call]
    planned = loss_bytes(2 * tokens, words, model.lm_head, 4, accumulated)
    counted_elsewhere = 4 * words * width if trained and not accumulated else 0  # the gradient itself
    assert 1 / 1.15 < (planned + counted_elsewhere) / live.peak < 1.15


ROWS, TOKENS, VOCABULARY = 4, 150, 96
FACTOR = 1.15
"""How far a plan may be from what is really kept."""


def build(name: str) -> Any:
    if name == "llama":
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
        return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, **shape))
    settings = DecoderSettings(mixers=(name,), num_hidden_layers=3)
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return DecoderForCausalLM(DecoderConfig.from_settings(settings, VOCABULARY, "none", **tokens))


def without_weights(name: str) -> Any:
    with torch.device("meta"):
        return build(name)


def really_kept(model: Any) -> int:
    """Bytes of the storages, weights not among them, that a step with a loss keeps for its backward pass."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    alive: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            alive.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    ids = torch.randint(VOCABULARY, (ROWS, TOKENS), generator=torch.Generator().manual_seed(0))
    padded = torch.ones_like(ids)
    padded[0, TOKENS // 2 :] = 0  # as the Trainer's batches are
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(input_ids=ids, attention_mask=padded, labels=ids, use_cache=False).loss
    loss.backward()
    return sum(tensor.untyped_storage().nbytes() for tensor in alive.values())


@pytest.mark.parametrize("name", ["attention", "mamba2", "deltanet", "rwkv7", "path_attention", "llama"])
def test_activations_are_those_that_autograd_keeps(name: str) -> None:
    planned = activations(without_weights(name), ROWS, TOKENS)
    # Of the loss autograd keeps the log-softmax; logits and gradient are not saved tensors.
    loss = ROWS * TOKENS * VOCABULARY * 4
    model = build(name).train()
    assert 1 / FACTOR < (planned.whole + loss) / really_kept(model) < FACTOR
    model.gradient_checkpointing_enable({"use_reentrant": False})
    # What is computed again for the backward pass is one layer's, and not kept at the forward pass's end.
    forward = planned.checkpointed - max(planned.layers)
    assert 1 / FACTOR < (forward + loss) / really_kept(model) < FACTOR
    assert planned.checkpointed < planned.whole


def test_activations_grow_with_rows_and_shrink_in_half_precision() -> None:
    model = without_weights("attention")
    one, two = (activations(model, rows, TOKENS).whole for rows in (1, 2))
    half = [activations(model, 2, TOKENS, torch.bfloat16, autocast).whole for autocast in (True, False)]
    assert 1.9 * one < two <= 2 * one
    assert max(half) < 0.9 * two
