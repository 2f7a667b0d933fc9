"""`remedy show`: an example, a row of training, or what a model wrote, token by token and coloured by role."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from remedy.files import write_text
from remedy.launch.console import MaybeInt, MaybePath, Overrides, target
from remedy.settings import ConfigError

TAKES = {
    "evaluation.json": ("an evaluation's folder", ("--index", "--condition")),
    "manifest.json": ("a data set's folder", ("--index", "--split")),
    "": ("a configuration or a program", ("--index", "--split", "--row", "key=value")),
}
"""What marks a source, what it then is, and the options that go with it."""
SHOWN = ("evaluation.json", "manifest.json", "evaluation/evaluation.json", "config.yaml", "train.yaml")
"""What a folder that can be shown holds, the first of these first: of an evaluation, a data set, a run, or an experiment's run."""


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
    row: Annotated[
        MaybeInt, typer.Option(min=0, help="instead: a row of training as the model reads it, counted from 0")
    ] = None,
    condition: Annotated[
        str,
        typer.Option(help="of an evaluation: words of the condition, for example 'length-8 free' (default: the first)"),
    ] = "",
    ids: Annotated[bool, typer.Option("--ids", help="the tokens' ids too")] = False,
    html: Annotated[MaybePath, target("write a page instead")] = None,
) -> None:
    """Show a program's trace, an example, a training row or a decoded record by role; what is not supervised is grey."""
    path, kind = _found(Path(source), bool(overrides or split or row is not None))
    given = {"--condition": condition, "--split": split, "--row": row is not None, "key=value": overrides}
    what, takes = TAKES[kind]
    if refused := [option for option, value in given.items() if value and option not in takes]:
        raise ConfigError(f"{source}: is {what}, which takes {' and '.join(takes)}: remove {refused[0]}")
    from rich.console import Console  # what follows takes seconds to import

    from remedy.eval.view.page import page
    from remedy.eval.view.records import Opened, record_view
    from remedy.eval.view.terminal import show_view
    from remedy.launch.views import config_view, data_set_view

    console = Console()
    if kind == "evaluation.json":
        conditions = Opened(path).conditions
        view = record_view(path, index or 0, condition or conditions[0])
        if len(conditions) > 1 and not condition:
            said = f"condition 1 of {len(conditions)}; --condition chooses: {', '.join(conditions)}"
            console.print(said, markup=False, soft_wrap=True)
    elif kind:
        view = data_set_view(path, index or 0, split)
    else:
        view = config_view(str(path), overrides or [], index, split, row)
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
    found = {
        inside.parent
        for mark in ("train.yaml", "evaluation.json", "manifest.json")
        for inside in path.glob(f"*/**/{mark}")
    }
    below = sorted(str(folder) for folder in found if folder.parent not in found)
    holds = f"; below it are {', '.join(below[:8])}{' and others' if len(below) > 8 else ''}" if below else ""
    raise ConfigError(f"{path}: is the folder of no data set, run or evaluation{holds}")
