"""Traces of many programs, in sandboxes or, if trusted, in this process.

Each program runs twice traced and once untraced.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from remedy.data_gen.execution.program import Program, ProgramError, Trace, TraceLimits
from remedy.data_gen.execution.replies import read
from remedy.data_gen.execution.sandbox import Environment, Sandbox, TracerConfig
from remedy.data_gen.execution.tracer import trace

Outcome = Trace | ProgramError
"""A program's trace, or the error whose `kind` says why there is none."""

OF_THE_MACHINE = ("time", "memory")
"""Outcomes that a faster, larger or idle machine may not have."""
_WINDOW = 64
"""Programs per sandbox ahead of the reader, so that traces do not pile up."""


_Pair = tuple[Sandbox, Sandbox]
"""Sandboxes of the first run and of the other two, with own processes, addresses and folders."""


def trace_one(program: Program, config: TracerConfig, depth: int | None = None) -> Outcome:
    pair = None if config.isolation == "trusted" else _sandboxes(config)[0]
    return _outcome(program, config, depth, pair)


def trace_all(
    programs: Sequence[Program], config: TracerConfig, workers: int = 1, depth: int | None = None
) -> Iterator[Outcome]:
    """Trace programs, `workers` at a time, and yield the outcomes in order.

    Raises:
        ConfigError: no sandbox can be started.
    """
    if config.isolation == "trusted":
        yield from (_outcome(program, config, depth, None) for program in programs)
        return
    free: queue.SimpleQueue[_Pair] = queue.SimpleQueue()
    for pair in _sandboxes(config, workers):
        free.put(pair)

    def run(program: Program) -> Outcome:
        pair = free.get()
        try:
            return _outcome(program, config, depth, pair)
        finally:
            free.put(pair)

    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(programs), _WINDOW * workers):
            yield from pool.map(run, programs[start : start + _WINDOW * workers])


def retrace_shallower(program: Program, tracer: TracerConfig, outcome: Outcome) -> Outcome:
    """Trace a program over the limits again, to call level 1, then 0.

    Other outcomes are returned unchanged.
    """
    if not (isinstance(outcome, ProgramError) and outcome.kind in ("frames", "output")):
        return outcome
    for depth in (1, 0):
        again = trace_one(program, tracer, depth)
        if not isinstance(again, ProgramError):
            return again
    return outcome


def environment(config: TracerConfig) -> Environment:
    if config.isolation == "trusted":
        return Environment(f"{platform.python_implementation()} {platform.python_version()}", "trusted")
    return _sandboxes(config)[0][0].environment


def _outcome(program: Program, config: TracerConfig, depth: int | None, pair: _Pair | None) -> Outcome:
    """Run a program three times.

    Another trace the second time is the outcome `unstable`, another result without tracing `observed`.
    """
    read_once = dict[bytes, Trace]()

    def run(again: bool = False, plain: bool = False) -> Outcome:
        try:
            if pair is None:
                return _in_process(program, config, depth, again, plain)
            reply = pair[again or plain].reply(program, depth, again, plain)
            if reply not in read_once:
                read_once[reply] = read(reply, program)
            return read_once[reply]
        except ProgramError as error:
            return error

    first = run()
    if isinstance(first, ProgramError):
        return first
    # In between: in a process namespace, the second traced run would have the first one's process number.
    plain = run(plain=True)
    second = run(again=True)
    if isinstance(second, ProgramError):
        if second.kind in ("unstable", *OF_THE_MACHINE):
            return second
        return ProgramError("unstable", f"{program.name}: another run of it had no trace: {second}")
    if first != second:
        pairs = enumerate(zip(first.frames, second.frames))
        shorter = min(len(first.frames), len(second.frames))
        number = next((position for position, (frame, other_frame) in pairs if frame != other_frame), shorter)
        source = (first.frames[number:] or second.frames[-1:])[0].source.strip()
        return ProgramError(
            "unstable", f"{program.name}: another run of it had another trace, from frame {number} on, at `{source}`"
        )
    if isinstance(plain, ProgramError):
        if plain.kind in OF_THE_MACHINE:
            return plain
        return ProgramError("observed", f"{program.name}: without tracing it had no result: {plain}")
    if plain.end != first.end:
        ends = [f"{result.end.text if result.end else '':.150}" for result in (plain, first)]
        return ProgramError("observed", f"{program.name}: without tracing it ends in {ends[0]}, not in {ends[1]}")
    return first


def _in_process(program: Program, config: TracerConfig, depth: int | None, again: bool, plain: bool) -> Trace:
    with contextlib.redirect_stdout(io.StringIO()):  # what a program prints is no output of ours
        return trace(program, TraceLimits.of(config.model_dump()), depth, again=again, plain=plain)


# By the process's id: a forked process must not talk to its parent's servers.
@lru_cache(maxsize=4)
def _started(config: TracerConfig, process: int) -> list[_Pair]:
    return []


def _sandboxes(config: TracerConfig, count: int = 1) -> list[_Pair]:
    pairs = _started(config, os.getpid())
    pairs += [(Sandbox(config), Sandbox(config)) for _ in range(count - len(pairs))]
    return pairs[:count]
