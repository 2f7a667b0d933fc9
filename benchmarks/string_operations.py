"""Rates of changed strings by operation, of `configs/study/strings_pretrained.yaml`.

    python -m benchmarks.string_operations runs/strings_pretrained results/study/strings_pretrained/operations.csv

A state is right if the model chooses each of its tokens, given the true ones before. Subwords can cut a right string otherwise:
`other_cuts` counts wrong states whose first wrong token begins with the true text that is left. They are at most that many.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from remedy.models.loading import load_checkpoint

torch.set_num_threads(1)

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
COUNTS = "states", "right", "begins", "written"


class State(NamedTuple):
    """State of a frame: the position of its first token, its true tokens, and those that the model chose."""

    start: int
    true: list[str]
    chosen: list[str]

    def first_wrong(self) -> int:
        """Return the index of the first wrong token."""
        return next(i for i, (true, chosen) in enumerate(zip(self.true, self.chosen)) if true != chosen)

    def begins(self) -> bool:
        """Say if the first wrong token begins the true text that is left."""
        first = self.first_wrong()
        return "".join(self.true[first:]).startswith(self.chosen[first])


def states_of(row: Any) -> dict[int, State]:
    """Return a generation's states by frame number."""
    states: dict[int, State] = {}
    for position, (text, role, number) in enumerate(zip(row.true_texts, row.true_roles, row.true_frames)):
        if role == "state":
            states.setdefault(number, State(position, [], [])).true.append(text)
    for text, role, written in zip(row.texts, row.roles, row.places):
        if role == "state":
            states[written + 1].chosen.append(text)  # the prompt holds the first frame
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


@torch.no_grad()
def write_states(model: Any, tokenizer: Any, row: Any, states: list[State]) -> list[bool]:
    """Say of each state if the model, left to itself from the state's first token on, writes the true text."""
    right = []
    cache = model(torch.tensor([row.true_ids.tolist()]), use_cache=True).past_key_values
    for state in sorted(states, key=lambda one: -one.start):
        cache.crop(state.start - 1 - cache.get_seq_length())
        text, wanted, token = "", "".join(state.true), int(row.true_ids[state.start - 1])
        while len(text) < len(wanted) and wanted.startswith(text):
            token = int(model(torch.tensor([[token]]), past_key_values=cache, use_cache=True).logits[0, -1].argmax())
            text += tokenizer.decode([token])
        right.append(text == wanted)
    return right[::-1]


def count_states(run: Path) -> Counter[tuple[str, str]]:
    """Count a run's changed states by operation: `states`, `right`, `begins` and `written`."""
    counts: Counter[tuple[str, str]] = Counter()
    loaded: tuple[Any, Any] | None = None
    (path,) = (run / "evaluation" / "generations").glob("*.parquet")
    for row in pd.read_parquet(path).itertuples():
        lines, cut_otherwise = lines_of(row), {}
        for number, state in states_of(row).items():
            if " = " not in (line := lines.get(number - 1, "")):
                continue
            operation = operation_of(line)
            counts[operation, "states"] += 1
            if state.true == state.chosen:
                counts[operation, "right"] += 1
            elif state.begins():
                counts[operation, "begins"] += 1
                cut_otherwise[state.start] = (operation, state)
        pairs = [cut_otherwise[start] for start in sorted(cut_otherwise)]
        if pairs:
            loaded = loaded or load_checkpoint(str(run / "model"), precision="bf16")
            for (operation, _), right in zip(pairs, write_states(*loaded, row, [state for _, state in pairs])):
                counts[operation, "written"] += right
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
