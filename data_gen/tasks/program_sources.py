"""Sources of real programs: published benchmarks and a user's files."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from remedy.data_gen.execution.program import MARKER, Program, ProgramError
from remedy.data_gen.rewrites.names import Names
from remedy.data_gen.splits import SPLITS
from remedy.data_gen.tasks.assertions import arguments_of, asserted, executions
from remedy.files import read_text
from remedy.messages import shown
from remedy.registry import Registry
from remedy.settings import ConfigError

log = logging.getLogger(__name__)

_MOST_BYTES = 1 << 30  # of a file of programs
FUNCTION = "f"
"""The function that is called with a given input."""


class Case(NamedTuple):
    """Program with its result, split and licence where its source gives them.

    `identity`: its text before rewriting. `group`: shared by executions of one function.
    """

    id: str
    program: Program
    identity: str
    group: str
    expected: str | None = None
    split: str | None = None
    licence: str | None = None


class Benchmark(NamedTuple):
    hub: str
    split: str
    cases: Callable[[dict[str, Any]], Iterable[Case]]


@lru_cache(maxsize=8)
def read_cases(benchmark: str | None, path: str | None, arguments: str | None = None) -> tuple[Case, ...]:
    """Read all programs of a benchmark or path, in order.

    `arguments`: of `f` in a `.py` file without entry point.

    Raises:
        ConfigError: the source cannot be read, holds no program, has a malformed line, repeats an id, or gives a split or
            licence to some only.
    """
    if benchmark is not None:
        read = BENCHMARKS[benchmark].cases
        rows = lines(path) if path is not None else _from_hub(benchmark)
        cases = tuple(case for where, row in rows for case in _parsed(read, row, where))
    else:
        assert path is not None
        if Path(path).is_dir():
            cases = _files(Path(path))
        elif path.endswith(".py"):
            cases = (_file(Path(path), arguments),)
        else:
            cases = tuple(case for where, row in lines(path) for case in _parsed(_own, row, where))
    if not cases:
        raise ConfigError(f"task programs: {path} holds no program: give a .py file, a folder of them, or a JSONL file")
    ids = [case.id for case in cases]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise ConfigError(f"task programs: {path}: the id {twice!r} is given twice")
    for key in ("split", "licence"):
        present = [getattr(case, key) is not None for case in cases]
        if any(present) and not all(present):
            without = cases[present.index(False)].id
            raise ConfigError(
                f"task programs: {path}: {without} has no {key}, and others have: give one to all, or to none"
            )
    return cases


def _file(file: Path, arguments: str | None) -> Case:
    code, name = _read(file), _escaped(str(file))
    program = Program(code, name)
    if arguments is None and (MARKER in code or FUNCTION not in _bound(program)):
        program.entry_point()
        return Case(name, program, code, code)
    if arguments is None:
        raise ConfigError(f"{file}: marks no entry point, and defines {FUNCTION}: give its arguments with --input")
    if MARKER in code:
        raise ConfigError(f"{file}: marks an entry point, which takes no arguments: remove the input, or `{MARKER}`")
    if FUNCTION not in _bound(program):
        raise ConfigError(f"{file}: defines no function {FUNCTION}, which the input gives arguments to")
    _check_arguments(arguments)
    return _called(name, code, arguments, None)


def _bound(program: Program) -> Collection[str]:
    try:
        return Names(ast.parse(program.code)).bound
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError("syntax", f"{program.name}: does not compile: {error}") from None


def _check_arguments(arguments: str) -> None:
    call = f"{FUNCTION}({arguments})"
    try:
        parsed = ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parsed = None
    match parsed:
        case ast.Call(func=ast.Name(), end_lineno=1, end_col_offset=end) if end == len(call.encode()):
            return
    raise ConfigError(f"input {shown(arguments)}: is not the arguments of a call, on one line, such as \"'abc', 3\"")


def _files(folder: Path) -> tuple[Case, ...]:
    try:
        files = sorted(file for file in folder.rglob("*.py") if not file.is_dir())
    except (OSError, RecursionError) as error:
        raise ConfigError(f"task programs: {folder} cannot be searched for files ({type(error).__name__})") from None
    cases, left_out = [], []
    for file in files:
        try:
            program = Program(_read(file), _escaped(str(file)))
        except ConfigError as error:
            left_out.append(str(error))
            continue
        split = file.relative_to(folder).parts[0]
        cases.append(Case(program.name, program, program.code, program.code, split=split if split in SPLITS else None))
    if left_out:
        log.warning("%s: %d of %d files left out; %s", folder, len(left_out), len(left_out) + len(cases), left_out[0])
    return tuple(cases)


def _escaped(text: str) -> str:
    """Escape lone surrogates, which files of text cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _called(name: str, code: str, arguments: str, expected: str | None, function: str = FUNCTION) -> Case:
    for key, text in {"code": code, "input": arguments, "output": expected}.items():
        if not isinstance(text, str) and not (key == "output" and text is None):
            raise TypeError(f"{key} is to be text, not {shown(text)}")
    name, code, arguments = map(_escaped, (name, code, arguments))
    program = Program.from_call(code, arguments, name, function)
    return Case(name, program, program.code, code, expected and _escaped(expected))


