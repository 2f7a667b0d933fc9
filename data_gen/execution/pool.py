"""Trace many programs, each twice, and run each once untraced: in a pool of sandboxes, or in this process where they are trusted."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from remedy.data_gen.execution.program import Program, ProgramError, Trace
from remedy.data_gen.execution.replies import read
from remedy.data_gen.execution.sandbox import Environment, Sandbox, TracerConfig
from remedy.data_gen.execution.tracer import TraceLimits, trace

Outcome = Trace | ProgramError
"""What became of a program: its trace, or the error whose `kind` says why there is none."""

_WINDOW = 64
"""Programs handed to each sandbox ahead of the reader, so that finished traces do not pile up."""


_Pair = tuple[Sandbox, Sandbox]
"""Of the first run of a program, and of the untraced and the second one: each has processes, addresses and folders of its own."""


def trace_one(program: Program, config: TracerConfig, depth: int | None = None) -> Outcome:
    """The outcome of one program, in a sandbox of this process's own."""
    pair = None if config.isolation == "trusted" else _sandboxes(config, 1, os.getpid())[0]
    return _outcome(program, config, depth, pair)


def trace_all(
    programs: Sequence[Program], config: TracerConfig, workers: int = 1, depth: int | None = None
) -> Iterator[Outcome]:
    """The outcome of every program, in order, `workers` at a time; no outcome depends on another program.

    Raises:
        ConfigError: no sandbox can be started with this configuration.
    """
    if config.isolation == "trusted":
        yield from (_outcome(program, config, depth, None) for program in programs)
        return
    free: queue.SimpleQueue[_Pair] = queue.SimpleQueue()
    for pair in _sandboxes(config, workers, os.getpid()):
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
    """Trace a program whose whole trace is over the tracer's limits down to level 1, then 0; else the outcome as it was."""
    if not (isinstance(outcome, ProgramError) and outcome.kind in ("frames", "output")):
        return outcome
    for depth in (1, 0):
        again = trace_one(program, tracer, depth)
        if not isinstance(again, ProgramError):
            return again
    return outcome


def environment(config: TracerConfig) -> Environment:
    """The interpreter that runs the programs, and its isolation."""
    if config.isolation == "trusted":
        return Environment(f"{platform.python_implementation()} {platform.python_version()}", "trusted")
    return _sandboxes(config, 1, os.getpid())[0][0].environment


def _outcome(program: Program, config: TracerConfig, depth: int | None, pair: _Pair | None) -> Outcome:
    """Return what became of a program that is run three times.

    A trace that a second run does not have is of that run; one with another result than an untraced run is of the tracer. Neither is
    of the program.
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
    plain = run(
        plain=True
    )  # in between: in a namespace of its own, the second run would have the first one's process number
    second = run(again=True)
    if isinstance(second, ProgramError):
        if second.kind == "unstable":
            return second
        return ProgramError("unstable", f"{program.name}: another run of it had no trace: {second}")
    if first != second:
        pairs = enumerate(zip(first.frames, second.frames))
        shorter = min(len(first.frames), len(second.frames))
        number = next((at for at, (one, another) in pairs if one != another), shorter)
        source = (first.frames[number:] or second.frames[-1:])[0].source.strip()
        return ProgramError(
            "unstable", f"{program.name}: another run of it had another trace, from frame {number} on, at `{source}`"
        )
    if isinstance(plain, ProgramError):
        return ProgramError("observed", f"{program.name}: without tracing it had no result: {plain}")
    if plain.end != first.end:
        ends = [f"{one.end.text if one.end else '':.150}" for one in (plain, first)]
        return ProgramError("observed", f"{program.name}: without tracing it ends in {ends[0]}, not in {ends[1]}")
    return first


def _in_process(program: Program, config: TracerConfig, depth: int | None, again: bool, plain: bool) -> Trace:
    limits = TraceLimits(
        config.max_frames,
        config.max_value_characters,
        config.unreadable == "placeholder",
        config.objects == "attributes",
    )
    with contextlib.redirect_stdout(io.StringIO()):  # what a program prints is no output of ours
        return trace(program, limits, depth, again=again, plain=plain)


@lru_cache(maxsize=4)
def _sandboxes(config: TracerConfig, workers: int, process: int) -> tuple[_Pair, ...]:
    """A process's sandboxes for a configuration; their servers end with it. A forked process must not talk to its parent's."""
    return tuple((Sandbox(config), Sandbox(config)) for _ in range(workers))
