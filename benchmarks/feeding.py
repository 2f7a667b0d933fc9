"""How many tokens of training rows one core makes, in processor seconds.

python benchmarks/feeding.py [CRUXEVAL.jsonl]     needs `make llama3`; without a file, CruxEval from the Hugging Face hub

Seconds are of this process and of all that it started, sandboxes and what they fork, so that other work on the machine counts little.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import psutil

from remedy.data_gen.config import DataConfig
from remedy.data_gen.settings import build
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS
from remedy.train.data import encode_rows

ROUNDS = 3
BATCH = 32
CRUXEVAL = {"kind": "programs", "benchmark": "cruxeval"}
WAYS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "sessions of 64 permutations, one token each": (
        16_384,
        "symbols",
        {
            "task": {"kind": "permutation", "n": 5, "moves": "full", "length": 64},
            "format": "symbolic",
            "context": False,
        },
    ),
    "programs of 4 to 64 permutations": (
        256,
        "llama3",
        {"task": {"kind": "permutation", "n": 5, "moves": "full", "length": [4, 64]}, "format": "cwm"},
    ),
    "one to four string functions, in process": (
        512,
        "llama3",
        {"task": {"kind": "composition", "depth": [1, 4]}, "format": "cwm", "reveal": {"locals": "diff"}},
    ),
    "CruxEval, in process": (
        192,
        "llama3",
        {"task": {**CRUXEVAL, "tracer": {"isolation": "trusted"}}, "format": "cwm", "reveal": {"locals": "diff"}},
    ),
    "CruxEval, sandboxed": (
        192,
        "llama3",
        {"task": CRUXEVAL, "format": "cwm", "reveal": {"locals": "diff"}},
    ),
}


def tree_seconds() -> float:
    """Processor seconds of this process and of all below it, with those that ended."""
    this = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in [this, *this.children(recursive=True)])


def rate(name: str, path: str | None) -> tuple[float, float, float]:
    """Tokens and rows that a core makes in a second, and tokens of a row: medians over rounds of other rows, after some to warm up."""
    count, kind, settings = WAYS[name]
    if path is not None and settings["task"]["kind"] == "programs":
        settings = {**settings, "task": {**settings["task"], "path": path}}
    data = build(DataConfig, settings, name)
    tokenizer = build_tokenizer(TOKENIZERS[kind].model_validate({"kind": kind}), data)
    encode_rows(data, tokenizer, "train", range(BATCH))
    found = []
    for number in range(ROUNDS):
        begin, tokens = tree_seconds(), 0
        for start in range(BATCH + number * count, BATCH + (number + 1) * count, BATCH):
            tokens += sum(len(row.ids) for row in encode_rows(data, tokenizer, "train", range(start, start + BATCH)))
        seconds = tree_seconds() - begin
        found.append((tokens / seconds, count / seconds, tokens / count))
    each_token, each_row, length = (statistics.median(column) for column in zip(*found))
    return each_token, each_row, length


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else None
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; median of {ROUNDS}"
    )
    for name, (_, kind, _) in WAYS.items():
        tokens, rows, length = rate(name, path)
        print(f"{name} ({kind}): {tokens:,.0f} tokens a second of a core, {rows:,.0f} rows of {length:,.0f} tokens")


if __name__ == "__main__":
    main()
