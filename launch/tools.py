"""Short commands that call other modules."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from remedy.launch.console import (
    Overrides,
    Workers,
    load_one,
    target,
)
from remedy.messages import escaped
from remedy.owner import owned
from remedy.settings import UserError, load


def merge(
    checkpoint: Annotated[str, typer.Argument(help="the folder of a run with model.lora")],
    out: Annotated[Path, target("folder for the merged model")],
) -> None:
    """Write a LoRA run as one model that needs no adapters."""
    from remedy.models.loading import merge as run

    print("\n".join([*run(checkpoint, out), f"merged: {out}"]))


def measure(
    config: Annotated[str, typer.Argument(help="YAML with `sources` and `tokenizers`")],
    out: Annotated[Path, target("folder for the measurements")],
    overrides: Overrides = None,
    workers: Workers = 1,
) -> None:
    """Count what traces cost and how tokenizers cut strings, without a model.

    `remedy report` reads the folder.
    """
    from remedy.eval.costs.measure import MeasureConfig
    from remedy.eval.costs.measure import measure as run

    settings = load_one(MeasureConfig, config, overrides)
    print(f"measured: {run(settings, out, workers, lambda m: print(m, flush=True))}")


def report(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="evaluations, the baseline first, and measurements")
    ],
    out: Annotated[Path, target("folder for the report")],
    baseline: Annotated[str, typer.Option(help="the variant or run to compare others with (default: the first)")] = "",
    partial: Annotated[
        bool, typer.Option("--partial", help="judge recipes of which runs are missing, by the others")
    ] = False,
    title: Annotated[str, typer.Option()] = "Report",
) -> None:
    """Write Markdown and one HTML page with figures and the verdict table."""
    from remedy.eval.report.page import report as write

    print(f"report: {write(directories, out, None, title, [baseline] if baseline else [], partial)}")


def compare(
    baseline: Annotated[Path, typer.Argument(help="a log, or a folder of logs: several of a task are seeds")],
    treatment: Annotated[Path, typer.Argument(help="the same of what is compared with it")],
    out: Annotated[Path, target("folder for the page")],
    metric: Annotated[str, typer.Option(help="the score that is compared, where logs have several")] = "",
    cluster: Annotated[str, typer.Option(help="the field whose equal values are one cluster")] = "",
    right_from: Annotated[
        float | None, typer.Option(help="the smallest score that counts as right, where scores are not 0 and 1")
    ] = None,
    margin: Annotated[float, typer.Option(min=0.001, max=0.999, help="`as good` loses less than this")] = 0.02,
    solved_at: Annotated[
        float, typer.Option(min=0.001, max=0.999, help="the rate from which a seed solves a task")
    ] = 0.95,
) -> None:
    """Judge logs of lm-evaluation-harness or inspect_ai, or tables, by example.

    The page has the difference, its interval and the verdict.
    """
    from remedy.eval.report.compare import compare_logs, side_names
    from remedy.eval.report.logs import LogOptions
    from remedy.eval.report.render import write_pages
    from remedy.eval.report.wording import headline, undecidable
    from remedy.owner import owned

    if right_from is not None and not math.isfinite(right_from):
        raise UserError(f"--right-from {right_from}: is no score: give a number")
    comparison = compare_logs(baseline, treatment, LogOptions(metric, cluster, right_from), margin, solved_at)
    with owned(out):
        page = write_pages(comparison, out, " against ".join(side_names(treatment, baseline)))
    lines = [f"{'. '.join(headline([item]))} {undecidable(item)}".strip() for item in comparison.verdicts]
    print("\n".join(map(escaped, [*comparison.remarks, *lines, f"report: {page}"])))


def export_benchmark(
    configs: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG... [NAME.key=value ...]",
            help="evaluations whose `set` holds the data, and changes of them by their file's name",
        ),
    ],
    out: Annotated[Path, target("a new folder for the benchmark")],
) -> None:
    """Freeze the examples of evaluations for others, as a benchmark.

    It holds JSONL with a card, tasks for lm-eval and inspect_ai, and a scorer without torch.
    """
    from remedy.eval.benchmark.export import export_benchmark as write
    from remedy.eval.config import EvalConfig

    paths = {Path(word).stem: word for word in configs if "=" not in word}
    changes = [word for word in configs if "=" in word]
    if len(paths) + len(changes) < len(configs):
        raise UserError("two configurations have one file name, which names their part of the benchmark: rename one")
    if unmatched := next((word for word in changes if word.partition(".")[0] not in paths), None):
        raise UserError(
            f"{unmatched}: changes no configuration: begin with the name of one ({', '.join(paths)}) and a dot"
        )
    overrides = {
        name: [word.removeprefix(f"{name}.") for word in changes if word.startswith(f"{name}.")] for name in paths
    }
    print(f"benchmark: {write({name: load(EvalConfig, path, overrides[name]) for name, path in paths.items()}, out)}")


def run(
    config: Annotated[str, typer.Argument(help="YAML of an experiment")],
    overrides: Overrides = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="print what can be decided, the runs and their cost; train nothing")
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="with --plan: the baseline's rate (default: as in runs that are done, or 0.5)"),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="with --plan: deviation of seeds' rates (default: as in runs that are done, or by metric)",
        ),
    ] = None,
    slurm: Annotated[Path | None, target("write the scripts of a Slurm array to this folder instead")] = None,
    job: Annotated[int | None, typer.Option(help="do this run alone, counted from 0")] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="report over the runs that are done")] = False,
    partial: Annotated[bool, typer.Option("--partial", help="with --report-only: judge without missing runs")] = False,
) -> None:
    """Run an experiment from training to report, here or on Slurm, skipping what is done."""
    from remedy.launch.experiment import ExperimentConfig
    from remedy.launch.jobs import expand

    modes = {"--plan": plan, "--slurm": slurm is not None, "--job": job is not None, "--report-only": report_only}
    if len(modes_given := [mode for mode, is_given in modes.items() if is_given]) > 1:
        raise UserError(f"{modes_given[0]} and {modes_given[1]} are two things to do: give one of them")
    for option, is_given, needs in (
        ("--rate", rate is not None, "--plan"),
        ("--spread", spread is not None, "--plan"),
        ("--partial", partial, "--report-only"),
    ):
        if is_given and not modes[needs]:
            raise UserError(f"{option} does nothing without {needs}: add it, or remove {option}")
    settings = load(ExperimentConfig, config, overrides or [])
    expand(settings, config)  # raises before imports that take seconds
    if plan:
        from remedy.launch.plan import print_plan
        from remedy.launch.plan_cost import print_cost

        print_cost(settings, print_plan(settings, config, rate, spread))
        return
    if slurm is None and job is None and not report_only:
        with owned(Path(settings.output)):  # raises before imports that take seconds
            pass
    from remedy.launch import runner
    from remedy.launch import slurm as scripts

    if slurm is not None:
        plugins = [f"plugins={json.dumps(settings.plugins)}"] if settings.plugins else []
        scripts.write_scripts(settings, config, [*(overrides or []), *plugins], slurm)
    elif job is not None:
        scripts.do_job(settings, config, job)
    else:
        page = runner.report_done(settings, config, partial) if report_only else runner.run(settings, config)
        print(f"report: open {page} (or {page.with_suffix('.md')})")


def harvest(
    packages: Annotated[
        list[str],
        typer.Argument(metavar="PACKAGE...", help="distributions, modules, or folders of packages or projects"),
    ],
    out: Annotated[Path, target("JSONL file for the programs; the same command goes on with it")],
    licences: Annotated[
        list[str] | None, typer.Option(help="harvest packages of this licence alone, such as MIT or BSD; once for each")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="a benchmark (cruxeval, humaneval) or JSONL file: leave out what is like it; once for each"),
    ] = None,
    calls: Annotated[int, typer.Option(min=1, max=16, help="calls of one function, at most")] = 8,
    seed: Annotated[int, typer.Option(help="seed of the calls that are made up where few were seen")] = 0,
    python: Annotated[
        str | None, typer.Option(help="interpreter that has the packages (default: the one that runs this)")
    ] = None,
    workers: Workers = 1,
    show_duplicates: Annotated[Path | None, target("JSONL file for what was left out as a duplicate")] = None,
) -> None:
    """Make programs of packages' functions and of calls seen in their examples and tests, all run in the sandbox."""
    from remedy.data_gen.harvest.duplicates import ProgramIndex
    from remedy.data_gen.harvest.package import Options
    from remedy.data_gen.harvest.run import harvest_all

    options = Options(calls, seed, python, workers, ProgramIndex())
    with owned(out.parent, f"-{out.name}"):
        harvest_all(
            packages,
            out,
            licences or [],
            against or [],
            options,
            show_duplicates,
            lambda line: print(escaped(line, "\n"), flush=True),
        )
    if not out.exists() or not out.stat().st_size:
        print("no program was found: the lines above count why")
    else:
        print(f"harvested: {out}; train on it with task: {{kind: programs, path: {out}}}")
