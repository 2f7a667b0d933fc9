"""Do a Transformer, Mamba-2 and DeltaNet follow a state that is shown seldom, or one value of it at a time, in how many of 32 seeds?

The setting of the companion paper (2602.14814): swaps of five variables, of which all values (`sparse`) or one in turn (`partial`) are
shown at a spacing; trained on 8 commands at spacing 1, 16 at 2, 32 at 4 and 64 at 8. There are 10^8 stretches of eight swaps; `seen`
says how many of those that the test's programs begin with began one that the first seed was trained on. Right is a trace all of whose
shown values the model writes, the commands being given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.members import Batches, exact, stacked, trained
from benchmarks.gpu.queue import Cell, Facts
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import token_arrays
from remedy.data_gen.roles import Role, Special

MIXERS = {"attention": 8e-3, "mamba2": 8e-3, "deltanet": 2e-3}
"""Learning rates that were chosen for them on validation in configs/study/mixers_longer.yaml."""
SHOWN = {"sparse": "full", "partial": "one_in_turn"}
CURRICULUM = ((8, 1), (16, 2), (32, 4), (64, 8))
TESTS = ((64, 8), (64, 16), (128, 16), (64, math.inf))
STEPS, ROWS, EVERY, EXAMPLES = (500, 500, 1000, 2000), 32, 50, 400
STRIDE = 10_000_000
"""From the examples of one seed to those of the next."""


def cells(rehearse: bool) -> list[Cell]:
    """Sparse before partial, sixteen seeds of every arm before sixteen more."""
    if rehearse:
        given = {"seeds": (0, 2), "steps": (1, 1), "rows": 2, "examples": 3}
        return [Cell(f"{m} {s}", {"mixer": m, "shown": s, **given}) for m in MIXERS for s in SHOWN]
    return [
        Cell(
            f"{mixer} {shown} {first}-{first + 15}",
            {"mixer": mixer, "shown": shown, "seeds": (first, first + 16)},
            90.0,
        )
        for first in (0, 16)
        for shown in SHOWN
        for mixer in MIXERS
    ]


def measure(
    mixer: str,
    shown: str,
    seeds: tuple[int, int],
    steps: tuple[int, ...] = STEPS,
    rows: int = ROWS,
    examples: int = EXAMPLES,
) -> Iterator[Facts]:
    stages = [_data(shown, *stage) for stage in CURRICULUM[: len(steps)]]
    members, vocabulary = range(*seeds), len(Special) + len(stages[0].task.symbols() or ())
    every = min(EVERY, *steps)

    def batches(stage: int, first: int) -> Batches:
        """Return for each member its own examples, as its seed would read them alone."""
        start = (sum(steps[:stage]) + first) * rows
        count = min(every, steps[stage] - first)
        parts = [_arrays(stages[stage], "train", STRIDE * seed + start, count * rows) for seed in members]
        ids, labels = (torch.stack([part[n].unflatten(0, (count, rows)) for part in parts], 1) for n in (0, 1))
        return ids.flatten(1, 2), labels.flatten(1, 2)

    model = stacked({"mixers": [mixer]}, vocabulary, members)
    for step, losses in trained(model, batches, list(steps), MIXERS[mixer], every):
        if step % (10 * every) == 0 or step == sum(steps):
            yield {"step": step, "loss": round(float(losses.mean()), 4), "worst": round(float(losses.max()), 4)}
    model.eval()
    for length, spacing in TESTS:
        data = _data(shown, length, spacing)
        found = exact(model, *_arrays(data, "test", 0, examples), rows=rows)
        right = [round(float(one), 4) for one in found.double().mean(1)]
        line: dict[str, Any] = {"length": length, "spacing": str(spacing), "right": right}
        yield line | {"seen": _seen(shown, data, steps, rows, examples)}


def _data(shown: str, length: int, spacing: float) -> DataConfig:
    task = {"kind": "permutation", "n": 5, "moves": "swaps", "length": length, "distinct_values": True}
    reveal = {"locals": SHOWN[shown], "spacing": spacing}
    return DataConfig.model_validate({"task": task, "format": "symbolic", "context": False, "reveal": reveal})


def _arrays(data: DataConfig, split: str, start: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and labels of some examples in a row (N, T): values are labelled, and the first ones are given."""
    arrays = token_arrays(data, split, range(start, start + count))
    assert arrays is not None
    ids = torch.from_numpy(arrays.ids)
    asked = torch.from_numpy((arrays.roles == Role.STATE) & (arrays.frames >= 0))
    return ids, torch.where(asked, ids, -100)


def _seen(shown: str, data: DataConfig, steps: tuple[int, ...], rows: int, examples: int) -> float:
    """Return the share of the test's programs whose first eight commands begin a program that the first seed was trained on."""
    trained_on: set[bytes] = set()
    for stage, count in enumerate(steps):
        start = sum(steps[:stage]) * rows
        trained_on |= _first_eight(_data(shown, *CURRICULUM[stage]), "train", start, count * rows)
    return round(len(_first_eight(data, "test", 0, examples) & trained_on) / examples, 4)


def _first_eight(data: DataConfig, split: str, start: int, count: int) -> set[bytes]:
    arrays = token_arrays(data, split, range(start, start + count))
    assert arrays is not None
    where = np.flatnonzero(arrays.roles[0] == Role.ACTION)[:8]
    return {row.tobytes() for row in arrays.ids[:, where]}
