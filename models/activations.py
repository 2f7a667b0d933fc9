"""Activations that a training step keeps for the backward pass: counted on shapes alone, nothing is computed."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.modeling_layers import GradientCheckpointingLayer

from remedy.models.protocol import CausalLM


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
