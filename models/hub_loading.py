"""Safe loading of untrusted models, of the hub or a folder: all weights, without running code or unpickling."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils.hooks import RemovableHandle
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME
from transformers.utils.hub import cached_file

from remedy.files import FULL, read_text
from remedy.messages import shown
from remedy.models.model_manifest import model_files
from remedy.settings import UserError

T = TypeVar("T")
PRETRAINED_FOLDER = Path("pretrained/smollm2")
"""Folder that `make pretrained` makes."""
MOST_BYTES = 1 << 26  # of a file beside weights, read into memory: the largest tokenizers have 40 MB
_LAYERS = re.compile("(layer|block)s?$")
_LARGE = re.compile("vocab|position|token|theta|base|size|len|ctx|window|dim|seed|param|factor|scale")
"""Keys of sizes, which a model's files have to hold, and of numbers that take no memory."""
PICKLES = ("*_model*.bin", "*.pt", "*.pth", "*.ckpt")
_IF_PRESENT = {f"_raise_exceptions_for_{why}": False for why in ("missing_entries", "connection_errors", "gated_repo")}
# Most weights per byte of files: two 4-bit weights, and a factor of 8 for tied tables and replaced modules.
WEIGHTS = 16


def cannot_load(what: str, name: str, key: str) -> str:
    """Return the beginning of a message on a failed load.

    `key`: the setting that names the model or tokenizer.
    """
    local = f"give the folder of a local copy as {key}, or check the hub's access"
    return f"{what} {name!r} cannot be loaded: {'run `make pretrained` again' if Path(name) == PRETRAINED_FOLDER else local}"


def read(what: str, load: Callable[[], T], kind: type[UserError] = UserError) -> T:
    """Return the result of a Transformers loader. `what`: how a message begins.

    Raises:
        UserError: it raised; of class `kind`.
    """
    try:
        return load()
    except (MemoryError, UserError):
        raise
    except BaseException as error:  # untrusted files can raise anything
        # A panic in Rust has a class that cannot be imported and is no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, OSError) and error.errno in FULL:  # the disk's fault, not the file's
            raise
        raise kind(f"{what} ({_reason(error)})") from None


def read_model(name: str, what: str, **options: Any) -> PreTrainedModel:
    """Load a causal language model, with all weights from safetensors.

    Raises:
        UserError: as `read`; weights are missing or misshapen, which would be drawn at random; or there are more than the files hold.
    """
    refuse_pickles(Path(name), what)
    refuse_vast(name)
    refuse_other_shards(name, what)
    safety = {"trust_remote_code": False, "use_safetensors": True}
    # Otherwise Transformers reports missing weights on the terminal.
    reporting = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    with no_larger_than_its_files(name):
        loaded: Any = read(what, lambda: AutoModelForCausalLM.from_pretrained(name, **safety, **reporting, **options))
    model: PreTrainedModel = loaded[0]
    missing = sorted({*loaded[1]["missing_keys"], *(key for key, *_ in loaded[1]["mismatched_keys"])})
    if missing:
        raise UserError(
            f"{what} (the files have not {len(missing)} of its weights in this shape, {missing[0]} among them, which would be random: "
            f"they are not those of a {type(model).__name__} with this config.json)"
        )
    return model


def refuse_vast(name: str) -> None:
    """Refuse huge files beside weights, absurd numbers in a configuration, and kernels of the hub.

    Raises:
        UserError: there is one.
    """
    files = {path.name: path for path in Path(name).glob("*") if path.is_file()}
    for path in (files[file] for file in model_files(files) if not file.endswith(".safetensors")):
        # Links to files such as /dev/zero have size 0 and no end.
        if not 0 < path.stat().st_size <= MOST_BYTES:
            raise UserError(f"{path}: is empty or has more than {MOST_BYTES:,} bytes, so it is not read")
    config: Any = None
    with contextlib.suppress(Exception):  # its next reader reports the error
        config = PretrainedConfig.get_config_dict(name)[0]
    # Transformers makes a list of all layers before it builds the first.
    for key, value in _entries(config, ""):
        most = 10**4 if _LAYERS.search(key) else math.inf if _LARGE.search(key) else 10**8
        least = 0 if re.search(r"\.n(um)?_\w*layers?$", key) else -math.inf
        is_kernel = "attn_implementation" in key and "/" in str(value)
        if is_kernel or (isinstance(value, int | float) and not least <= value < most):
            why = "a kernel of the hub, which is not run" if is_kernel else "and no model has that"
            raise UserError(f"{name}: {key[1:]} is {shown(value)} in its config.json, {why}")


def _entries(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _entries(inner, f"{key}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _entries(inner, key)
    else:
        yield key, value


def no_larger_than_its_files(name: str) -> RemovableHandle:
    """Return a context that refuses models with more weights than their files hold.

    Raises:
        UserError: while the model is built.
    """
    size, total = sum(path.stat().st_size for path in Path(name).glob("*.safetensors")), 0

    def count(module: nn.Module, key: str, parameter: nn.Parameter | None) -> None:
        nonlocal total
        total += 0 if parameter is None else parameter.numel()
        if total > WEIGHTS * size > 0:
            raise UserError(f"{name}: its configuration describes a model of more weights than its files hold")

    return register_module_parameter_registration_hook(count)


def refuse_pickles(folder: Path, what: str) -> None:
    """Refuse a folder whose weights are only in pickles.

    Raises:
        UserError: they are.
    """
    if folder.is_dir() and not any(folder.glob("*.safetensors*")):
        pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
        if pickles:
            raise UserError(
                f"{what} ({pickles[0]} is a pickle, which can run any code and is never read here: load it where you trust it, and "
                "save it again with `save_pretrained`, which writes safetensors)"
            )


def refuse_other_shards(name: str, what: str) -> None:
    """Refuse an index of weights other than safetensors, which Transformers would unpickle.

    Raises:
        UserError: it names such a file.
    """
    path = read(what, lambda: cached_file(name, SAFE_WEIGHTS_INDEX_NAME, **_IF_PRESENT))
    if path is None:
        return
    shards = read(what, lambda: [*map(str, json.loads(read_text(Path(path), MOST_BYTES))["weight_map"].values())])
    if others := sorted(shard for shard in {*shards} if not re.fullmatch(r"[\w.-]+\.safetensors", shard)):
        raise UserError(
            f"{what} ({SAFE_WEIGHTS_INDEX_NAME} names {shown(others[0])}, which is no safetensors file beside it)"
        )


def _reason(error: BaseException) -> str:
    message = str(error)
    if "trust_remote_code" in message or "custom code" in message:
        return "it brings code of its own (`auto_map`), which is never run here: take a model whose architecture Transformers has"
    if "Unrecognized configuration class" in message and "AutoModelForCausalLM" in message:
        return "its architecture is not one that Transformers runs as a causal language model"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__
