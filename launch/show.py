"""`remedy show`: an example, or what a model wrote beside what is true, token by token and coloured by role."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remedy.data_gen.config import read_stored_run
from remedy.data_gen.roles import Role
from remedy.data_gen.splits import SPLITS
from remedy.files import write_text
from remedy.launch.console import MaybeInt, MaybePath, Overrides, target
from remedy.messages import suggest
from remedy.settings import ConfigError, apply_changes, parse_overrides, read_yaml, resolve

if TYPE_CHECKING:
    from remedy.eval.view.model import View
    from remedy.launch.generate import GenerateConfig
    from remedy.train.config import RunConfig

TAKES = {
    "evaluation.json": ("an evaluation's folder", ("--index", "--condition")),
    "manifest.json": ("a data set's folder", ("--index", "--split")),
    "": ("a configuration or a program", ("--index", "--split", "key=value")),
}
"""What marks a source, what it then is, and the options that go with it."""
SHOWN = ("evaluation.json", "manifest.json", "evaluation/evaluation.json", "config.yaml", "train.yaml")
"""What a folder that can be shown holds, the first of these first: of an evaluation, a data set, a run, or an experiment's run."""
OTHERS = {"groups": "an experiment", "diagnostics": "an evaluation", "sources": "a measurement"}
"""Keys that tell configurations without examples."""
LEARNT = frozenset(Role) - {Role.CONTEXT}
"""The roles that runs supervise by default."""


def show(
    source: Annotated[
        str,
        typer.Argument(
            help="a .py file with a marked function, a YAML file, or the folder of a data set, run or evaluation"
        ),
    ],
    overrides: Overrides = None,
    index: Annotated[MaybeInt, typer.Option(min=0, help="which example (default: 0)")] = None,
    split: Annotated[
        str, typer.Option(help="train, validation or test; all: of given programs (default: the first that there is)")
    ] = "",
    condition: Annotated[
        str,
        typer.Option(help="of an evaluation: words of the condition, for example 'length=8 free' (default: the first)"),
    ] = "",
    ids: Annotated[bool, typer.Option("--ids", help="the tokens' ids too")] = False,
    html: Annotated[MaybePath, target("write a page instead")] = None,
) -> None:
    """Show a program's trace, an example or a decoded record by role; what is not supervised is grey."""
    path, kind = _found(Path(source), bool(overrides or split))
    given = {"--condition": condition, "--split": split, "key=value": overrides}
    what, takes = TAKES[kind]
    if refused := [option for option, value in given.items() if value and option not in takes]:
        raise ConfigError(f"{source}: is {what}, which takes {' and '.join(takes)}: remove {refused[0]}")
    from rich.console import Console  # what follows takes seconds to import

    from remedy.eval.view.terminal import page, show_view

    console = Console()
    if kind == "evaluation.json":
        view, said = _record_view(path, index or 0, condition)
        if said:
            console.print(said, markup=False, soft_wrap=True)
    elif kind:
        view = data_set_view(path, index or 0, split)
    else:
        view = example_view(load_source(path, overrides or [], path != Path(source)), path, index or 0, split)
    if html is None:
        show_view(view, console, ids)
    else:
        write_text(html, page(view, ids))
        console.print(f"page: {html}", markup=False, highlight=False, soft_wrap=True)


def _found(path: Path, of_its_data: bool) -> tuple[Path, str]:
    """The file or folder that is shown, and what marks it. `of_its_data`: of a run, what it reads and not what it wrote."""
    if not path.is_dir():
        return path, ""
    for inside in (path / mark for mark in SHOWN):
        passed_over = of_its_data and inside.parent != path
        if inside.exists() and not passed_over:
            return (inside, "") if inside.suffix == ".yaml" else (inside.parent, inside.name)
    marks = ("train.yaml", "evaluation.json", "manifest.json")
    found = {inside.parent for mark in marks for inside in path.glob(f"*/**/{mark}")}
    below = sorted(str(folder) for folder in found if folder.parent not in found)
    holds = f"; below it are {', '.join(below[:8])}{' and others' if len(below) > 8 else ''}" if below else ""
    raise ConfigError(f"{path}: is the folder of no data set, run or evaluation{holds}")


def _record_view(folder: Path, index: int, condition: str) -> tuple[View, str]:
    """A record of an evaluation, and how to choose another condition where there are several."""
    from remedy.eval.view.records import Opened, record_view

    conditions = Opened(folder).conditions
    several = len(conditions) > 1 and not condition
    said = f"condition 1 of {len(conditions)}; --condition chooses: {', '.join(conditions)}" if several else ""
    return record_view(folder, index, condition or conditions[0]), said


