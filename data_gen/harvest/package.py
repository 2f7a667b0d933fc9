"""Harvest of one package: functions, calls, programs, and what is left out."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from remedy.data_gen.execution.pool import trace_all
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.harvest.closure import Refused, called_f, closed
from remedy.data_gen.harvest.duplicates import ProgramIndex, canonical, functions
from remedy.data_gen.harvest.families import families
from remedy.data_gen.harvest.jobs import Calls, Jobs, Result, are_literals, groups
from remedy.data_gen.harvest.modules import Module, first_line, read
from remedy.data_gen.harvest.mutations import mutated
from remedy.data_gen.harvest.sources import Package
from remedy.data_gen.splits import split_of, text_hash

MOST_FRAMES = 2_000
_AT_A_TIME = 12
"""Functions whose calls share a process."""
_WORDS = {
    "raises": "raised",
    "literal": "its result is no short literal",
    "long": "it ran too long",
    "unstable": "another result the second time",
    "import": "its module cannot be imported",
}
NOT_CALLED = ("never called", "called with objects alone", _WORDS["import"])
"""Reasons why no call of a function is tried."""
Say = Callable[[str], None]


class Options(NamedTuple):
    """Settings of a harvest.

    `calls`: of a function, at most. `benchmarks`: programs that are not to be duplicated.
    """

    calls: int
    seed: int
    python: str | None
    workers: int
    benchmarks: ProgramIndex


@dataclass
class Harvest:
    """Programs of a package, and counts of functions and calls by reason."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[dict[str, Any]] = field(default_factory=list)
    functions: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    """Runs of examples and tests, by outcome."""


@dataclass
class _Call:
    arguments: str
    result: str
    iterates: bool
    is_mutated: bool
    frames: int = 0
    """Frames of its trace as a program."""


@dataclass
class _Function:
    module: Module
    node: ast.FunctionDef
    code: str
    seen: list[str]
    calls: list[_Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.module.name}.{self.node.name}"


def harvest(package: Package, options: Options, known: ProgramIndex, say: Say) -> Harvest:
    """Make a package's programs, without duplicates of `known`, and add them to it."""
    output = Harvest()
    with Jobs(options.python, package.libraries, package.alone, options.workers) as jobs:
        known_here = (options.benchmarks, known, ProgramIndex())
        candidates = _candidates(package, _recorded(package, jobs, output, say), jobs, output)
        functions = [function for function in candidates if _is_new(package, function, known_here, output)]
        _choose(functions, jobs, options, output)
    _check(package, functions, options, output, say)
    for function in functions:
        output.functions["kept" if function.calls else "no call of it can be kept"] += 1
        if function.calls:
            known.add(f"{package.name}/{function.name}", canonical(function.code))
            output.rows += _rows(package, function)
    output.calls["kept"] = len(output.rows)
    return output


def _recorded(package: Package, jobs: Jobs, output: Harvest, say: Say) -> dict[str, Calls]:
    modules = [parsed for name, path in package.modules if (parsed := read(name, path)) is not None]
    wanted = {module.name: {first_line(node): node.name for node in module.functions()} for module in modules}
    calls: dict[str, Calls] = {name: {} for name in wanted}
    files = [str(path) for path in package.tests]
    with_examples = [module.name for module in modules if ">>> " in module.source]
    runs = chain.from_iterable(jobs.record(wanted, with_examples, files, package.folder))
    for number, outcome in enumerate(runs, start=1):
        say(f"{package.name}: {number} runs of examples and tests, of at most {len(with_examples) + len(files)}")
        if isinstance(outcome, ProgramError):
            output.jobs[outcome.kind] += 1
            continue
        output.jobs["ok"] += 1
        for module, names in wanted.items():
            for name in names.values():
                if (seen := outcome.get(module, {}).get(name)) is not None:
                    noted = calls[module].setdefault(name, [])
                    noted += [text for text in seen if text not in noted and are_literals(text)]
    return calls


def _candidates(package: Package, calls: Mapping[str, Calls], jobs: Jobs, output: Harvest) -> Iterator[_Function]:
    broken = jobs.broken([name for name, seen in calls.items() if not seen])
    for name, path in package.modules:
        module = read(name, path)
        for node in module.functions() if module is not None else ():
            output.functions["all"] += 1
            seen = calls[name].get(node.name)
            if not seen:
                never, objects, not_imported = NOT_CALLED
                output.functions[objects if seen is not None else not_imported if name in broken else never] += 1
                continue
            output.calls["recorded"] += len(seen)
            try:
                assert module is not None
                yield _Function(module, node, closed(package.root, module, node), seen)
            except Refused as error:
                output.functions[f"not self-contained: {error}"] += 1


