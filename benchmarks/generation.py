"""Speed of making examples, on one core, beside reference loops measured in the same run.

python benchmarks/generation.py
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

from remedy import rng
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples, token_arrays
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.sandbox import Sandbox
from remedy.data_gen.tasks.composition import CompositionTask, compose

SYMBOLIC = DataConfig.model_validate(
    {"task": {"kind": "permutation", "n": 5, "moves": "full", "length": 64}, "format": "symbolic", "context": False}
)
SPARSE = DataConfig.model_validate({**SYMBOLIC.model_dump(), "reveal": {"spacing": 16}})
STRINGS = DataConfig.model_validate({"task": {"kind": "composition", "depth": 1}, "reveal": {"locals": "diff"}})


def median_rate(make: Callable[[int], Any], count: int, repeats: int = 5) -> float:
    """Median over repeats of examples per second; `make(round)` makes `count` examples."""
    make(repeats)
    rates = []
    for number in range(repeats):
        begin = time.perf_counter()
        make(number)
        rates.append(count / (time.perf_counter() - begin))
    return statistics.median(rates)


def bare_settrace(programs: list[Program]) -> None:
    """Measure the floor: compile, and run under a trace function that records nothing."""

    def ignore(frame: Any, event: str, arg: Any) -> Any:
        return ignore

    for program in programs:
        namespace: dict[str, Any] = {}
        exec(compile(program.code, "<bare>", "exec"), namespace)
        sys.settrace(ignore)
        namespace["main"]()
        sys.settrace(None)


def plain_loop(programs: list[Program]) -> None:
    """Run a minimal trace-and-render loop: no roles, no diff, no limits."""
    for program in programs:
        lines = program.code.split("\n")
        parts: list[str] = []

        def record(frame: Any, event: str, arg: Any, lines: list[str] = lines, parts: list[str] = parts) -> Any:
            if frame.f_code.co_filename != "<plain>":
                return None
            state = {k: repr(v) for k, v in frame.f_locals.items()} if event in ("call", "line") else repr(arg)
            parts.append(f"<|{event}_sep|>{state}<|action_sep|>{lines[frame.f_lineno - 1]}<|frame_sep|>")
            return record

        namespace: dict[str, Any] = {}
        exec(compile(program.code, "<plain>", "exec"), namespace)
        sys.settrace(record)
        namespace["main"]()
        sys.settrace(None)
        "".join(parts)


def main() -> None:
    torch.set_num_threads(1)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; medians of 5")
    rows = 16_384
    for name, config in (("every state revealed", SYMBOLIC), ("every 16th", SPARSE)):
        rate = median_rate(lambda n, c=config: token_arrays(c, "train", range(n * rows, (n + 1) * rows)), rows)  # type: ignore[misc]
        arrays = token_arrays(config, "train", [0])
        assert arrays is not None
        print(f"symbolic S_5, length 64, {name}: {rate:,.0f} examples/s, {rate * arrays.ids.shape[1]:,.0f} tokens/s")

    task = CompositionTask(depth=1)
    drawn = [compose(task, rng.Draws(rng.key(0, 0, i))) for i in range(400)]
    programs = [Program(c.code) for c in drawn]
    bare = median_rate(lambda _: bare_settrace(programs), len(programs))
    plain = median_rate(lambda _: plain_loop(programs), len(programs))
    print(f"string programs, bare settrace (reference): {bare:,.0f}/s")
    print(f"string programs, plain trace-and-render loop (reference): {plain:,.0f}/s")
    ours = median_rate(batches_of_32, 512)
    print(
        f"string programs, ours, drawn, traced and rendered to spans: {ours:,.0f}/s ({ours / plain:.2f} of the plain loop)"
    )
    with Sandbox() as sandbox:
        boxed = median_rate(lambda _: [sandbox.trace(program) for program in programs], len(programs), repeats=3)
    forks = float(subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True).stdout)
    print(f"string programs, sandboxed, a fork each: {boxed:,.0f}/s (a bare fork and wait, the floor: {forks:,.0f}/s)")


def batches_of_32(number: int) -> None:
    """512 examples as a training run asks for them."""
    for start in range(number * 512, (number + 1) * 512, 32):
        examples(STRINGS, "train", range(start, start + 32))


FORKS = """
import os, time
begin = time.perf_counter()
for _ in range(300):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
print(300 / (time.perf_counter() - begin))
"""


if __name__ == "__main__":
    main()
