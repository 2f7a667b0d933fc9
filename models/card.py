"""The card of a finished model, with the hub's metadata."""

from __future__ import annotations

import contextlib
import math
import platform
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path, PureWindowsPath
from typing import Any

import yaml
from huggingface_hub import ModelCardData, RepoCard
from huggingface_hub.errors import HFValidationError
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from safetensors import safe_open

from remedy.data_gen.config import DataConfig
from remedy.files import file_name, write_text
from remedy.messages import one_line, safe_in_markdown
from remedy.models.model_manifest import ADAPTER_FILE, CONFIG_FILE, read_training
from remedy.settings import UserError, build, read_stored, refuse_bombs

CARD = "README.md"
_ABSOLUTE = re.compile(r"/[^/\n]+/|~/|[A-Za-z]:[\\/]")
_LOCAL_PATH = re.compile(
    r"(?:^|[:,\[-])\s*[\"']?(?:/(?!usr/|opt/|bin/)[^/\s\"']+/|~/|[A-Za-z]:[\\/])|(?<![\w.-])/(?:home|Users)/\w"
)
"""An absolute path as a value of settings, except system programs, or a home folder anywhere."""
_LARGEST = 10_000_000  # bytes of a card
_LONGEST = 2000  # characters of a cell


def write_card(folder: Path) -> Path:
    """Write a finished model's card from its folder's records, and return its path.

    Raises:
        UserError: a file that it needs is missing or damaged.
    """
    settings = read_stored(folder / CONFIG_FILE)
    section, train = settings.get("model") or {}, settings.get("train") or {}
    base, adapters = section.get("name_or_path"), (folder / ADAPTER_FILE).exists()
    mixers = section.get("mixers") or []
    task = settings["data"]["task"]["kind"]
    tags = ["cwm-remedy", "code-world-model", "execution-traces", task, *mixers, *(["lora"] if adapters else [])]
    relation = ("adapter" if adapters else "finetune") if base and is_hub_name(base) else None
    metadata = ModelCardData(
        language="code",
        library_name="cwm-remedy" if not base else "peft" if adapters else "transformers",
        pipeline_tag="text-generation",
        tags=[file_name(tag) for tag in tags],
        base_model=base if relation else None,
        base_model_relation=relation,  # None is left out
    )
    public = without_paths(settings)
    base, section, data = (public.get("model") or {}).get("name_or_path"), public.get("model") or {}, public["data"]
    what = f"LoRA adapters of {base}" if adapters else f"{base}, trained further" if base else "A decoder of its own"
    simulates = "remedy simulate FOLDER PROGRAM.py\n" if data.get("context") and data["format"] != "symbolic" else ""
    imported = "" if base else "after `import remedy.models.decoder`, "
    uses = f"With Transformers: {imported}`AutoModelForCausalLM.from_pretrained(FOLDER)`."
    if adapters:
        uses = "`remedy merge FOLDER --out MERGED` writes a model that needs no adapters, for Transformers and servers."
    rows = {
        "Model": _flow(section),
        "Parameters": f"{_parameters(folder):,}{' in the adapters' if adapters else ''}",
        "Programs": ": ".join([*_described(settings["data"]), _flow(data["task"])]),
        "Traces": _flow({key: value for key, value in data.items() if key != "task"}),
        "Mixed with": _flow(public.get("mixture") or {}),
        "Curriculum": _flow(train.get("curriculum") or {}),
        "Tokenizer": _flow(public.get("tokenizer") or {}),
        "Learnt": f"tokens of the roles {', '.join(train.get('loss_roles') or ['of the trace'])}",
        **_training(folder),
    }
    table = "\n".join(f"| {cell(head)} | {cell(value)} |" for head, value in rows.items() if value)
    packages = ", ".join(f"{name} {version(name)}" for name in ("cwm-remedy", "torch", "transformers"))
    text = f"""---
{metadata.to_yaml()}
---
# {cell(settings.get("name") or folder.name)}

{cell(what)}: it predicts what a Python program does, frame by frame, as a trace of the lines that run and of the variables then.

| | |
|---|---|
{table}

All settings stand in `{CONFIG_FILE}`. Made with Python {platform.python_version()}, {packages}.

## Use

With cwm-remedy, where FOLDER holds these files:

```
{simulates}remedy evaluate FOLDER EVALUATION.yaml --out RESULTS
```

{uses}

## Limits

- It was trained on the programs above alone, in the one form of traces that they have there. What it does on others is not known.
- What it writes is a prediction, which may be wrong in any frame. It is no way to run a program, or to check one.
- Traces are those of CPython {platform.python_version()}. Other versions trace other events.
- One training, of one seed: other seeds may give other results.
- No evaluation is recorded here: nothing is claimed of how often the model is right.
"""
    write_text(folder / CARD, text)
    return folder / CARD


