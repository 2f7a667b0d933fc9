"""Memory of a run on one GPU: weights, gradients, optimizer state and loss by formulas, activations counted on shapes alone."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.modeling_layers import GradientCheckpointingLayer

from remedy.models.protocol import CausalLM
from remedy.train.arguments import zero_section
from remedy.train.config import TrainSettings
from remedy.train.losses import tokens_at_once

ADAM = 8
"""Bytes of AdamW's two running means of a parameter, in float32."""
NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes of a 4-bit weight and its doubly quantised scales: 4.127 bits (Dettmers et al., "QLoRA", 2023, section 3)."""
BUFFER = 1.5
"""DeepSpeed's own factor for what it uses of the host's memory beyond its states (`additional_buffer_factor`)."""


class ParameterCounts(NamedTuple):
    """Parameters: trained, frozen, those of the frozen that 4 bits would hold, and the most that one module has of its own."""

    trained: int
    frozen: int
    quantisable: int
    largest: int


class ModelStates(NamedTuple):
    """Bytes on one GPU; `gathered` is the layer that ZeRO-3 makes whole; `host` is of one node's main memory, which holds all GPUs."""

    weights: float
    gradients: float
    optimizer: float
    gathered: float = 0.0
    host: float = 0.0


def parameter_counts(model: CausalLM) -> ParameterCounts:
    """The parameters of a model, shared ones once."""
    module: Any = model
    head = model.get_output_embeddings()
    of_head = {id(p) for p in head.parameters()} if head is not None else set()
    linear = {id(m.weight): m.weight for m in module.modules() if isinstance(m, nn.Linear)}
    return ParameterCounts(
        sum(p.numel() for p in module.parameters() if p.requires_grad),
        sum(p.numel() for p in module.parameters() if not p.requires_grad),
        sum(w.numel() for key, w in linear.items() if not w.requires_grad and key not in of_head),
        max(sum(p.numel() for p in m.parameters(recurse=False)) for m in module.modules()),
    )


def model_states(
    counts: ParameterCounts, settings: TrainSettings, gpus: int, lora: bool, four_bit: bool = False
) -> ModelStates:
    """Compute the bytes of parameters, gradients and optimizer under a run's settings, over the GPUs of one node.

    In bytes, with P trained parameters, F frozen ones, N GPUs and weights of w bytes (4 in float32, 2 in half precision):

    - Without DeepSpeed weights and gradients are float32 (frozen weights under LoRA in w): 4 P + w F, 4 P, 8 P. Several processes
      hold gradients a second time, in the buckets of DistributedDataParallel.
    - ZeRO (Rajbhandari et al., "ZeRO", 2020, sections 3 and 5): weights w (P + F), of stage 3 a part in N; gradients w P, of stage 2
      a part in N; AdamW's means and the float32 weights 12 P / N. To these DeepSpeed's estimators
      (`estimate_zero2_model_states_mem_needs`, `estimate_zero3_model_states_mem_needs`) add 4 P / N for float32 gradients, and to
      stage 3 the largest layer, its weights and gradients whole; in stage 3 they count no other gradients. Parameters below
      `param_persistence_threshold` are not counted whole.

    Raises:
        ConfigError: as `deepspeed_json`.
    """
    trained, frozen, half = counts.trained, counts.frozen, settings.precision != "fp32"
    size = 2 if half else 4
    # PEFT holds what is not quantised in float32.
    quantised = NF4 * counts.quantisable + 4 * (frozen - counts.quantisable)
    zero = zero_section(settings)
    stage = zero["stage"]
    if settings.deepspeed is None:
        held = quantised if four_bit else (size if lora else 4) * frozen
        return ModelStates(4 * trained + held, 4 * trained * (2 if gpus > 1 else 1), ADAM * trained)
    held = quantised if four_bit else size * frozen / (gpus if stage == 3 else 1)
    if stage == 0:
        gradients, optimizer = (size + 4, ADAM + 4) if half else (4, ADAM)
        return ModelStates(size * trained + held, gradients * trained, optimizer * trained)
    states = ModelStates(
        weights=size * trained / (gpus if stage == 3 else 1) + held,
        gradients=[size * trained + 4 * trained / gpus, (size + 4) * trained / gpus, 4 * trained / gpus][stage - 1],
        optimizer=(ADAM + 4) * trained / gpus,
        gathered=2.0 * size * counts.largest if stage == 3 else 0.0,
    )
    on_host = {key for key in zero if key.startswith("offload_") and zero[key].get("device", "none") != "none"}
    if "offload_optimizer" in on_host:
        each = max(4 * gpus, 16) if stage < 3 else 16
        kept = size * trained if stage == 1 else 0.0
        states = states._replace(gradients=kept, optimizer=0.0, host=BUFFER * each * trained)
    if "offload_param" in on_host:
        states = states._replace(weights=0.0, host=states.host + BUFFER * size * (trained + frozen))
    return states


