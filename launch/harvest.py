"""The command that makes programs of packages: `remedy harvest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from remedy.launch.console import MaybePath, MaybeText, MaybeTexts, Workers, target


def harvest(
    packages: Annotated[
        list[str],
        typer.Argument(metavar="PACKAGE...", help="distributions, modules, or folders of packages or projects"),
    ],
    out: Annotated[Path, target("JSONL file for the programs; the same command goes on with it")],
    licences: Annotated[
        MaybeTexts, typer.Option(help="harvest packages of this licence alone, such as MIT or BSD; once for each")
    ] = None,
    against: Annotated[
        MaybeTexts,
        typer.Option(help="a benchmark (cruxeval, humaneval) or JSONL file: leave out what is like it; once for each"),
    ] = None,
    calls: Annotated[int, typer.Option(min=1, max=16, help="calls of one function, at most")] = 8,
    seed: Annotated[int, typer.Option(help="seed of the calls that are made up where few were seen")] = 0,
    python: Annotated[
        MaybeText, typer.Option(help="interpreter that has the packages (default: the one that runs this)")
    ] = None,
    workers: Workers = 1,
    show_duplicates: Annotated[MaybePath, target("JSONL file for what was left out as a duplicate")] = None,
) -> None:
    """Make programs of packages' functions and of calls seen in their examples and tests, all run in the sandbox."""
    from remedy.data_gen.harvest.duplicates import Known
    from remedy.data_gen.harvest.package import Options
    from remedy.data_gen.harvest.run import harvest_all

    options = Options(calls, seed, python, workers, Known())
    harvest_all(
        packages, out, licences or [], against or [], options, show_duplicates, lambda line: print(line, flush=True)
    )
    if not out.exists() or not out.stat().st_size:
        print("no program was found: the lines above count why")
    else:
        print(f"harvested: {out}; train on it with task: {{kind: programs, path: {out}}}")
