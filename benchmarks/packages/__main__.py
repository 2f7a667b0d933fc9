"""Run `python -m benchmarks.packages NAME...`: the examples of packages that are installed, through all that is promised of a trace.

Each program runs in a process and a folder of its own, with no wall around it: name packages that you would import. Status 1 if
anything is not so.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection

from benchmarks.packages.checks import Checked, check
from benchmarks.packages.examples import programs
from remedy.data_gen.execution.program import Program
from tests.data_gen.execution.random_programs import Writer

_MEMORY = 4 << 30


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packages", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="packages or modules, as they are imported")
    parser.add_argument(
        "--frames", type=int, default=2_000, help="frames of each trace that are held against the control flow"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of one program")
    parser.add_argument("--random", type=int, default=0, help="random programs that are tried too")
    arguments = parser.parse_args(words)
    for name in arguments.names:
        if importlib.util.find_spec(name) is None:
            parser.error(f"there is no module {name}: install its package, or name it as it is imported")
    outcomes: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    print("| package | programs | with a trace | frames | held against control flow | not so |")
    print("|---|---|---|---|---|---|")
    sources = {name: programs(name) for name in arguments.names}
    if arguments.random:
        sources["random programs"] = (Writer(number).program() for number in range(arguments.random))
    for name, tried in sources.items():
        counts: Counter[str] = Counter()
        problems: list[str] = []
        for program in tried:
            found = checked(program, arguments.frames, arguments.seconds)
            outcomes[found.outcome] += 1
            counts.update(programs=1, traced=found.frames > 0, frames=found.frames, followed=found.followed)
            counts["problems"] += len(found.problems)
            problems += [f"{program.name}: {problem:.1000}" for problem in found.problems]
        totals += counts
        print(_row(name, counts), flush=True)
        for problem in problems:
            print(f"  {problem}", file=sys.stderr, flush=True)
    print(_row("all", totals))
    print(f"Outcomes: {', '.join(f'{kind} {count:,}' for kind, count in sorted(outcomes.items()))}.")
    return 1 if totals["problems"] else 0


def _row(name: str, counts: Counter[str]) -> str:
    kinds = ("programs", "traced", "frames", "followed", "problems")
    return f"| {name} | " + " | ".join(f"{counts[kind]:,}" for kind in kinds) + " |"


def checked(program: Program, most_followed: int, seconds: float) -> Checked:
    """Return what `check` finds, in a process of its own; the outcome is `time` or `killed` where that does not end, or ends early."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:  # where examples write files
        process = context.Process(target=_check, args=(program, most_followed, folder, there))
        process.start()
        there.close()
        end = time.monotonic() + seconds
        try:
            found = here.recv() if here.poll(max(end - time.monotonic(), 0)) else Checked("time")
        except EOFError:
            found = Checked("killed")
        process.kill()
        process.join()
        here.close()
    return found


def _check(program: Program, most_followed: int, folder: str, there: Connection) -> None:
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.close(0)  # nothing of a program's reads what is meant for us
    there.send(check(program, most_followed=most_followed))


if __name__ == "__main__":
    sys.exit(main())
