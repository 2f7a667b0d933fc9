"""Reads what others wrote, by Transformers' loaders: whole, without running their code or unpickling, or not at all with a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from transformers import AutoModelForCausalLM, PreTrainedModel

from remedy.settings import UserError

T = TypeVar("T")
PICKLES = ("*_model*.bin", "*.pt", "*.pth", "*.ckpt")


def read(what: str, load: Callable[[], T], kind: type[UserError] = UserError) -> T:
    """Return what a loader of Transformers gives. `what`: how a message begins.

    Raises:
        UserError: it raised; the message is one line. Of the kind that is given.
    """
    try:
        return load()
    except (MemoryError, UserError):
        raise
    except BaseException as error:  # of any kind: the files decide which of Transformers' lines comes upon them
        # A panic of a library that is written in Rust has a class that cannot be imported and is no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise kind(f"{what} ({_reason(error)})") from None


def read_model(name: str, what: str, **options: Any) -> PreTrainedModel:
    """A causal language model by hub name or folder, all of its weights read from safetensors.

    Raises:
        UserError: as `read`, or weights are missing or of another shape, which Transformers would draw at random.
    """
    refuse_pickles(Path(name), what)
    fixed = {"trust_remote_code": False, "use_safetensors": True}
    seen = {"output_loading_info": True, "ignore_mismatched_sizes": True}  # instead of a report on the terminal
    loaded: Any = read(what, lambda: AutoModelForCausalLM.from_pretrained(name, **fixed, **seen, **options))
    model: PreTrainedModel = loaded[0]
    missing = sorted(loaded[1]["missing_keys"])
    other = sorted(key if isinstance(key, str) else key[0] for key in loaded[1]["mismatched_keys"])
    if missing or other:
        lacks = (
            f"lack {len(missing)} of its weights" if missing else f"have {len(other)} of its weights in another shape"
        )
        raise UserError(
            f"{what} (the files {lacks}, {(missing or other)[0]} among them, which would be random: they are not those of a "
            f"{type(model).__name__} with this config.json)"
        )
    return model


def refuse_pickles(folder: Path, what: str) -> None:
    """Refuse weights in a folder that are pickles alone.

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


def _reason(error: BaseException) -> str:
    said = str(error)
    if "trust_remote_code" in said or "custom code" in said:
        return "it brings code of its own (`auto_map`), which is never run here: take a model whose architecture Transformers has"
    if "Unrecognized configuration class" in said and "AutoModelForCausalLM" in said:
        return "its architecture is not one that Transformers runs as a causal language model"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__
