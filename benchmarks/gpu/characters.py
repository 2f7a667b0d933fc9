"""Does a real pretrained model learn strings sooner by characters than by its own subwords, all of its weights being trained?

SmolLM2-135M on five string functions, 600 steps of 32 examples (19,200; the study's runs with adapters had 480), six seeds a way. Right
is a whole trace written without a fault. The primary question is steps to 90 % of 300 held-out programs of these functions; three
functions that were not trained on are asked at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu.fine_tuning import SMOLLM2, WRITTEN, fine_tuned, tiny
from benchmarks.gpu.queue import Cell, Facts

ARMS = {"subwords": {}, "characters": {"string_tokenization": "characters"}}
SEEDS = 6
TRAINED = ["add_prefix", "repeat_str", "rotate_str", "mirror_str", "remove_vowels"]
OTHERS = ["add_suffix", "insert_separator", "duplicate_every_char"]


def cells(rehearse: bool) -> list[Cell]:
    """Return the arms in turns, so that equally many seeds of each are through."""
    if rehearse:
        small = {"seed": 1, "base": "tiny", "steps": 2, "rows": 2, "every": 1, "examples": 3}
        return [Cell(f"{arm} 1", {"arm": arm, **small}) for arm in ARMS]
    return [Cell(f"{arm} {seed}", {"arm": arm, "seed": seed}, 75.0) for seed in range(1, SEEDS + 1) for arm in ARMS]


def measure(
    arm: str,
    seed: int,
    base: str = SMOLLM2,
    steps: int = 600,
    rows: int = 32,
    every: int = 100,
    examples: int = 300,
) -> Iterator[Facts]:
    task = {"kind": "composition", "functions": TRAINED, "depth": 1, "input_length": [2, 5]}
    data = {"task": task, "format": "cwm", "reveal": {"locals": "diff"}}
    tests = {"trained": ({}, WRITTEN), "others": ({"task.functions": OTHERS}, WRITTEN)}
    where = tiny() if base == "tiny" else base
    yield from fine_tuned(where, data, tests, seed, steps, rows, every, examples, ARMS[arm])
