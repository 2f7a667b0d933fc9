"""Loading of checkpoints for evaluation, onto one device or several."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from remedy.files import replace_file, writing
from remedy.models import decoder
from remedy.models import tokenizer as tokenizers
from remedy.models.card import write_card
from remedy.models.decoder_config import DecoderConfig
from remedy.models.hub_loading import no_larger_than_its_files, read, read_model, refuse_vast
from remedy.models.mixers.used_kernels import describe_kernels, find_kernels
from remedy.models.model_manifest import ADAPTER_FILE, CONFIG_FILE, SEAL, check_model, seal_model
from remedy.models.pretrained import (
    adapter_settings,
    fit_tokenizer,
    four_bit_options,
    is_in_4bit,
    load_adapted,
    trained_in_4bit,
)
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.models.tokenizer_backends import HuggingFaceSettings
from remedy.owner import owned
from remedy.settings import UserError

TOKENIZERS = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken")
WEIGHTS = 0.75  # share of a device's free memory for weights; caches and logits need the rest


def spread(model: CausalLM, room: Mapping[int | str, int] | None = None, folder: str | None = None) -> CausalLM:
    """Spread a model's layers over all GPUs, and the rest over main memory.

    `room`: bytes by device number and `cpu`, by default all; the rest goes to `folder`.
    """
    from accelerate import dispatch_model, infer_auto_device_map
    from accelerate.utils import get_balanced_memory, get_max_memory

    module: Any = model
    if room is None:
        room = {device: int(WEIGHTS * free) for device, free in get_max_memory().items()} | {"cpu": sys.maxsize}
    unsplit = list(module._no_split_modules or ())
    limits = get_balanced_memory(module, dict(room), no_split_module_classes=unsplit)
    device_map = infer_auto_device_map(module, limits, no_split_module_classes=unsplit)
    dispatched: CausalLM = dispatch_model(module, device_map, offload_dir=folder)
    return dispatched


def input_device(model: CausalLM) -> torch.device:
    """Return the device of a model's inputs, also if weights are fetched when needed."""
    table = model.get_input_embeddings()
    device: torch.device = table.weight.device
    if device.type != "meta":
        return device
    hooks = getattr(table._hf_hook, "hooks", (table._hf_hook,))
    return torch.device(next(hook.execution_device for hook in hooks if hasattr(hook, "execution_device")))


def weights_of(model: CausalLM) -> Mapping[str, Tensor]:
    """Return all saved weights and buffers by name, fetching those on other devices."""
    weights = model.state_dict()
    if not any(tensor.is_meta for tensor in weights.values()):
        return weights
    from accelerate.utils.modeling import get_state_dict_offloaded_model

    module: Any = model
    fetched: Mapping[str, Tensor] = get_state_dict_offloaded_model(module)
    return {name: fetched[name] for name in weights}


log = logging.getLogger(__name__)

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_checkpoint(
    path: str,
    device: str | None = None,
    precision: str | None = None,
    load_in_4bit: bool | None = None,
    device_map: str | None = None,
) -> tuple[CausalLM, TraceTokenizer]:
    """Load a model in evaluation mode, and its tokenizer.

    `device`: by default a GPU if present. `precision`: by default float32 on a CPU, else as saved. `load_in_4bit`: NF4, also below
    adapters; by default as these were trained. `device_map`: `auto` spreads the model over all GPUs.

    Raises:
        UserError: the checkpoint cannot be read or placed so, or has changed since its training ended.
    """
    if device_map is not None and not torch.cuda.is_available():
        raise UserError(f"device_map {device_map} does nothing without a GPU: remove it")
    folder = Path(path)
    check_model(folder)
    if (folder / ADAPTER_FILE).exists():
        tokenizer = tokenizers.load(folder)
        four_bit = trained_in_4bit(folder) if load_in_4bit is None else load_in_4bit
        dtype = _dtype(device, precision)
        adapted = load_adapted(folder, tokenizer, dtype, _device_options(dtype, device, device_map, four_bit))
        return _on_device(adapted, device, device_map).eval(), tokenizer
    config, tokenizer = _read(path)
    if load_in_4bit and isinstance(config, DecoderConfig):
        raise UserError(f"load_in_4bit: {path} is a decoder of this project's own, which is read as it is: remove it")
    options: dict[str, Any] = {"dtype": _dtype(device, precision)}
    # New rows are drawn on the CPU, to be the same on all devices.
    if load_in_4bit or tokenizer.vocab_size <= (getattr(config, "vocab_size", None) or 0):
        options |= _device_options(options["dtype"], device, device_map, bool(load_in_4bit))
    model: Any = read_model(path, f"checkpoint {path}: weights cannot be read", **options)
    fit_tokenizer(model, tokenizer)
    model = _on_device(model, device, device_map).eval()
    if isinstance(model, decoder.DecoderForCausalLM) and model.device.type == "cuda":
        find_kernels(model.mixers(), model.device, model.dtype)
        log.info("mixers: %s", describe_kernels(model.mixers(), model.device, model.dtype))
    return model, tokenizer