def data_set_view(folder: Path, index: int, split: str) -> View:
    """One example of a data set, as its shard holds it; supervised is what runs train on by default.

    Raises:
        UserError: there is no such example, or a file is missing or damaged.
    """
    from remedy.data_gen.shards import read_example, read_manifest
    from remedy.eval.view.model import View, blocks_of, tokens_of
    from remedy.models.tokenizer import Encoded
    from remedy.models.tokenizer import load as load_tokenizer

    row, tokenizer = read_example(folder, split, index), load_tokenizer(folder)
    encoded = Encoded(row["input_ids"], row["roles"], row["frames"], row["strings"])
    kept = {"index", "split", "outcome", "program", "answer", "spans", "input_ids", "roles", "frames", "strings"}
    slices = {name: value for name, value in row.items() if name not in kept}
    of_data = read_manifest(folder)["data"]["format"], tokenizer.settings.kind
    facts = _facts(row["split"], *of_data, slices, row["outcome"], row["answer"])
    return View(f"Example {index} of {folder}", blocks_of(tokens_of(tokenizer, encoded, LEARNT)), facts)


def load_source(path: Path, overrides: Sequence[str], stored: bool = False) -> GenerateConfig | RunConfig:
    """The configuration of a data set or of a training run, told by its keys; of a program's file, that of this program alone, where
    settings may leave out their `data.`. `stored`: it is no file that the user names, but lies in a folder.

    Raises:
        ConfigError: it is of another kind, or does not validate.
    """
    from remedy.launch.generate import GenerateConfig

    changes = parse_overrides(overrides)
    if path.suffix == ".py":
        given = {"data": {"task": {"kind": "programs", "path": str(path)}}}
        of_data = {re.sub(r"^(?!data\.|tokenizer\.)", "data.", key): value for key, value in changes.items()}
        renamed = {key.replace("data.tracer.", "data.task.tracer."): value for key, value in of_data.items()}
        return resolve(GenerateConfig, given, renamed, str(path), "override")[0]
    given = read_stored_run(path) if stored else read_yaml(path)
    keys = apply_changes(given, changes, "override").keys()
    if other := next((what for key, what in OTHERS.items() if key in keys), ""):
        raise ConfigError(f"{path}: is the configuration of {other}; show takes one with `data` and `tokenizer`")
    if keys <= GenerateConfig.model_fields.keys():
        return resolve(GenerateConfig, given, changes, str(path), "override")[0]
    from remedy.train.config import RunConfig  # this imports PyTorch

    return resolve(RunConfig, given, changes, str(path), "override")[0]


def example_view(settings: Any, path: Path, index: int, split: str) -> View:
    """One example; supervised is what the run trains on, or what runs train on by default. `path`: of the settings, for messages.

    Raises:
        UserError: there is no such split or index, or the tokenizer cannot be built.
    """
    from remedy.eval.view.model import View, blocks_of, tokens_of
    from remedy.models.encoding import encoded_examples
    from remedy.models.tokenizer import build_tokenizer

    data = settings.data
    split = _split(path, data.task, index, split)
    tokenizer = build_tokenizer(settings.tokenizer, data)
    [(example, encoded)] = encoded_examples(data, tokenizer, split, [index])
    train = getattr(settings, "train", None)
    tokens = tokens_of(tokenizer, encoded, LEARNT if train is None else train.supervised())
    facts = _facts(split, data.format, tokenizer.settings.kind, example.slices, example.outcome, example.answer)
    if data.memory is not None:
        from remedy.data_gen.window_examples import windows

        found = windows(*encoded[:3], data.memory, tokenizer.special_ids)
        most = max(window.size for window in found)
        facts["memory"] = f"{len(found)} windows, in which {most} of {len(encoded.ids)} tokens are seen at most"
    return View(f"Example {index} of {path.name}", blocks_of(tokens), facts)


def _facts(
    split: str, format_name: str, tokenizer: str, slices: Mapping[str, object], outcome: str, answer: str
) -> dict[str, str]:
    facts = {"split": split, "format": format_name, "tokenizer": tokenizer}
    facts |= {name.replace("_", " "): str(value) for name, value in slices.items()}
    facts |= {"outcome": outcome} if outcome != "ok" else {}
    return facts | ({"answer": answer} if answer else {})


def _split(path: Path, task: Any, index: int, split: str) -> str:
    """The split of an example, by default the first that there is."""
    given = task.count("all") is not None
    first = next((name for name in SPLITS if not given or task.count(name)), "all")
    split = split or ("all" if path.suffix == ".py" else first)
    if split not in (splits := [*SPLITS, "all"]):
        raise ConfigError(f"--split {split!r}: {suggest(split, splits)}")
    count = task.count(split)
    if split == "all" and count is None:
        raise ConfigError(f"--split all: of given programs and of small spaces only; here {', '.join(SPLITS)}")
    if count is not None and index >= count:
        raise ConfigError(f"--index {index}: the {split} split has {count} examples, numbered from 0")
    return split
