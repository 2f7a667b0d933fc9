"""The seal of a finished model's folder: digests of its files, checked before loading."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from remedy.checksums import DamagedFile, read_json, write_json
from remedy.messages import shown
from remedy.models.tokenizer import FILE as TOKENIZER
from remedy.settings import UserError

SEAL = "complete.json"
CONFIG_FILE = "config.yaml"
"""Configuration of the run that made the weights beside it."""
TRAINING = "training.json"
ADAPTER_FILE = "adapter_config.json"
"""PEFT's settings of adapters."""
_CURE = "train again with --resume, which writes it from the last checkpoint, or put the file back from a copy"
_WEIGHTS = re.compile(r"(adapter_)?model(-\d{5}-of-\d{5})?\.safetensors")
_BESIDE = {CONFIG_FILE, TRAINING, ADAPTER_FILE, "config.json", "generation_config.json", "model.safetensors.index.json"}
_FAST = {TOKENIZER, "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
_SLOW = re.compile(
    r"(added_tokens|special_tokens_map|vocab|tekken)\.json|(vocab|merges)\.txt|(tokenizer|spiece|sentencepiece\.bpe)\.model"
)
"""Files that Transformers writes in place of `tokenizer.json`, of tokenizers that have no fast form."""
Digest = Callable[[Path], str | int]


class Computed(TypedDict):
    """Kernels and forms that computed a training."""

    mixers: dict[str, str]
    """Kernel of each operation by mixer, or why it is PyTorch's; empty for pretrained models."""
    all_logits: str | None
    """Why the logits of all tokens were computed at once; null if only those of supervised tokens were, in chunks."""


class Training(TypedDict):
    """Account of a run's training and validation, for reports to compare budgets."""

    steps: int
    """Optimizer steps."""
    examples: int
    """Examples read."""
    tokens: int
    """Tokens read, without padding."""
    flops: float
    """Estimated operations of forward and backward passes."""
    learning_rate: float
    """The peak of the schedule."""
    seed: int
    """Seed of the initial weights."""
    data_seed: int
    """Seed of the examples' choice and order."""
    kept_step: int
    """Step of the kept model: the last, or the best by validation."""
    supervised: NotRequired[list[str]]
    """Roles with a loss; absent for a pretrained model whose vocabulary had the trace tokens, since it may know others."""
    stopped_early: bool
    """Whether validation ended the training early."""
    validation: dict[str, float] | None
    """Metrics of the kept model, as `loss` and `exact_match`; null without validation."""
    curve: list[tuple[float, float, float]]
    """Step, loss and exact match of every validation."""
    computed: Computed | None
    """What computed the training; null if nothing was trained."""


def read_training(folder: Path) -> Training | None:
    """Read the account of a finished run's training, or None without one.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / TRAINING
    return cast("Training", read_json(path, _CURE)) if path.exists() else None


def file_entries(folder: Path, paths: Iterable[Path], digest: Digest) -> dict[str, list[Any]]:
    return {path.relative_to(folder).as_posix(): [path.stat().st_size, digest(path)] for path in sorted(paths)}


def first_problem(folder: Path, files: Mapping[str, list[Any]], digest: Digest) -> str | None:
    """Describe the first file that is missing or changed, or return None."""
    for name, (size, value) in files.items():
        path = folder / name
        try:
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size or digest(path) != value:
                return f"{name} is damaged (its digest is not that of its content)"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror or error})"
    return None


def tokenizer_files(names: Iterable[str]) -> set[str]:
    """Select the names of a tokenizer's files."""
    present = {*names}
    is_slow = "tokenizer_config.json" in present and "tokenizer.json" not in present
    return present & _FAST | {*filter(_SLOW.fullmatch, present if is_slow else ())}


def model_files(names: Iterable[str]) -> set[str]:
    """Select the names of a model's files, as this project, Transformers and PEFT write them."""
    present = {*names}
    return {*filter(_WEIGHTS.fullmatch, present)} | present & _BESIDE | tokenizer_files(present)


def seal_model(folder: Path) -> None:
    """Write sizes and digests of the files that will be loaded; call it last.

    Raises:
        OSError: the seal cannot be written.
    """
    names = model_files(path.name for path in folder.iterdir() if path.is_file())
    write_json(folder / SEAL, {"files": file_entries(folder, (folder / name for name in names), file_digest)})


def check_model(folder: Path) -> list[str]:
    """Compare a folder with its seal and return the sealed names; none for others' folders.

    Raises:
        UserError: a file is missing, changed or not a model's; or the folder is a checkpoint or an unfinished run.
    """
    if not (folder / SEAL).exists():
        if (folder / CONFIG_FILE).exists():
            raise UserError(
                f"{folder}: has no {SEAL}, so that nothing says that its weights are those of its {CONFIG_FILE}: train it to the end "
                "with --resume, or copy the whole folder of a finished run"
            )
        return []
    sealed = read_json(folder / SEAL, _CURE)
    if "step" in sealed:
        raise UserError(
            f"{folder}: is a checkpoint that training goes on from (step {sealed['step']}), without a tokenizer and its data's "
            "settings: let the training end, with --resume or a smaller train.max_steps, and give the run's folder"
        )
    files = sealed.get("files")
    if not isinstance(files, dict) or not all(isinstance(entry, list) and len(entry) == 2 for entry in files.values()):
        raise UserError(f"{folder / SEAL}: lists no files: {_CURE}")
    if others := sorted(files.keys() - model_files(files)):
        raise UserError(f"{folder / SEAL}: names {shown(others[0])}, which is no file of a model: {_CURE}")
    if problem := first_problem(folder, files, file_digest):
        raise UserError(f"{folder}: {problem}: {_CURE}")
    return list(files)


def weights_are_gone(folder: Path) -> bool:
    """Say if a finished model has none of its weights left."""
    weights = _sealed_weights(folder)
    return bool(weights) and not any((folder / name).exists() for name in weights)


def recorded_weights(folder: Path) -> str:
    """Return a digest of a model's weights, as recorded in its seal.

    Empty without a seal, and for adapters.
    """
    weights = _sealed_weights(folder)
    if not weights or any(name.startswith("adapter") for name in weights):
        return ""
    return hashlib.sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()[:16]


def _sealed_weights(folder: Path) -> dict[str, Any]:
    try:
        files = dict(read_json(folder / SEAL, _CURE)["files"])
    except (DamagedFile, LookupError, TypeError, ValueError):  # reported by `check_model`
        return {}
    return {name: entry for name, entry in files.items() if name.endswith(".safetensors")}


def file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