def _choose(functions: Sequence[_Function], jobs: Jobs, options: Options, output: Harvest) -> None:
    """Choose the calls of each function: seen ones, then different results, first."""
    arguments = {function.name: _arguments_to_try(function, options) for function in functions}
    by_module: dict[str, list[_Function]] = {}
    for function in functions:
        by_module.setdefault(function.module.name, []).append(function)
    batches = [(name, part) for name, all_ in by_module.items() for part in groups(all_, _AT_A_TIME)]
    with ThreadPoolExecutor(options.workers) as pool:
        evaluated = pool.map(
            lambda batch: jobs.evaluate(batch[0], {f.node.name: [*arguments[f.name]] for f in batch[1]}), batches
        )
        for (_, part), results in zip(batches, evaluated):
            for function in part:
                calls, outcomes = arguments[function.name], results.get(function.node.name)
                if outcomes is None:
                    output.calls["its process ended, or ran too long"] += len(calls)
                function.calls = _selected(calls, outcomes or [], options.calls, output)


def _arguments_to_try(function: _Function, options: Options) -> dict[str, bool]:
    most = 4 * options.calls
    seen = function.seen[:: -(-len(function.seen) // most)]  # from all over the tests
    more = 3 * options.calls - len(seen)
    made_up = mutated(seen, more, f"{options.seed} {function.name}") if len(seen) < 2 * options.calls else []
    return {**dict.fromkeys(seen, False), **dict.fromkeys(made_up, True)}


def _selected(calls: Mapping[str, bool], results: Sequence[Result], most: int, output: Harvest) -> list[_Call]:
    good: list[_Call] = []
    for (text, is_mutated), (word, result, iterates) in zip(calls.items(), results):
        if word == "ok" and are_literals(result):
            good.append(_Call(text, result, iterates, is_mutated))
        else:
            output.calls[f"{'made up, ' if is_mutated else ''}{_WORDS.get(word, _WORDS['literal'])}"] += 1
    good = [call for call in good if call.iterates == good[0].iterates]
    first_of_result: dict[str, _Call] = {}
    for call in good:
        first_of_result.setdefault(call.result, call)
    repeated_results = [call for call in good if first_of_result[call.result] is not call and not call.is_mutated]
    return [*first_of_result.values(), *repeated_results][:most]


def _check(package: Package, functions: Sequence[_Function], options: Options, output: Harvest, say: Say) -> None:
    programs = [
        Program.from_call(_code(function, call), call.arguments, function.name)
        for function in functions
        for call in function.calls
    ]
    tracer = TracerConfig(python=options.python, timeout_seconds=5, max_frames=MOST_FRAMES)
    outcomes = iter(trace_all(programs, tracer, options.workers))
    for number, function in enumerate(functions):
        say(f"{package.name}: {number} of {len(functions)} functions run as programs")
        repeated = []
        for call, outcome in zip(function.calls, outcomes):
            if isinstance(outcome, ProgramError):
                output.calls[f"as a program: {outcome.kind}"] += 1
            elif outcome.result is None or outcome.result.text != call.result:
                output.calls["as a program: another result than in the package"] += 1
            else:
                call.frames = len(outcome.frames)
                repeated.append(call)
        function.calls = repeated


def _code(function: _Function, call: _Call) -> str:
    return called_f(function.code, function.node.name, call.iterates)


def _is_new(package: Package, function: _Function, known: tuple[ProgramIndex, ...], output: Harvest) -> bool:
    benchmarks, earlier, own_package = known
    label = f"{package.name}/{function.name}"
    try:
        texts, parts = canonical(function.code), list(functions(function.code))
    except RecursionError:
        output.functions["nested too deeply to be compared"] += 1
        return False
    in_benchmark = next((same for part in parts if (same := benchmarks.find(part))), None)
    same = in_benchmark or earlier.find(texts) or own_package.find(texts)
    if same is None:
        own_package.add(label, texts)
        return True
    kind = "in a benchmark" if in_benchmark else "duplicate" if same.alike == 1 else "near duplicate"
    output.functions[kind] += 1
    output.duplicates.append({"id": label, "kind": kind, **same._asdict(), "code": function.code})
    return False


def _rows(package: Package, function: _Function) -> Iterator[dict[str, Any]]:
    for number, call in enumerate(function.calls):
        yield {
            "id": f"{package.name}/{function.name}/{number}",
            "code": _code(function, call),
            "input": call.arguments,
            "output": call.result,
            "split": split_of(text_hash(package.name.split(".")[0])),
            "package": package.name,
            "version": package.version,
            "licence": package.licence,
            "file": package.line_of(function.module.path),
            "line": first_line(function.node),
            "function": function.node.name,
            "families": families(function.code),
            "seen": "made up" if call.is_mutated else "recorded",
            "frames": call.frames,
        }
