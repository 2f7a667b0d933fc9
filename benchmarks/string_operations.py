"""Rates of changed strings by operation, of `configs/study/strings_pretrained.yaml`.

    python -m benchmarks.string_operations runs/strings_pretrained results/study/strings_pretrained/operations.csv

A state is right if the model, given the true tokens before it, writes its text. `other_cuts` counts those of them that it cut into
other tokens than the true ones, as subwords allow.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

OPERATIONS = {
    "reverse": r"\[::-1\]$",
    "drop the first": r"\[1:\]$",
    "drop the last": r"\[:-1\]$",
    "repeat": r"\* 2$",
    "upper case": r"\.upper\(\)$",
    "remove": r"\.replace\('.', ''\)$",
    "replace": r"\.replace\('.', '.'\)$",
    "concatenate": r" \+ ",
}
"""The last part of each operation's line."""
COUNTS = "states", "right", "other_cuts"


class State(NamedTuple):
    """State of a frame: its true tokens, and those that the model chose, with their log-probabilities."""

    true: list[str]
    chosen: list[str]
    logprobs: list[float]


def states_of(row: Any) -> dict[int, State]:
    """Return a generation's states by frame number."""
    states: dict[int, State] = {}
    for text, role, number in zip(row.true_texts, row.true_roles, row.true_frames):
        if role == "state":
            states.setdefault(number, State([], [], [])).true.append(text)
    for text, role, index, logprob in zip(row.texts, row.roles, row.places, row.logprobs):
        if role == "state":
            states[index + 1].chosen.append(text)  # the prompt holds the first frame
            states[index + 1].logprobs.append(logprob)
    return states


def lines_of(row: Any) -> dict[int, str]:
    """Return the source lines of a generation's frames, by frame number."""
    lines: dict[int, str] = {}
    for text, role, number in zip(row.true_texts, row.true_roles, row.true_frames):
        if role == "action":
            lines[number] = lines.get(number, "") + text
    return {number: line.strip() for number, line in lines.items()}


def operation_of(line: str) -> str:
    """Return the operation of a line.

    Raises:
        ValueError: the line has none of them.
    """
    for name, pattern in OPERATIONS.items():
        if re.search(pattern, line):
            return name
    raise ValueError(f"{line!r} has none of the operations {', '.join(OPERATIONS)}")


def count_states(run: Path) -> Counter[tuple[str, str]]:
    """Count a run's changed states by operation: `states`, `right` and `other_cuts`."""
    counts: Counter[tuple[str, str]] = Counter()
    (path,) = (run / "evaluation" / "generations").glob("*.parquet")
    for row in pd.read_parquet(path).itertuples():
        lines = lines_of(row)
        for number, state in states_of(row).items():
            if " = " not in (line := lines.get(number - 1, "")):
                continue
            operation, right = operation_of(line), state.true == state.chosen
            counts[operation, "states"] += 1
            counts[operation, "right"] += right
            counts[operation, "other_cuts"] += right and any(map(math.isnan, state.logprobs))
    return counts


def main(experiment: str, out: str) -> None:
    """Write a row for each run and operation, and print the rates of each variant."""
    rows = []
    for run in sorted(Path(experiment).glob("*/*-seed-*")):
        if (run / "evaluation").exists():
            counts = count_states(run)
            variant, seed = run.name.split("-seed-")
            rows += [[variant, int(seed), name, *(counts[name, key] for key in COUNTS)] for name in OPERATIONS]
    table = pd.DataFrame(rows, columns=["variant", "seed", "operation", *COUNTS])
    table.to_csv(out, index=False)
    for keys in (["operation", "variant"], ["variant", "seed"]):
        sums = table.groupby(keys, sort=False)[[*COUNTS]].sum()
        print(sums[[*COUNTS[1:]]].div(sums["states"], axis=0).mul(100).round(1).to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
