"""Real programs: the published benchmarks, and a user's own, each with its arguments and, where known, its result.

They are untrusted: they are traced in a sandbox (`tracing`), and one that cannot be traced has its outcome on record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import model_validator

from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.rewrites import RewriteName, rewrite_program
from remedy.data_gen.settings import ConfigError, Settings
from remedy.data_gen.splits import split_of, text_hash
from remedy.data_gen.tasks import humaneval

BenchmarkName = Literal["cruxeval", "humaneval"]


class ProgramsTask(Settings):
    """Real programs: a benchmark's, or your own."""

    former = {"held_out": "held_out_programs"}

    kind: Literal["programs"] = "programs"
    benchmark: BenchmarkName | None = None
    """CruxEval-O (800 functions) or HumanEval (723 executions), from the Hugging Face hub unless a `path` is given."""
    path: str | None = None
    """A JSONL file in the benchmark's own form. Without a benchmark: a folder of `.py` files with a marked entry point, or a
    JSONL file whose lines hold `code` (defining `f`), `input` (its arguments) and perhaps `output` and `id`."""
    rewrites: tuple[RewriteName, ...] = ()
    """Rewrites applied to every program (`remedy.data_gen.rewrites`)."""
    held_out_programs: tuple[str, ...] = ()
    """Ids of programs that the train split never has."""
    tracer: TracerConfig = TracerConfig()
    """How the programs are run."""

    @model_validator(mode="after")
    def _given(self) -> ProgramsTask:
        if self.benchmark is None and self.path is None:
            raise ValueError(
                "task programs needs `benchmark: cruxeval` or `humaneval`, or the `path` of your own programs"
            )
        return self


class Case(NamedTuple):
    """One program, its name, and the repr of its result where that is known.

    `identity`: its text before any rewriting. `group`: what executions of one function share, which picks their split.
    """

    id: str
    program: Program
    identity: str
    group: str
    expected: str | None = None


class _Benchmark(NamedTuple):
    hub: str
    split: str
    cases: Callable[[dict[str, Any]], Iterable[Case]]


def load_cases(config: ProgramsTask) -> tuple[Case, ...]:
    """All programs, in the order of the benchmark, of file names, or of lines.

    Raises:
        ConfigError: the source cannot be reached or read, holds no program, or a line is malformed (file and line named).
    """
    cases = _load(config.benchmark, config.path)
    if not config.rewrites:
        return cases
    return tuple(case._replace(program=rewrite_program(case.program, config.rewrites)) for case in cases)


@lru_cache(maxsize=8)
def _load(benchmark: BenchmarkName | None, path: str | None) -> tuple[Case, ...]:
    if benchmark is not None:
        read = _BENCHMARKS[benchmark].cases
        rows = _lines(path) if path is not None else _from_hub(benchmark)
        cases = tuple(case for where, row in rows for case in _parsed(read, row, where))
    else:
        assert path is not None
        if Path(path).is_dir():
            cases = tuple(_file(file) for file in sorted(Path(path).rglob("*.py")))
        else:
            cases = tuple(case for where, row in _lines(path) for case in _parsed(_own, row, where))
    if not cases:
        raise ConfigError(f"data.task.path: {path} holds no program: give a folder of .py files or a JSONL file")
    ids = [case.id for case in cases]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise ConfigError(f"data.task.path: {path}: the id {twice!r} is given twice")
    return cases


def _file(file: Path) -> Case:
    program = Program(_read(file), str(file))
    return Case(str(file), program, program.code, program.code)


def _called(name: str, code: str, arguments: str, expected: str | None, function: str = "f") -> Case:
    program = Program.from_call(code, arguments, name, function)
    return Case(name, program, program.code, code, expected)


def _cruxeval(row: dict[str, Any]) -> Iterable[Case]:
    name = f"cruxeval/{row['id']}"
    return [_called(name, row["code"], row["input"], row["output"])]


def _humaneval(row: dict[str, Any]) -> Iterable[Case]:
    code, function = row["prompt"] + row["canonical_solution"], row["entry_point"]
    for number, (arguments, result) in enumerate(humaneval.executions(row["test"])):
        name = f"{row['task_id']}/{number}"
        yield _called(name, code, arguments, result, function)


def _own(row: dict[str, Any]) -> Iterable[Case]:
    name = str(row["id"])
    return [_called(name, row["code"], row["input"], row.get("output"))]


_BENCHMARKS: dict[str, _Benchmark] = {
    "cruxeval": _Benchmark("cruxeval-org/cruxeval", "test", _cruxeval),
    "humaneval": _Benchmark("openai/openai_humaneval", "test", _humaneval),
}


def _from_hub(benchmark: BenchmarkName) -> Sequence[tuple[str, dict[str, Any]]]:
    from datasets import load_dataset

    hub, split, _ = _BENCHMARKS[benchmark]
    try:
        rows = load_dataset(hub, split=split)
    except Exception as error:  # offline, not cached, refused, renamed: many types from several libraries
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"data.task.benchmark {benchmark}: {hub} cannot be read from the Hugging Face hub ({first}); "
            "give a local copy as data.task.path (a JSONL file)"
        ) from None
    return [(f"{hub}:{number}", dict(row)) for number, row in enumerate(rows, start=1)]


def _lines(path: str) -> Sequence[tuple[str, dict[str, Any]]]:
    found = []
    for number, line in enumerate(_read(Path(path)).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
            found.append((where, {"id": where, **row}))
        except (ValueError, TypeError):
            raise ConfigError(f"{where}: not a JSON object") from None
    return found


def _parsed(read: Callable[[dict[str, Any]], Iterable[Case]], row: dict[str, Any], where: str) -> list[Case]:
    try:
        return list(read(row))
    except KeyError as error:
        raise ConfigError(f"{where}: has no key {error}") from None
    except (TypeError, SyntaxError, ValueError) as error:
        raise ConfigError(f"{where}: not a line of such programs: {error}") from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"data.task.path: {file} cannot be read as UTF-8 text: {error}") from None


@lru_cache(maxsize=24)
def split_cases(task: ProgramsTask, split: str) -> tuple[Case, ...]:
    """The programs of a split, in order; the split `all` has every one. Executions of one function are in one split.

    Raises:
        ConfigError: as `load_cases`.
    """
    everything = load_cases(task)
    if split == "all":
        return everything
    return tuple(
        case
        for case in everything
        if split_of(text_hash(case.group)) == split and not (split == "train" and case.id in task.held_out_programs)
    )