def _cruxeval(row: dict[str, Any]) -> Iterable[Case]:
    name = f"cruxeval/{row['id']}"
    return [_called(name, row["code"], row["input"], row["output"])]


def _humaneval(row: dict[str, Any]) -> Iterable[Case]:
    code, function = row["prompt"] + row["canonical_solution"], row["entry_point"]
    for number, (arguments, result) in enumerate(executions(row["test"])):
        name = f"{row['task_id']}/{number}"
        yield _called(name, code, arguments, result, function)


def _mbpp(row: dict[str, Any]) -> Iterable[Case]:
    """Read a program for each test; the split is the authors'."""
    setup = row["test_setup_code"] if "test_setup_code" in row else _joined(row["test_imports"])
    code = _joined([setup, row["code"]]).strip("\n").replace("\r\n", "\n")
    task_id = int(row["task_id"])
    split = "test" if 10 < task_id <= 510 else "validation" if 510 < task_id <= 600 else "train"
    tests = "\n".join([_joined(row["test_list"]), _joined(row.get("challenge_test_list", []))])
    for number, (function, arguments, result) in enumerate(asserted(tests, ast.parse(tests).body)):
        yield _called(f"mbpp/{task_id}/{number}", code, arguments, result, function)._replace(
            split=split, licence="CC BY 4.0"
        )


def _joined(texts: Any) -> str:
    if not isinstance(texts, list):
        raise TypeError(f"a list of texts is to be given, not {shown(texts)}")
    return "\n".join(texts)


def _livecodebench(row: dict[str, Any]) -> Iterable[Case]:
    match ast.parse(row["input"], mode="eval").body:
        case ast.Call(func=ast.Name(function)) as call:
            arguments = arguments_of(row["input"], call)
        case _:
            raise ValueError(f"input {shown(row['input'])} is no call of a function")
    return [_called(f"livecodebench/{row['id']}", row["code"], arguments, row["output"], function)]


def _own(row: dict[str, Any]) -> Iterable[Case]:
    name, split, licence = str(row["id"]), row.get("split"), row.get("licence")
    if licence is not None and not isinstance(licence, str):
        raise TypeError(f"licence is to be text, not {shown(licence)}")
    if split is not None and split not in SPLITS:
        raise ValueError(f"split {shown(split)} is none: {', '.join(SPLITS)}")
    return [_called(name, row["code"], row["input"], row.get("output"))._replace(split=split, licence=licence)]


BENCHMARKS: Registry[Benchmark] = Registry("benchmark")
"""Published sets of programs by name. To add one, write how a row of it is read and register it here."""
BENCHMARKS.update(
    {
        "cruxeval": Benchmark("cruxeval-org/cruxeval", "test", _cruxeval),
        "humaneval": Benchmark("openai/openai_humaneval", "test", _humaneval),
        "mbpp": Benchmark("google-research-datasets/mbpp", "train+validation+test+prompt", _mbpp),
        "livecodebench": Benchmark("livecodebench/execution-v2", "test", _livecodebench),
    }
)


def _from_hub(benchmark: str) -> Sequence[tuple[str, dict[str, Any]]]:
    from datasets import load_dataset

    hub, split, _ = BENCHMARKS[benchmark]
    try:
        rows = load_dataset(hub, split=split)
    except Exception as error:  # offline, not cached, refused, renamed: many types from several libraries
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"task programs: benchmark {benchmark}: {hub} cannot be read from the Hugging Face hub ({reason}); "
            "give a local copy as its `path` (a JSONL file)"
        ) from None
    return [(f"{hub}:{number}", dict(row)) for number, row in enumerate(rows, start=1)]


def lines(path: str) -> Sequence[tuple[str, dict[str, Any]]]:
    """Read the objects of a JSONL file with their places, their default ids.

    Raises:
        ConfigError: the file cannot be read, or a line is no object.
    """
    objects = []
    for number, line in enumerate(_read(Path(path)).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
            objects.append((where, {"id": where, **row}))
        except (ValueError, TypeError, RecursionError):
            raise ConfigError(f"{where}: not a JSON object") from None
    return objects


def _parsed(read: Callable[[dict[str, Any]], Iterable[Case]], row: dict[str, Any], where: str) -> list[Case]:
    try:
        return list(read(row))
    except KeyError as error:
        raise ConfigError(f"{where}: has no key {error}") from None
    except (TypeError, SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ConfigError(f"{where}: not a line of such programs: {error}") from None


def _read(file: Path) -> str:
    try:
        return read_text(file, _MOST_BYTES, "utf-8-sig")  # without a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"task programs: {file} cannot be read: {getattr(error, 'strerror', error)}") from None
