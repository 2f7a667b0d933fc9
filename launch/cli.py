"""The `remedy` command: what each of its commands takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from remedy.launch.console import Commands, SettingsCommand, command_line, show_source, start, target
from remedy.settings import load

app = command_line(cls=Commands, no_args_is_help=True)


def _version(asked: bool) -> None:
    if asked:
        from remedy import __version__

        print(f"cwm-remedy {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print it")] = False,
) -> None:
    """Test mitigations of the failures of code world models: generate traces, train, evaluate, compare."""


MaybeInt = Optional[int]  # noqa: UP045
MaybeFloat = Optional[float]  # noqa: UP045
MaybeText = Optional[str]  # noqa: UP045
MaybePath = Optional[Path]  # noqa: UP045
MaybeTexts = Optional[list[str]]  # noqa: UP045
MaybePaths = Optional[list[Path]]  # noqa: UP045
Overrides = Annotated[MaybeTexts, typer.Argument(metavar="[key=value ...]", help="settings to change")]


@app.command()
def init(
    programs: Annotated[
        str, typer.Argument(help="your programs: a JSONL file of {code, input}, or a folder of .py files")
    ],
    out: Annotated[MaybePath, target("the file (default: the programs' name with .yaml)")] = None,
) -> None:
    """Write an experiment over your own programs: a baseline, characters for strings, sparse states."""
    from remedy.launch.init import init as run

    print(run(programs, out))


@app.command(cls=SettingsCommand)
def generate(
    config: Annotated[str, typer.Argument(help="YAML with `data`, `tokenizer` and `write`")],
    overrides: Overrides = None,
    out: Annotated[Path, target("folder for shards and data card")] = ...,  # type: ignore[assignment]
    shard: Annotated[str, typer.Option(help="i/N: make every N-th shard from the i-th, counted from 0")] = "0/1",
    workers: Annotated[int, typer.Option(min=1, max=1000, help="processes")] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace the shards of another configuration that the folder holds")
    ] = False,
) -> None:
    """Write a data set as Parquet shards with a data card; run again to continue."""
    from remedy.launch.generate import generate as run

    run(config, overrides or [], out, shard, workers, overwrite)


@app.command()
def trace(
    file: Annotated[Path, typer.Argument(help="a Python file with one function marked `# << START_OF_TRACE`")],
    overrides: Overrides = None,
) -> None:
    """Print prompt and trace of a program, exactly as a model sees them; on a terminal in the colours of roles.

    Settings: format, reveal.spacing, reveal.locals, reveal.call_depth, reveal.answer_only, string_encoding, tracer.python
    and the other limits of `tracer`, as in a data configuration. For example reveal.spacing=4 reveal.locals=diff format=repl.
    """
    from remedy.launch.trace import print_spans
    from remedy.launch.trace import trace as run

    print_spans(*run(file, overrides or []))


@app.command()
def rewrite(
    file: Annotated[Path, typer.Argument(help="a Python file")],
    only: Annotated[MaybeTexts, typer.Option(help="a rewrite to apply, once for each (default: all)")] = None,
) -> None:
    """Print a file with its functions rewritten so that they do the same in smaller steps."""
    from remedy.launch.rewrite import rewrite as run

    show_source(run(file, only or []))


@app.command()
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
    from rich.console import Console

    from remedy.launch.show import show as run

    run(source, overrides or [], index, split, row, condition, ids, html, Console())


@app.command(cls=SettingsCommand)
def plan(
    config: Annotated[str, typer.Argument(help="YAML of a run")],
    overrides: Overrides = None,
    gpus: Annotated[int, typer.Option(min=1, max=100_000, help="GPUs, each with a process")] = 1,
    gpu_memory: Annotated[float, typer.Option(min=0.001, help="memory of one GPU, in GB")] = 80.0,
    tflops: Annotated[
        MaybeFloat, typer.Option(min=0.001, help="peak of one GPU in TFLOP/s (default: tracking.peak_tflops)")
    ] = None,
    utilisation: Annotated[float, typer.Option(min=0.001, max=1, help="share of the peak that is reached")] = 0.2,
    length: Annotated[int, typer.Option(min=0, help="tokens of a row; 0: those of some drawn rows")] = 0,
) -> None:
    """Print what a training run needs of memory and time; nothing is trained, and no weights are read or downloaded."""
    from remedy.launch.train import load_run

    settings = load_run(config, overrides or [])
    from remedy.train.footprint import print_footprint  # takes seconds

    print_footprint(settings, gpus, gpu_memory, tflops, utilisation, length or None)


@app.command(cls=SettingsCommand)
def train(
    config: Annotated[str, typer.Argument(help="YAML of a run")],
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue from the last intact checkpoint")] = False,
) -> None:
    """Train a model in this process (under `torchrun` or `deepspeed`: launch/train.py)."""
    from remedy.launch.train import train as run

    run(config, overrides or [], resume)


@app.command()
def merge(
    checkpoint: Annotated[str, typer.Argument(help="the folder of a run with model.lora")],
    out: Annotated[Path, target("folder for the merged model")] = ...,  # type: ignore[assignment]
) -> None:
    """Write a LoRA run as one model that needs no adapters."""
    from remedy.models.loading import merge as run

    remarks = run(checkpoint, out)
    print("\n".join([*remarks, f"merged: {out}"]))


@app.command(cls=SettingsCommand)
def evaluate(
    checkpoint: Annotated[str, typer.Argument(help="a run's folder, or any Hugging Face causal language model")],
    config: Annotated[str, typer.Argument(help="YAML with `diagnostics`")],
    overrides: Overrides = None,
    out: Annotated[Path, target("folder for records and summary")] = ...,  # type: ignore[assignment]
    name: Annotated[str, typer.Option(help="what reports call it (default: the checkpoint's path)")] = "",
) -> None:
    """Run diagnostics on a checkpoint; run again to continue (on several GPUs: launch/evaluate.py under `torchrun`)."""
    from remedy.launch.evaluate import evaluate as run

    run(checkpoint, config, overrides or [], out, name)


@app.command()
def simulate(
    checkpoint: Annotated[str, typer.Argument(help="a run's folder, or any Hugging Face causal language model")],
    program: Annotated[Path, typer.Argument(help="a Python file with one function marked `# << START_OF_TRACE`")],
    overrides: Overrides = None,
    input: Annotated[
        MaybeText, typer.Option(help="arguments of `f`, in a file that marks nothing: \"'abc', 3\"")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="run the program too, in the sandbox, and mark the first error")
    ] = False,
    constrain: Annotated[
        str,
        typer.Option(help="control_flow or guided: write only what the program's code, or the written state, allows"),
    ] = "",
    memory: Annotated[
        MaybeInt, typer.Option(min=1, help="frames that the model still sees (default: as it was trained)")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="most tokens of the trace")] = 4096,
    trust: Annotated[
        MaybePath, typer.Option(help="a calibrator of this model: say how far the trace is believed")
    ] = None,
    risk: Annotated[
        MaybeFloat, typer.Option(help="with --trust: share of traces with a wrong believed frame (default: 0.05)")
    ] = None,
    html: Annotated[MaybePath, target("write a page too")] = None,
) -> None:
    """Print a model's trace of your program as it is written, with how sure it was. The program is not run, unless you --check.

    Settings: data.* (format, reveal.*, string_encoding, memory, task.tracer.*), by default as the checkpoint was trained, and
    backend.*, as in an evaluation. For example data.reveal.locals=diff backend.url=http://localhost:8000 backend.model=NAME.
    """
    from rich.console import Console

    from remedy.launch.simulate import simulate as run

    given = (overrides or [], input, check, constrain, memory, max_new_tokens, html)
    run(checkpoint, program, *given, Console(), trust, risk)


@app.command(cls=SettingsCommand)
def measure(
    config: Annotated[str, typer.Argument(help="YAML with `sources` and `tokenizers`")],
    overrides: Overrides = None,
    out: Annotated[Path, target("folder for the measurements")] = ...,  # type: ignore[assignment]
    workers: Annotated[int, typer.Option(min=1, max=1000, help="processes")] = 1,
) -> None:
    """Count what traces cost and how tokenizers cut strings, without a model; `remedy report` reads the folder."""
    from remedy.eval.costs.measure import MeasureConfig
    from remedy.eval.costs.measure import measure as run

    settings = load(MeasureConfig, config, overrides or [])
    print(f"measured: {run(settings, out, workers, lambda m: print(m, flush=True))}")


@app.command()
def report(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="evaluations, the baseline first, and measurements")
    ],
    out: Annotated[Path, target("folder for the report")] = ...,  # type: ignore[assignment]
    comparisons: Annotated[MaybePath, typer.Option(help="an experiment's YAML: make its comparisons")] = None,
    baseline: Annotated[str, typer.Option(help="the variant or run to compare others with (default: the first)")] = "",
    trust: Annotated[
        MaybePaths, typer.Option(help="a calibrator, judged on what the report holds of its model; once for each")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="judge recipes of which runs are missing, by the others")
    ] = False,
    title: Annotated[str, typer.Option()] = "Report",
) -> None:
    """Write Markdown and one HTML page with figures and the verdict table."""
    from remedy.eval.report.page import report as run
    from remedy.launch.experiment import ExperimentConfig
    from remedy.settings import UserError

    if comparisons and baseline:
        raise UserError("--baseline does nothing beside --comparisons, which say what is compared: remove one")
    chosen = load(ExperimentConfig, comparisons).comparisons if comparisons else None
    print(f"report: {run(directories, out, chosen, title, [baseline] if baseline else [], trust or [], partial)}")


@app.command()
def calibrate(
    evaluation: Annotated[
        Path, typer.Argument(help="the folder of an evaluation, of programs that will not be judged")
    ],
    out: Annotated[Path, target("file for the calibrator")] = ...,  # type: ignore[assignment]
    condition: Annotated[
        str, typer.Option(help="words that its conditions have, for example 'forcing=free' (default: all of them)")
    ] = "",
) -> None:
    """Learn from an evaluation where to stop believing what this model writes."""
    from remedy.eval.calibration.calibrator import described, fit, read_evaluated

    trust = fit(read_evaluated(evaluation, condition), str(evaluation))
    trust.save(out)
    print("\n".join([*described(trust), f"calibrator: {out}"]))


@app.command("run", cls=SettingsCommand)
def run_experiment(
    config: Annotated[str, typer.Argument(help="YAML of an experiment")],
    overrides: Overrides = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="print runs, cost and the smallest differences seen; train nothing")
    ] = False,
    rate: Annotated[
        MaybeFloat, typer.Option(min=0, max=1, help="with --plan: the baseline's rate (default: 0.5)")
    ] = None,
    spread: Annotated[
        MaybeFloat, typer.Option(min=0, max=1, help="with --plan: deviation of seeds' rates (default: 0.1)")
    ] = None,
    slurm: Annotated[MaybePath, target("write the scripts of a Slurm array to this folder instead")] = None,
    job: Annotated[MaybeInt, typer.Option(help="do this run alone, counted from 0")] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="report over the runs that are done")] = False,
    partial: Annotated[bool, typer.Option("--partial", help="with --report-only: judge without missing runs")] = False,
) -> None:
    """Run an experiment from training to report, here or as a Slurm array; what is done is skipped."""
    from remedy.launch import runner
    from remedy.launch import slurm as scripts
    from remedy.launch.experiment import ExperimentConfig
    from remedy.settings import UserError

    ways = {"--plan": plan, "--slurm": slurm is not None, "--job": job is not None, "--report-only": report_only}
    if len(asked := [way for way, given in ways.items() if given]) > 1:
        raise UserError(f"{asked[0]} and {asked[1]} are two things to do: give one of them")
    needing = (("--rate", rate is not None, "--plan"), ("--spread", spread is not None, "--plan"))
    for option, given, needs in (*needing, ("--partial", partial, "--report-only")):
        if given and not ways[needs]:
            raise UserError(f"{option} does nothing without {needs}: add it, or remove {option}")
    settings = load(ExperimentConfig, config, overrides or [])
    if plan:
        from remedy.launch.plan import print_plan

        return print_plan(settings, config, rate, spread)
    if slurm is not None:
        return scripts.write_scripts(settings, config, overrides or [], slurm)
    if job is not None:
        scripts.do_job(settings, config, job)
    page = runner.report_done(settings, config, partial) if report_only else runner.run(settings, config)
    print(f"report: open {page} (or {page.with_suffix('.md')})")


@app.command("list")
def list_choices(
    what: Annotated[str, typer.Argument(help="tasks, mixers, formats, diagnostics, ... (default: all)")] = "",
) -> None:
    """Print what settings choose from by name, a line for each: tasks, mixers, formats, diagnostics and others."""
    from remedy.launch.choices import described

    print("\n".join(described(what)))


def main() -> None:
    """Run the command line; a user's error is one message and exit status 2."""
    start(app)


if __name__ == "__main__":
    main()
