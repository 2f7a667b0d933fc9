"""Devices of a model's weights and inputs: one, or all of the machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from remedy.models.protocol import CausalLM

WEIGHTS = 0.75
"""How much of a device's free memory weights may take where they are spread: states and logits need the rest."""


def spread(model: CausalLM, room: Mapping[int | str, int] | None = None, folder: str | None = None) -> CausalLM:
    """Lay a model's layers one after another on all GPUs, evenly, and those for which they have no room in main memory, from where
    each is fetched when it is needed (`device_map: auto` of accelerate).

    `room`: bytes that weights may take of each device, by number, and of `cpu`, by default all of that, where they lie already; what
    is left over lies in a `folder`.
    """
    from accelerate import dispatch_model, infer_auto_device_map
    from accelerate.utils import get_balanced_memory, get_max_memory

    module: Any = model
    if room is None:
        room = {place: int(WEIGHTS * free) for place, free in get_max_memory().items()} | {"cpu": sys.maxsize}
    whole = list(module._no_split_modules or ())
    most = get_balanced_memory(module, dict(room), no_split_module_classes=whole)
    places = infer_auto_device_map(module, most, no_split_module_classes=whole)
    placed: CausalLM = dispatch_model(module, places, offload_dir=folder)
    return placed


def input_device(model: CausalLM) -> torch.device:
    """Find the device of a model's inputs: that of its embeddings; where these are fetched when they are needed, the one they are
    fetched to."""
    table = model.get_input_embeddings()
    device: torch.device = table.weight.device
    if device.type != "meta":
        return device
    hooks = getattr(table._hf_hook, "hooks", (table._hf_hook,))
    return torch.device(next(hook.execution_device for hook in hooks if hasattr(hook, "execution_device")))


def weights_of(model: CausalLM) -> Mapping[str, Tensor]:
    """All weights and buffers that are saved, by name; those that are fetched when they are needed, fetched."""
    found = model.state_dict()
    if not any(tensor.is_meta for tensor in found.values()):
        return found
    from accelerate.utils.modeling import get_state_dict_offloaded_model

    module: Any = model
    fetched: Mapping[str, Tensor] = get_state_dict_offloaded_model(module)
    return {name: fetched[name] for name in found}