def _device_options(
    dtype: torch.dtype | str, device: str | None, device_map: str | None, four_bit: bool
) -> dict[str, Any]:
    if four_bit:
        return four_bit_options(dtype, device_map or _device(device))
    # Loaded straight to a GPU: parallel processes would fill main memory.
    return {"device_map": {"": _device(device)}} if device_map is None and _device(device) != "cpu" else {}


def _on_device(model: Any, device: str | None, device_map: str | None) -> Any:
    if is_in_4bit(model):
        return model
    return spread(model) if device_map is not None else model.to(_device(device))


def load_outline(path: str) -> tuple[CausalLM, TraceTokenizer]:
    """Load the tokenizer, and the model without weights, for use with a server.

    Raises:
        UserError: the checkpoint cannot be read, or holds adapters.
    """
    if (Path(path) / ADAPTER_FILE).exists():
        raise UserError(
            f"{path}: holds adapters, and servers refuse those with rows of tokens: give `remedy merge {path} --out MERGED`, serve "
            "MERGED, and evaluate it"
        )
    config, tokenizer = _read(path)
    with no_larger_than_its_files(path), torch.device("meta"):
        model: Any = read(f"checkpoint {path}", lambda: AutoModelForCausalLM.from_config(config))
    return model.eval(), tokenizer


def _read(path: str) -> tuple[PretrainedConfig, TraceTokenizer]:
    folder = Path(path)
    refuse_vast(path)
    config: PretrainedConfig = read(
        f"checkpoint {path}: not a model folder or a reachable model",
        lambda: AutoConfig.from_pretrained(path, trust_remote_code=False),
    )
    if isinstance(config, DecoderConfig) or (folder / tokenizers.FILE).exists():
        tokenizer = tokenizers.load(folder)
    elif folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in TOKENIZERS):
        raise UserError(
            f"checkpoint {path}: there is no tokenizer beside the model: copy its files (tokenizer.json, tokenizer_config.json) "
            "into the folder"
        )
    else:
        tokenizer = tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path=path))
    if isinstance(config, DecoderConfig) and config.tokenizer_fingerprint != tokenizer.fingerprint:
        raise UserError(
            f"checkpoint {path}: trained with tokenizer {config.tokenizer_fingerprint}, "
            f"but {tokenizers.FILE} is {tokenizer.fingerprint}; put the run's own file back"
        )
    return config, tokenizer


def merge(path: str, out: Path) -> list[str]:
    """Write a LoRA run as one model with its tokenizer, and return remarks on it.

    Raises:
        UserError: there are no readable adapters, another process writes to `out`, or it holds a model.
    """
    folder = Path(path)
    if not (folder / ADAPTER_FILE).exists():
        raise UserError(f"{path}: no {ADAPTER_FILE} there; only a run with model.lora has adapters to merge")
    check_model(folder)
    if (out / SEAL).exists():
        raise UserError(f"--out {out}: already holds a model ({SEAL}); choose another folder, or delete it")
    tokenizer, stored = tokenizers.load(folder), folder / CONFIG_FILE
    with owned(out):
        with writing(out):
            load_adapted(folder, tokenizer).save_pretrained(out)
            tokenizer.save(out)
        if stored.exists():  # evaluations read the data's settings from it
            replace_file(out / CONFIG_FILE, lambda partial: partial.write_bytes(stored.read_bytes()))
            write_card(out)
        seal_model(out)
    adapters: Any = adapter_settings(folder)
    remarks = []
    if trained_in_4bit(folder):
        remarks.append(
            f"the adapters were trained on {adapters.base_model_name_or_path} in 4 bits, and are merged into its weights as they are: "
            f"it computes something else than {path} does, so evaluate it too"
        )
    if adapters.trainable_token_indices or adapters.modules_to_save:
        remarks.append(
            "rows of tokens were trained beside the adapters: vLLM serves no such adapters, but the merged model holds the rows"
        )
    return remarks


def _device(device: str | None) -> str:
    # With its index: a loader's threads would use device 0.
    return device or (f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu")


def _dtype(device: str | None, precision: str | None) -> torch.dtype | str:
    if precision is not None:
        return PRECISIONS[precision]
    # On a CPU half precision is no faster for single tokens, and predicts other tokens.
    return torch.float32 if _device(device) == "cpu" else "auto"
