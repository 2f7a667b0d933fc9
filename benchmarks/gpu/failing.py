"""In how many trainings of 64 does a model that is shown the last state alone learn nothing, and in how many with every state?

The study's setting (configs/study/accuracy_per_token.yaml): swaps of five variables in the code world model's text, Gated DeltaNet
and windowed attention of width 64, equal training tokens; the last state alone begins with half of them in full. The seeds of an arm
read the same examples, each in an order of its own. A training solves the task if it writes the states and values of 95 % of 200
programs of twelve commands without a fault, the rest being given; `untold`: and where they stand as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import torch
from torch.nn.utils.rnn import pad_sequence

from benchmarks.gpu.members import Batches, exact, stacked, trained
from benchmarks.gpu.queue import Cell, Facts
from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import PAD_ROLE, Role
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import BytePairSettings

ARMS: dict[str, tuple[tuple[float, int], ...]] = {
    "last": ((1, 1500), (float("inf"), 2560)),
    "every": ((1, 3000),),
}
"""Spacing and steps of each stage."""
MODEL = {
    "mixers": ["gated_deltanet", "attention"],
    "window": 96,
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "short_convolution": True,
}
ROWS, RATE, EVERY, EXAMPLES, SEEDS = 4, 2e-3, 100, 200, 16
SUPERVISED = (Role.STATE, Role.VALUE, Role.STRUCTURE)
SOLVED = 0.95
PART = 1000
"""Examples that a process makes."""


def cells(rehearse: bool) -> list[Cell]:
    """Sixteen seeds at a time, the arms in turns."""
    if rehearse:
        given = {"seeds": (0, 2), "divided_by": 1500, "examples": 2}
        return [Cell(arm, {"arm": arm, **given}) for arm in ARMS]
    return [
        Cell(f"{arm} {first}-{first + SEEDS - 1}", {"arm": arm, "seeds": (first, first + SEEDS)}, 120.0)
        for first in range(0, 64, SEEDS)
        for arm in ARMS
    ]


def measure(arm: str, seeds: tuple[int, int], divided_by: int = 1, examples: int = EXAMPLES) -> Iterator[Facts]:
    stages = [(spacing, steps // divided_by) for spacing, steps in ARMS[arm]]
    tokenizer = _tokenizer()
    most = max(steps for stages in ARMS.values() for _, steps in stages) // divided_by * ROWS
    pools = [tuple(part[: steps * ROWS] for part in _trained_on(spacing, most)) for spacing, steps in stages]
    orders = [[_order(seed, stage, len(pool[0])) for seed in range(*seeds)] for stage, pool in enumerate(pools)]
    every = min(EVERY, *(steps for _, steps in stages))

    def batches(stage: int, first: int) -> Batches:
        count = min(every, stages[stage][1] - first)
        chosen = [order[first * ROWS : (first + count) * ROWS].view(count, ROWS) for order in orders[stage]]
        rows = torch.cat(chosen, 1)
        return pools[stage][0][rows], pools[stage][1][rows]

    model = stacked(MODEL, tokenizer.vocab_size, range(*seeds))
    total = sum(steps for _, steps in stages)
    for step, losses in trained(model, batches, [steps for _, steps in stages], RATE, every):
        if step % (5 * every) == 0 or step == total:
            yield {"step": step, "loss": round(float(losses.mean()), 4), "worst": round(float(losses.max()), 4)}
    model.eval()
    asked = _data(stages[-1][0]).changed({"task.length": 12}, "benchmarks.gpu.failing")
    for name, roles in (("told", (Role.STATE, Role.VALUE)), ("untold", SUPERVISED)):
        right = exact(model, *_pool(asked, "test", examples, roles), rows=8).double().mean(1)
        line: Facts = {"asked": name, "right": [round(float(one), 4) for one in right]}
        yield line | {"solved": int((right >= SOLVED).sum()), "of": len(right)}


def _data(spacing: float) -> DataConfig:
    task = {
        "kind": "permutation",
        "n": 5,
        "moves": "swaps",
        "length": [1, 12],
        "answer": "none",
        "distinct_values": True,
    }
    given = {"task": task, "format": "cwm_unseeded", "reveal": {"locals": "full", "spacing": spacing}}
    return DataConfig.model_validate(given)


@cache
def _tokenizer() -> TraceTokenizer:
    """One for both arms."""
    return build_tokenizer(BytePairSettings(vocab_size=350), _data(1))


@cache
def _trained_on(spacing: float, count: int) -> Batches:
    """Made once for all cells."""
    return _pool(_data(spacing), "train", count, SUPERVISED)


def _pool(data: DataConfig, split: str, count: int, roles: tuple[Role, ...]) -> Batches:
    """Return the first examples of a split, ids and labels (N, T), padded to the longest; many are made by processes."""
    parts = [(data, split, range(first, min(first + PART, count))) for first in range(0, count, PART)]
    if len(parts) > 1:
        with ProcessPoolExecutor(min(12, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
            found = [one for part in pool.map(_encoded, *zip(*parts)) for one in part]
    else:
        found = _encoded(*parts[0])
    ids = pad_sequence([torch.tensor(one.ids) for one in found], batch_first=True, padding_value=_tokenizer().pad_id)
    kinds = pad_sequence([torch.tensor(one.roles) for one in found], batch_first=True, padding_value=int(PAD_ROLE))
    asked = torch.isin(kinds, torch.tensor([int(role) for role in roles]))
    asked[:, 0] = False
    return ids, torch.where(asked, ids, -100)


def _encoded(data: DataConfig, split: str, indices: range) -> list[Encoded]:
    return [encoded for _, encoded in encoded_examples(data, _tokenizer(), split, indices)]


def _order(seed: int, stage: int, count: int) -> torch.Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(1000 * stage + seed))
