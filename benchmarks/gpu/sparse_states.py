"""Does a real pretrained model need every state on the way, at the trained length, at four times it, and told where states stand?

SmolLM2-135M, all weights, on swaps of five variables in the code world model's text, 1 to 12 commands, equally many training tokens for
every arm: every state, differences, every fourth state, the last alone. Right is a trace whose states and value are written without
a fault, the rest being given (`told`), or all of which is (`untold`), of 12 commands and of 48.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu.fine_tuning import SMOLLM2, WRITTEN, fine_tuned, mean_tokens, tiny
from benchmarks.gpu.queue import Cell, Facts
from remedy.data_gen.config import DataConfig

ARMS: dict[str, Facts] = {
    "every": {},
    "last": {"spacing": float("inf")},
    "fourth": {"spacing": 4},
    "differences": {"locals": "diff"},
}
SEEDS, TOKENS = 6, 6_000_000
TOLD = ("state", "value")


def cells(rehearse: bool) -> list[Cell]:
    """Every state against the last alone first, six seeds of each, then the two between them."""
    if rehearse:
        small = {"seed": 1, "base": "tiny", "tokens": 1000, "rows": 2, "examples": 2, "lengths": (2, 4)}
        return [Cell(f"{arm} 1", {"arm": arm, **small}) for arm in ("every", "last")]
    pairs = (("every", "last"), ("fourth", "differences"))
    return [
        Cell(f"{arm} {seed}", {"arm": arm, "seed": seed}, 90.0)
        for pair in pairs
        for seed in range(1, SEEDS + 1)
        for arm in pair
    ]


def measure(
    arm: str,
    seed: int,
    base: str = SMOLLM2,
    tokens: int = TOKENS,
    rows: int = 32,
    examples: int = 200,
    lengths: tuple[int, int] = (12, 48),
) -> Iterator[Facts]:
    where = tiny() if base == "tiny" else base
    task = {"kind": "permutation", "n": 5, "moves": "swaps", "length": [1, lengths[0]], "answer": "none"}
    task["distinct_values"] = True
    data = {"task": task, "format": "cwm_unseeded", "reveal": {"locals": "full", **ARMS[arm]}}
    mean = mean_tokens(where, DataConfig.model_validate(data), examples)
    steps = max(2, round(tokens / mean / rows))
    yield {"tokens_an_example": round(mean, 1), "planned_steps": steps}
    tests = {
        f"{length} commands, {name}": ({"task.length": length}, roles)
        for length in lengths
        for name, roles in (("told", TOLD), ("untold", WRITTEN))
    }
    every = max(1, steps // 4)
    yield from fine_tuned(where, data, tests, seed, steps, rows, every, examples)
