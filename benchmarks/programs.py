"""Speed of tracing real programs, sandboxed and in process, beside reference loops measured in the same run.

python benchmarks/programs.py [FILE]     FILE: CruxEval as a JSONL file; without it, from the Hugging Face hub
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from generation import FORKS, bare_settrace, plain_loop

from remedy.data_gen.execution.isolation import PROBLEMS
from remedy.data_gen.execution.pool import environment, trace_all
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.tasks.programs import ProgramsTask, load_cases

ROUNDS = 5


def rates(ways: dict[str, Callable[[Sequence[Program]], Any]], programs: Sequence[Program]) -> dict[str, list[float]]:
    """Programs per second of every way, once a round, so that a slow moment of the machine meets them all."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(programs)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            begin = time.perf_counter()
            way(programs)
            found[name].append(len(programs) / (time.perf_counter() - begin))
    return found


def traced(config: TracerConfig, workers: int = 1) -> Callable[[Sequence[Program]], None]:
    """Trace them all; none may fail."""

    def run(programs: Sequence[Program]) -> None:
        failed = [outcome for outcome in trace_all(programs, config, workers) if isinstance(outcome, ProgramError)]
        assert not failed, failed

    return run


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else None
    programs = [case.program for case in load_cases(ProgramsTask(benchmark="cruxeval", path=path))]
    isolations = ["none", *(name for name, problem in PROBLEMS.items() if not problem())]
    ways: dict[str, Callable[[Sequence[Program]], Any]] = {
        "bare settrace, records nothing (reference)": lambda p: bare_settrace(list(p)),
        "plain trace-and-render loop (reference)": lambda p: plain_loop(list(p)),
        "ours, in process": traced(TracerConfig(isolation="trusted")),
    }
    for isolation in isolations:
        config = TracerConfig.model_validate({"isolation": isolation})
        environment(config)
        for workers in (1, 2):
            ways[f"ours, sandboxed ({isolation}), {workers} worker{'s' * (workers > 1)}"] = traced(config, workers)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; "
        f"{len(programs)} programs of CruxEval, median (least to most) of {ROUNDS} rounds"
    )
    found = rates(ways, programs)
    plain = statistics.median(found["plain trace-and-render loop (reference)"])
    for name, values in found.items():
        middle = statistics.median(values)
        print(
            f"{name}: {middle:,.0f}/s ({min(values):,.0f} to {max(values):,.0f}); {middle / plain:.2f} of the plain loop"
        )
    forks = [
        float(subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True).stdout)
        for _ in range(ROUNDS)
    ]
    print(f"a bare fork and wait, the floor of a sandbox: {statistics.median(forks):,.0f}/s")


if __name__ == "__main__":
    main()
