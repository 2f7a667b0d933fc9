"""How often a model is called, one after the other, for each program of a benchmark: with guesses, and by the plain loop.

python benchmarks/sequential_calls.py CHECKPOINT PROGRAMS.jsonl OUT.jsonl [--benchmark NAME] [--forcing NAME ...] [--count N]
    [--precision bf16]

One program at a time, in an order drawn from the seed, each forcing in turn; what is done is kept in OUT.jsonl, and a rerun goes on.
The plain loop is not run: its calls are counted by walking its cursor over the same tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

from remedy.data_gen.config import DataConfig
from remedy.data_gen.settings import build
from remedy.data_gen.tasks.programs import split_cases
from remedy.eval.forcings import FORCINGS
from remedy.eval.generators import LocalGenerator, Writing, Written
from remedy.eval.generators.base import cursor_of
from remedy.models.encoding import encoded_examples
from remedy.models.loading import PRECISIONS, load_checkpoint
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer

LONGEST = 2048
"""Tokens of a program and its true trace, at most: longer ones are left out, and counted."""


def calls_of_the_loop(truth: Encoded, written: Written, writing: Writing, tokenizer: TraceTokenizer) -> int:
    """How many calls write the same tokens one by one: a prompt is one, and so is each token that is read after it.

    Raises:
        RuntimeError: the walk does not write these tokens.
    """
    cursor = cursor_of(truth, writing, tokenizer, None)
    expected = [[*run.ids] for run in written.runs]
    calls = 0
    while not cursor.done:
        cursor.prompt()
        calls += 1
        while True:
            run, at = len(cursor.generated), len(cursor.current)
            ids = expected[run] if run < len(expected) else []
            token = cursor.next_token(ids[at] if at < len(ids) else tokenizer.eos_id, 0.0)
            if token is None:
                break
            calls += 1
    if [run.ids for run in cursor.generated] != expected:
        raise RuntimeError("the walk over what was written does not write it again")
    return calls


def measured(local: LocalGenerator, truth: Encoded, writing: Writing) -> dict[str, Any]:
    """What it took to write one example."""
    keeper = local.reader.keeper
    calls, begin = keeper.calls, time.process_time()
    (written,) = local.generate([truth], writing)
    return {
        "seconds": time.process_time() - begin,
        "calls": keeper.calls - calls,
        "loop": calls_of_the_loop(truth, written, writing, local.tokenizer),
        "tokens": sum(len(run.ids) for run in written.runs),
        "right": all(run.ids == list(truth.ids[run.start : run.stop]) for run in written.runs),
        "near_ties": written.near_ties,
    }


def table(lines: list[dict[str, Any]]) -> None:
    """A row for each forcing."""
    print(
        "forcing | programs | whole traces right | tokens | calls of the loop | with guesses | share | below a tenth in | near ties"
    )
    for forcing in sorted({line["forcing"] for line in lines}):
        some = [line for line in lines if line["forcing"] == forcing]
        tokens, loop, calls, right, ties = (
            sum(line[key] for line in some) for key in ("tokens", "loop", "calls", "right", "near_ties")
        )
        few = sum(10 * line["calls"] <= line["loop"] for line in some)
        print(
            f"{forcing} | {len(some)} | {right} | {tokens:,} | {loop:,} | {calls:,} | {calls / loop:.3f} | {few} | {ties}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("programs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--benchmark", default="cruxeval")
    parser.add_argument("--forcing", nargs="*", default=["free", "action_forced"])
    parser.add_argument("--max-new-tokens", type=int, default=4096)
    parser.add_argument("--count", type=int, default=10**9, help="programs at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", choices=sorted(PRECISIONS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_checkpoint(asked.checkpoint, precision=asked.precision)
    task = {"kind": "programs", "benchmark": asked.benchmark, "path": str(asked.programs)}
    data = build(DataConfig, {"task": task, "format": "cwm", "reveal": {"locals": "diff"}}, "data")
    local = LocalGenerator(ModelReader(model, asked.checkpoint), tokenizer, 1)
    cases = range(len(split_cases(data.task, "all")))
    made = encoded_examples(data, tokenizer, "all", cases)
    fit = [at for at, (one, truth) in enumerate(made) if one.outcome == "ok" and len(truth.ids) <= LONGEST]
    random.Random(asked.seed).shuffle(fit)
    print(f"{len(fit)} of {len(made)} programs take at most {LONGEST:,} tokens; {local.report()}", flush=True)
    lines = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {(line["program"], line["forcing"]) for line in lines}
    with asked.out.open("a") as kept:
        for at in fit[: asked.count]:
            for forcing in asked.forcing:
                if (at, forcing) in done:
                    continue
                writing = Writing(FORCINGS[forcing], max_new_tokens=asked.max_new_tokens)
                line = {"program": at, "forcing": forcing, **measured(local, made[at][1], writing)}
                lines.append(line)
                kept.write(json.dumps(line) + "\n")
                kept.flush()
    table(lines)


if __name__ == "__main__":
    main()