def without_paths(value: Any) -> Any:
    """Shorten absolute paths in settings to their last part."""
    if isinstance(value, Mapping):
        return {key: without_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    return PureWindowsPath(value).name if isinstance(value, str) and _ABSOLUTE.match(value) else value


def read_card(path: Path) -> RepoCard:
    """Read a card with the hub's metadata.

    Raises:
        UserError: it cannot be read, or is too large.
    """
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            raise ValueError(f"no file of at most {_LARGEST:,} bytes")
        text = path.read_text(encoding="utf-8")
        if metadata := REGEX_YAML_BLOCK.match(text):
            refuse_bombs(metadata[2], "its metadata")
        return RepoCard(text)
    except (ValueError, TypeError, RecursionError, yaml.YAMLError, UserError) as error:
        raise UserError(
            f"{path}: the card cannot be read ({one_line(str(error), 200)}): put it back, or mend it"
        ) from None


def refuse_places(paths: Iterable[Path]) -> None:
    """Refuse absolute paths and home folders in settings and cards.

    Raises:
        UserError: there is one.
    """
    for path in (path for path in paths if path.suffix in (".md", ".yaml", ".json")):
        for number, line in enumerate(path.open(encoding="utf-8", errors="replace"), 1):
            if _LOCAL_PATH.search(line):
                raise UserError(
                    f"{path}, line {number}: names a place on this machine ({one_line(line, 200)}): give --private, or use the hub's "
                    "names and relative paths from the start"
                )


def is_repository(name: str) -> bool:
    """Say if a name is valid for a repository."""
    with contextlib.suppress(HFValidationError):
        validate_repo_id(name)
        return True
    return False


def is_hub_name(name: str) -> bool:
    """Say if a model's name is one of the hub, not of a local folder."""
    return is_repository(name) and not Path(name).exists()


def _described(data: Mapping[str, Any]) -> list[str]:
    with contextlib.suppress(UserError):
        return [build(DataConfig, data).task.describe()]
    return []


def _training(folder: Path) -> dict[str, str]:
    account: dict[str, Any] = {**(read_training(folder) or {})}
    computed = account.pop("computed", None) or {}
    figures = {
        **account,
        **{f"validation {name}": value for name, value in (account.pop("validation", None) or {}).items()},
    }
    texts = {
        name: f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        for name, value in figures.items()
        if type(value) in (int, float)
    }
    kernels = "; ".join(f"{mixer}: {how}" for mixer, how in computed.get("mixers", {}).items())
    return {name.replace("_", " ").capitalize(): value for name, value in {**texts, "kernels": kernels}.items()}


def _parameters(folder: Path) -> int:
    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return count


def _flow(section: Any) -> str:
    if isinstance(section, Mapping):
        section = {key: value for key, value in section.items() if value or (value == 0 and value is not False)}
    return yaml.safe_dump(section, default_flow_style=True, sort_keys=False, width=math.inf).strip() if section else ""


def cell(value: Any) -> str:
    """Escape a text for a cell of a Markdown table."""
    return safe_in_markdown(one_line(str(value), _LONGEST)).replace("|", "\\|")