def loss_bytes(positions: int, vocabulary: int, head: nn.Module, size: int, accumulated: bool) -> int:
    """Bytes of logits and loss at `positions`, if all are supervised: at most that.

    They are made in chunks (`train/losses.py`). Of R positions of a chunk and V tokens the backward pass holds, in float32, the
    log-softmax, its gradient and that of the logits, 12 R V; then, where the head is trained, the last beside the gradient of its V D
    weights, 4 R V + 4 V D. Of several chunks those gradients are summed: the sum is counted with the gradients, but where batches are
    `accumulated`. The hidden states of all positions are kept a second time, in `size` bytes a number.
    """
    rows = min(positions, tokens_at_once(vocabulary))
    several = positions > rows
    weights = max(p.numel() for p in head.parameters())
    trained = any(p.requires_grad and p.numel() == weights for p in head.parameters())
    chunk = max(12 * rows * vocabulary, 4 * rows * vocabulary + (4 * weights if trained and several else 0))
    return (
        positions * (weights // vocabulary) * size + chunk + (4 * weights if trained and several and accumulated else 0)
    )


class Activations(NamedTuple):
    """Bytes kept by a pass over some rows, without logits and loss: outside the layers, inside each, and each layer's input."""

    outside: int
    layers: tuple[int, ...]
    inputs: tuple[int, ...]

    @property
    def whole(self) -> int:
        """All of them, as without gradient checkpointing."""
        return self.outside + sum(self.layers)

    @property
    def checkpointed(self) -> int:
        """With gradient checkpointing every layer keeps its input alone, and one at a time is computed again (Chen et al., "Training
        deep nets with sublinear memory cost", 2016; Korthikanti et al., "Reducing activation recomputation in large
        transformer models", 2022, section 5: 2 s b h a layer in half precision)."""
        return self.outside + sum(self.inputs) + max(self.layers, default=0)


def activations(
    model: CausalLM, rows: int, tokens: int, half: torch.dtype | None = None, autocast: bool = False
) -> Activations:
    """The activations of a model, which may be on the meta device, on (rows, tokens). `half`: computed in this precision, by autocast
    or on weights that are held in it.

    Counted by `torch.autograd.graph.saved_tensors_hooks`, every storage once and weights not. That is the PyTorch path of every
    mixer as on a CPU, where attention keeps queries, keys, values, its output and a number a token and head, not the 5 a s / h
    of Korthikanti et al., 2022, equation 1, which are of attention that keeps its scores. GPU kernels of recurrent mixers keep less.
    Transformers' models are counted with the mask of padded rows, (rows, 1, tokens, tokens) in every layer, which a batch without
    padding does not need: of one row that is too much.
    """
    module: Any = model
    module.train()
    blocks = [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]
    weights: set[int] = set()
    kept = [0] * (len(blocks) + 1)  # the last: outside
    inputs = [0] * len(blocks)
    alive: dict[int, Tensor] = {}  # a storage that is freed would lend its number to another
    at = [len(blocks)]

    def pack(tensor: Tensor) -> Tensor:
        place = _storage(tensor)
        if place not in weights and place not in alive:
            alive[place] = tensor
            kept[at[0]] += tensor.untyped_storage().nbytes()
        return tensor

    def enter(number: int) -> Any:
        def hook(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            at[0] = number
            x = given[0] if given else named["hidden_states"]
            inputs[number] += x.numel() * x.element_size()

        return hook

    def leave(*_: Any) -> None:
        at[0] = len(blocks)

    with contextlib.ExitStack() as stack:
        for number, block in enumerate(blocks):
            stack.callback(block.register_forward_pre_hook(enter(number), with_kwargs=True).remove)
            stack.callback(block.register_forward_hook(leave).remove)
        stack.enter_context(FakeTensorMode())
        held = _fake(module, None if autocast else half)
        weights.update(map(_storage, held.values()))
        if half is not None and autocast:
            stack.enter_context(torch.autocast("cpu", half))
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor))
        ids = torch.zeros(rows, tokens, dtype=torch.long)
        # One position of logits, so that what the loss keeps is not among these.
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "logits_to_keep": 1, "use_cache": False}
        stack.callback(_restored, [(part, dict(part._parameters), dict(part._buffers)) for part in module.modules()])
        torch.func.functional_call(module, held, (), given)
    return Activations(kept[-1], tuple(kept[:-1]), tuple(inputs))


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _restored(before: list[tuple[nn.Module, dict[str, Any], dict[str, Any]]]) -> None:
    """Give every module its own weights again: of those that two modules share (PEFT's new rows of a table that is the head's too)
    `functional_call` leaves its own in place."""
    for part, parameters, buffers in before:
        part._parameters.update(parameters)
        part._buffers.update(buffers)


def _fake(module: nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Weights and buffers of a module by name, as tensors on the CPU that have no numbers."""
    return {
        name: torch.empty(
            tensor.shape, dtype=dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        ).requires_grad_(tensor.requires_grad)
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]
    }
