"""`remedy show`: an example or a decoded record, coloured by role."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remedy.data_gen.config import read_stored_run
from remedy.data_gen.roles import Role
from remedy.data_gen.splits import SPLITS
from remedy.files import write_text
from remedy.launch.console import Arguments, Overrides, Page
from remedy.messages import suggest
from remedy.settings import ConfigError, UserError, apply_changes, parse_overrides, read_yaml, resolve

if TYPE_CHECKING:
    from remedy.eval.view.model import View
    from remedy.launch.generate import GenerateConfig
    from remedy.train.config import RunConfig

TAKES = {
    "evaluation.json": ("an evaluation's folder", ("--index", "--condition")),
    "manifest.json": ("a data set's folder", ("--index", "--split", "--text")),
    ".py": ("a program", ("--input", "--text", "key=value")),
    ".jsonl": ("a file of programs", ("--index", "--split", "--text", "key=value")),
    "": ("a configuration", ("--index", "--split", "--text", "key=value")),
}
"""What marks a source, its name in messages, and its options."""
SHOWN = ("evaluation.json", "manifest.json", "evaluation/evaluation.json", "config.yaml", "train.yaml")
"""Files that mark a folder, in order: an evaluation, a data set, an experiment's run (its evaluation), a run, an experiment's run."""
OTHERS = {"groups": "an experiment", "diagnostics": "an evaluation", "sources": "a measurement"}
"""Keys that mark configurations without examples."""
LEARNT = frozenset(Role) - {Role.CONTEXT}
"""The roles that runs supervise by default."""


def show(
    source: Annotated[
        str, typer.Argument(help="a .py, .jsonl or YAML file, or the folder of a data set, run or evaluation")
    ],
    overrides: Overrides = None,
    input: Arguments = None,
    index: Annotated[int | None, typer.Option(min=0, help="which example (default: 0)")] = None,
    split: Annotated[str, typer.Option(help="train, validation, test, or all programs (default: the first)")] = "",
    condition: Annotated[str, typer.Option(help="of an evaluation, such as 'length=8 free' (default: the first)")] = "",
    text: Annotated[bool, typer.Option("--text", help="prompt and trace alone, exactly as a model sees them")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="the tokens' ids too")] = False,
    html: Page = None,
) -> None:
    """Show a program's trace, an example or a decoded record by role.

    Unsupervised tokens are grey. A program marks the function to start from with `# << START_OF_TRACE`, or defines `f`,
    to which --input gives arguments; of a JSONL file of programs, --index says which. A program is run three times.
    Its settings: format, reveal.*, string_encoding, memory, tracer.* and tokenizer.*, such as reveal.spacing=4.
    """
    path, kind = _locate(Path(source), bool(overrides or split))
    kind_of_source, takes = TAKES[kind]
    options_given = {
        "--index": index is not None,
        "--condition": condition,
        "--split": split,
        "--input": input is not None,
        "--text": text,
        "key=value": overrides,
    }
    if refused := [option for option, value in options_given.items() if value and option not in takes]:
        raise ConfigError(f"{source}: is {kind_of_source}, which takes {', '.join(takes)}: remove {refused[0]}")
    if text and (ids or html is not None):
        raise ConfigError(f"--text: shows neither ids nor a page: remove it, or {'--ids' if ids else '--html'}")
    if kind == "evaluation.json":
        from remedy.eval.view.records import record_of_folder

        view = record_of_folder(path, index or 0, condition)
    elif kind == "manifest.json":
        view = data_set_view(path, index or 0, split)
    else:
        settings = load_source(path, overrides or [], path != Path(source), input)
        view = example_view(settings, path, index or 0, split or ("all" if kind else ""))
    if text and "outcome" in view.facts:
        raise UserError(f"--text: there is no trace: {view.facts['outcome']}")
    present(view, html, ids, text)


def present(view: View, html: Path | None, ids: bool = False, text: bool = False) -> None:
    from rich.console import Console  # these imports take seconds

    from remedy.eval.view.terminal import page, show_text, show_view

    console = Console()
    if html is not None:
        write_text(html, page(view, ids))
        console.print(f"page: {html}", markup=False, highlight=False, soft_wrap=True)
    elif text:
        show_text(view, console)
    else:
        show_view(view, console, ids)


def _locate(path: Path, of_its_data: bool) -> tuple[Path, str]:
    """Return the file or folder to show, and what marks it.

    `of_its_data`: of a run, what it reads.
    """
    if not path.is_dir():
        return path, path.suffix if path.suffix in TAKES else ""
    for candidate in (path / mark for mark in SHOWN):
        skipped = of_its_data and candidate.parent != path
        if candidate.exists() and not skipped:
            return (candidate, "") if candidate.suffix == ".yaml" else (candidate.parent, candidate.name)
    marked = {candidate.parent for mark in SHOWN for candidate in path.glob(f"*/**/{mark}")}
    nested = sorted(str(folder) for folder in marked if folder.parent not in marked)
    holds = f"; below it are {', '.join(nested[:8])}{' and others' if len(nested) > 8 else ''}" if nested else ""
    raise ConfigError(f"{path}: is the folder of no data set, run or evaluation{holds}")


def data_set_view(folder: Path, index: int, split: str) -> View:
    """View one example of a data set; supervision is the default.

    Raises:
        UserError: there is no such example, or a file is missing or damaged.
    """
    from remedy.data_gen.shards import read_example, read_manifest
    from remedy.eval.view.model import tokens_of, view_of
    from remedy.models.tokenizer import Encoded
    from remedy.models.tokenizer import load as load_tokenizer

    row, form = read_example(folder, split, index), read_manifest(folder)["data"]["format"]
    encoded = Encoded(row["input_ids"], row["roles"], row["frames"], row["strings"])
    known_columns = {
        "index",
        "split",
        "outcome",
        "program",
        "answer",
        "input_ids",
        "roles",
        "frames",
        "strings",
    }
    slices = {name: value for name, value in row.items() if name not in known_columns}
    facts = {"split": row["split"], **slices, "outcome": row["outcome"].removeprefix("ok"), "answer": row["answer"]}
    tokenizer = load_tokenizer(folder)
    return view_of(f"Example {index} of {folder}", form, tokenizer, tokens_of(tokenizer, encoded, LEARNT), facts)


def load_source(
    path: Path, overrides: Sequence[str], stored: bool = False, arguments: str | None = None
) -> GenerateConfig | RunConfig:
    """Read a data set's or run's configuration, or make one of given programs.

    Settings of programs may leave out `data.`; `arguments` are those of its `f`. `stored`: the file lies in a folder,
    so it is data.

    Raises:
        ConfigError: it is of another kind, or does not validate.
    """
    from remedy.launch.generate import GenerateConfig

    changes = parse_overrides(overrides)
    if path.suffix in (".py", ".jsonl"):
        data = {"data": {"task": {"kind": "programs", "path": str(path), "input": arguments}}}
        of_data = {re.sub(r"^(?!data\.|tokenizer\.)", "data.", key): value for key, value in changes.items()}
        renamed = {key.replace("data.tracer.", "data.task.tracer."): value for key, value in of_data.items()}
        return resolve(GenerateConfig, data, renamed, str(path), "override")[0]
    # What lies in a folder may be a stranger's: its plug-ins and interpreter are left out.
    data = read_stored_run(path) if stored else read_yaml(path)
    keys = apply_changes(data, changes, "override").keys()
    if other_kind := next((name for key, name in OTHERS.items() if key in keys), ""):
        raise ConfigError(f"{path}: is the configuration of {other_kind}; show takes one with `data` and `tokenizer`")
    if keys <= GenerateConfig.model_fields.keys():
        return resolve(GenerateConfig, data, changes, str(path), "override")[0]
    from remedy.train.config import RunConfig  # imports PyTorch

    return resolve(RunConfig, data, changes, str(path), "override")[0]


def example_view(settings: Any, path: Path, index: int, split: str) -> View:
    """View one example; supervision is the run's, or the default.

    `path`: the settings' name in messages.

    Raises:
        UserError: there is no such split or index, or the tokenizer cannot be built.
    """
    from remedy.data_gen.examples import executions
    from remedy.eval.view.model import tokens_of, view_of
    from remedy.models.encoding import encoded_execution
    from remedy.models.tokenizer import build_tokenizer

    data = settings.data
    is_finite = data.task.count("all") is not None
    split = split or next((name for name in SPLITS if not is_finite or data.task.count(name)), "all")
    if split not in (splits := [*SPLITS, *["all"] * is_finite]):
        raise ConfigError(f"--split {split!r}: {suggest(split, splits)}")
    if (count := data.task.count(split)) is not None and index >= count:
        raise ConfigError(f"--index {index}: the {split} split has {count} examples, numbered from 0")
    tokenizer = build_tokenizer(settings.tokenizer, data)
    [execution] = executions(data, split, [index])
    example, encoded = encoded_execution(execution, data, tokenizer)
    reason = f" ({execution.outcome})" if execution.kind != "ok" else ""
    outcome = example.outcome.removeprefix("ok") + reason
    facts = {"split": split, **example.slices, "outcome": outcome, "answer": example.answer}
    if data.memory is not None:
        from remedy.data_gen.window_examples import windows

        example_windows = windows(*encoded[:3], data.memory, tokenizer.special_ids)
        longest = max(window.size for window in example_windows)
        facts["memory"] = (
            f"{len(example_windows)} windows, in which {longest} of {len(encoded.ids)} tokens are seen at most"
        )
    learnt = settings.train.supervised() if hasattr(settings, "train") else LEARNT
    tokens = tokens_of(tokenizer, encoded, learnt)
    return view_of(f"Example {index} of {path.name}", data.format, tokenizer, tokens, facts)
