"""One job of the queue on one GPU, from nothing.

python -m benchmarks.gpu --list                                 what has run, what is next
python -m benchmarks.gpu NAME --out DIR [--minutes 9]           what DIR does not hold of it yet, until the time is up
python -m benchmarks.gpu NAME --out DIR --rehearse              all of it, tiny, on a CPU
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ["USE_HUB_KERNELS"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"
from benchmarks.gpu.queue import JOBS, ended, job, one, run

RESULTS = Path(__file__).parents[2] / "results" / "gpu"


def listing() -> str:
    """Return a line a job: what has run, what is next."""
    lines, following = [], True
    for name in JOBS:
        chosen, path = job(name), RESULTS / f"{name}.jsonl"
        every = {cell.name for cell in chosen.cells(False)}
        done = ended(path) & every
        state = "has run" if done == every else "next" if following else "waits"
        following &= done == every
        lines.append(f"{name:<14} {state:<8} {len(done):>3} of {len(every)} cells  {chosen.question}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=JOBS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.list:
        print(listing())
    elif given.name and given.cell:
        one(given.name, given.cell, given.rehearse)
    elif not given.name or not given.out:
        parser.error("a job's name and --out, or --list")
    else:
        run(given.name, given.out, given.minutes, given.rehearse)


if __name__ == "__main__":
    main()
