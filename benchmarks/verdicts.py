"""Simulation of the judge: coverage of intervals, false words, and power by seeds.

python benchmarks/verdicts.py [repetitions] [part ...]
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import numpy.typing as npt
import scipy
from scipy import stats

from remedy.eval.stats import Question, VerdictWord, boschloo, compare, compute_evidence, levels, over_seeds, rate, word
from remedy.eval.stats.exact import permutation_test

Array = npt.NDArray[np.float64]
Generator = np.random.Generator

HUMANEVAL = [5] * 120 + [4] * 18 + [3] * 15 + [2, 2, 1, 1]
"""Executions of each HumanEval problem: 723 of 157."""
SETS = {"200 programs": [1] * 200, "60 programs": [1] * 60, "HumanEval": HUMANEVAL, "9 problems": HUMANEVAL[113:122]}
"""Sizes of the clusters of each set of programs."""


def clusters(name: str) -> list[int]:
    """Return the cluster of every program of a set."""
    return [number for number, size in enumerate(SETS[name]) for _ in range(size)]


def alike(generator: Generator, of: Sequence[int], correlation: float) -> Array:
    """Draw uniform numbers (P,), equal for two in a cluster with probability `correlation`."""
    own, shared = generator.random(len(of)), generator.random(max(of) + 1)[np.asarray(of)]
    return np.where(generator.random(len(of)) < np.sqrt(correlation), shared, own)


class Recipe(NamedTuple):
    """Distribution of the rates of a recipe's runs.

    A run solves its task with probability `solves` and then has the rate `high`, else `low`. `spread` is the standard
    deviation of runs, `programs` of programs, on the logit scale. With `observed`, each run draws one of these rates
    instead.
    """

    solves: float = 1.0
    high: float = 0.5
    low: float = 0.5
    spread: float = 0.0
    programs: float = 1.0
    observed: tuple[float, ...] = ()

    def chances(self, generator: Generator, seeds: int, difficulty: Array) -> Array:
        """Return probabilities to be right (seeds, P), for programs of the given difficulty (P,)."""
        if self.observed:
            return np.repeat(generator.choice(self.observed, (seeds, 1)), len(difficulty), axis=1)
        solved = generator.random((seeds, 1)) < self.solves
        logits = np.where(solved, _logit(self.high), _logit(self.low)) + self.spread * generator.normal(size=(seeds, 1))
        return np.asarray(1 / (1 + np.exp(-logits - self.programs * difficulty)))

    @lru_cache  # noqa: B019 (the recipes are few)
    def truth(self) -> float:
        """Estimate the mean over seeds and programs."""
        generator = np.random.default_rng(1)
        return float(np.mean([self.chances(generator, 400, generator.normal(size=400)) for _ in range(20)]))


def _logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def smooth(rate: float, spread: float) -> Recipe:
    """Make a recipe whose runs vary about a rate."""
    return Recipe(1.0, rate, rate, spread)


@lru_cache
def lower(mean: float, spread: float) -> Recipe:
    """Make a recipe whose mean is as far below that of `smooth(0.8)` as `mean` is below 0.8."""
    rates = np.linspace(0.6, 0.8, 9)
    asked = smooth(0.8, spread).truth() - 0.8 + mean
    return smooth(float(np.interp(asked, [smooth(float(one), spread).truth() for one in rates], rates)), spread)


def bimodal(solves: float, high: float = 0.999, low: float = 1 / 3) -> Recipe:
    """Make a recipe whose runs reach the high rate with a probability, else the low one."""
    return Recipe(solves, high, low, 0.1, 0.3)


def outcomes(generator: Generator, recipe: Recipe, seeds: int, difficulty: Array) -> Array:
    chances = recipe.chances(generator, seeds, difficulty)
    return (generator.random(chances.shape) < chances).astype(float)


def difficulties(generator: Generator, of: Sequence[int]) -> Array:
    """Draw normal difficulties (P,) with intraclass correlation 0.37, as HumanEval's published failures."""
    if max(of) + 1 == len(of):
        return generator.normal(size=len(of))
    shared = generator.normal(size=max(of) + 1)[np.asarray(of)]
    return np.asarray(np.sqrt(0.37) * shared + np.sqrt(0.63) * generator.normal(size=len(of)))


# One checkpoint.


def covered_rate(generator: Generator, programs: str, share: float, correlation: float) -> tuple[bool, bool]:
    """Say if the interval of a checkpoint's rate holds the truth, over clusters and as if there were none."""
    of = clusters(programs)
    right = (alike(generator, of, correlation) < share).tolist()
    found, naive = rate(right, of), rate(right)
    return found.low <= share <= found.high, naive.low <= share <= naive.high


# Two checkpoints.


def changed(
    generator: Generator, programs: str, gained: float, lost: float, coherence: float, share: float = 0.8
) -> tuple[Array, Array]:
    """Two checkpoints' outcomes (1, P): programs are gained and lost with these probabilities, alike in clusters."""
    of = clusters(programs)
    draw = alike(generator, of, coherence)
    rest = (alike(generator, of, 0.37) < share).astype(float)
    up, down = draw < gained, draw > 1 - lost
    before = np.where(up, 0.0, np.where(down, 1.0, rest))
    return before[None], np.where(up, 1.0, np.where(down, 0.0, rest))[None]


def mcnemar(before: Array, after: Array) -> float:
    """McNemar's exact test, which knows no clusters."""
    up, down = int(((after - before) > 0).sum()), int(((after - before) < 0).sum())
    return float(stats.binomtest(up, up + down).pvalue) if up + down else 1.0


# Two recipes.


def two_recipes(
    generator: Generator, baseline: Recipe, treatment: Recipe, seeds: int, programs: str, own: bool = False
) -> tuple[Array, Array, list[int]]:
    """Both sides' outcomes (seeds, P) and the programs' clusters. `own`: programs are difficult to each recipe by themselves."""
    of = clusters(programs)
    shared = difficulties(generator, of)
    before, after = (
        outcomes(generator, recipe, seeds, difficulties(generator, of) if own else shared)
        for recipe in (baseline, treatment)
    )
    return before, after, of


def said(
    before: Array, after: Array, of: Sequence[int], margin: float = 0.02, asks: Question | None = None
) -> VerdictWord:
    """Return the verdict of one comparison by itself."""
    sides = compare(before, after, of), over_seeds(before, of), over_seeds(after, of)
    return word(*sides, compute_evidence(*sides, asks), margin=margin)


def report(generator: Generator, recipe: Recipe, seeds: int, arms: int) -> bool:
    """Say if a report on a recipe against as many others that are the same calls any of them better or worse (Holm)."""
    of = clusters("200 programs")
    difficulty = difficulties(generator, of)
    before = outcomes(generator, recipe, seeds, difficulty)
    baseline, found = over_seeds(before, of), []
    for _ in range(arms):
        after = outcomes(generator, recipe, seeds, difficulty)
        sides = compare(before, after, of), baseline, over_seeds(after, of)
        found.append((sides, compute_evidence(*sides)))
    at = levels([evidence.p_value for _, evidence in found])
    words = [word(*sides, evidence, level) for (sides, evidence), level in zip(found, at)]
    return any(one in DIFFERENT for one in words)


def share(found: Iterator[bool] | Sequence[bool]) -> str:
    values = list(found)
    return f"{np.mean(values):.1%}"


# Tables.


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def one_checkpoint(repeats: int) -> None:
    generator, rows = np.random.default_rng(0), []
    cells = [("200 programs", 0.0, (0.5, 0.9, 0.98, 0.995)), ("60 programs", 0.0, (0.5, 0.9, 0.98))]
    cells += [("HumanEval", 0.37, (0.5, 0.91, 0.98)), ("HumanEval", 1.0, (0.5, 0.91)), ("9 problems", 0.37, (0.5, 0.9))]
    for programs, correlation, shares in cells:
        for one in shares:
            found = [covered_rate(generator, programs, one, correlation) for _ in range(repeats)]
            rows.append(
                [programs, f"{correlation:g}", f"{one:.1%}", *(share([hit[way] for hit in found]) for way in (0, 1))]
            )
    table(["one checkpoint", "correlation in a cluster", "rate", "covered", "if clusters were ignored"], rows)


def two_checkpoints(repeats: int) -> None:
    generator, rows = np.random.default_rng(0), []
    cells = [("60 programs", c, 0.0) for c in ((0.05, 0.05), (0.15, 0.15), (0.3, 0.1), (0.6, 0.0))]
    cells += [("200 programs", (0.02, 0.02), 0.0), ("200 programs", (0.1, 0.05), 0.0)]
    cells += [("HumanEval", (0.05, 0.05), c) for c in (0.0, 0.3, 0.6, 1.0)] + [("HumanEval", (0.08, 0.03), 0.6)]
    cells += [("9 problems", (0.15, 0.15), c) for c in (0.3, 0.6)]
    for programs, (up, down), coherence in cells:
        of, hits, decided, exact = clusters(programs), [], [], []
        for _ in range(repeats):
            before, after = changed(generator, programs, up, down, coherence)
            found = compare(before, after, of)
            low, high = found.interval()
            hits.append(low <= up - down <= high)
            decided.append(found.p_of_runs < 0.05)
            exact.append(mcnemar(before, after) < 0.05)
        rows.append([programs, f"{coherence:g}", f"{up:.0%}, {down:.0%}", share(hits), share(decided), share(exact)])
    head = ["two checkpoints", "coherence", "gained, lost", "covered", "decided", "McNemar's exact test decides"]
    table(head, rows)


DELTANET = (0.77, 0.41, 0.92, 0.77, 0.26, 0.74, 0.84, 0.68, 0.80, 0.85, 0.74, 0.22)
"""Runs of the quickstart's DeltaNet at 16 commands, on four machines and commits; its attention has 14 to 18 %."""
LONGER = (0.702, 0.818, 0.573, 0.175)
"""Four seeds of one DeltaNet recipe at 64 commands."""
SAME = {
    **{f"{share:.0%} fail at 33 %, others have 99.9 %": bimodal(1 - share) for share in (0.05, 0.1, 0.2, 0.3, 0.5)},
    "half have 17 %, half 90 %": bimodal(0.5, 0.9, 0.17),
    "80 %, seeds alike": smooth(0.8, 0.05),
    "80 %, seeds apart": smooth(0.8, 0.5),
    "95 %, seeds apart": smooth(0.95, 0.7),
    "twelve runs of the quickstart's DeltaNet": Recipe(observed=DELTANET),
    "four runs of a DeltaNet at 64 commands": Recipe(observed=LONGER),
}
APART = {
    "80 %, seeds 2 points apart": smooth(0.8, 0.15),
    "80 %, seeds 5 points apart": smooth(0.8, 0.3),
    "10% fail at 17 %, others have 85 %": Recipe(0.9, 0.85, 0.17, 0.1, 0.5),
}
SEEDS = (3, 4, 5, 6, 10)


def same(repeats: int) -> None:
    """Measure how often a recipe is called different from itself, alone and as one of ten arms.

    With a star, the difficult programs differ between the arms.
    """
    generator, rows = np.random.default_rng(0), []
    for name, recipe in SAME.items():
        for arms, draws in ((1, repeats), (10, max(repeats // 4, 1))):
            cells = [share([report(generator, recipe, seeds, arms) for _ in range(draws)]) for seeds in SEEDS]
            rows.append([name, str(arms), *cells])
    for name, recipe in {**APART, **{name: SAME[name] for name in list(SAME)[4:8]}}.items():
        for programs in ("200 programs", "HumanEval"):
            cells = []
            for seeds in SEEDS:
                draws = [two_recipes(generator, recipe, recipe, seeds, programs, own=True) for _ in range(repeats)]
                cells.append(share([said(*draw) in DIFFERENT for draw in draws]))
            rows.append([f"{name} *, {programs}", "1", *cells])
    table(["one recipe with itself", "arms", *(f"{seeds} seeds" for seeds in SEEDS)], rows)


def otherwise(repeats: int) -> None:
    """Measure how often a recipe with no better mean is called better.

    Failed trainings are missing, or the numbers of seeds differ.
    """
    generator, rows = np.random.default_rng(0), []
    for name, baseline, treatment in (
        ("97 % against 99.9 % in 9 of 10, else 0", smooth(0.97, 0.05), bimodal(0.9, low=1e-6)),
        ("78 % against 85 % in 9 of 10, else 17 %", smooth(0.78, 0.05), bimodal(0.9, 0.85, 0.17)),
        ("85 % against 93 % in 8 of 10, else 17 %", smooth(0.85, 0.05), bimodal(0.8, 0.93, 0.17)),
        ("97 % against 99.9 % in 8 of 10, else 33 %", smooth(0.97, 0.05), bimodal(0.8)),
    ):
        cells = []
        for n in SEEDS:
            words = [said(*two_recipes(generator, baseline, treatment, n, "200 programs")) for _ in range(repeats)]
            cells.append(f"{share([one in BETTER for one in words])} ({share([one in FIXED for one in words])})")
        rows.append([name, f"{100 * (treatment.truth() - baseline.truth()):+.0f}", *cells])
    table(["called better (fixed)", "points", *(f"{seeds} seeds" for seeds in SEEDS)], rows)
    rows = []
    for first, second in ((5, 5), (6, 5), (8, 5), (10, 5), (20, 5), (5, 10), (12, 6)):
        decided = []
        for baseline, treatment in (
            (smooth(0.5, 0.1), smooth(0.5, 0.6)),
            (smooth(0.8, 0.4), smooth(0.8, 0.4)),
            (smooth(0.8, 0.1), smooth(0.87, 0.1)),
            (smooth(0.8, 0.4), smooth(0.9, 0.4)),
        ):
            words = []
            for _ in range(repeats):
                difficulty = generator.normal(size=200)
                before = outcomes(generator, baseline, first, difficulty)
                words.append(said(before, outcomes(generator, treatment, second, difficulty), range(200)))
            decided.append(share([one in DIFFERENT for one in words]))
        rows.append([f"{first}, {second}", *decided])
    head = ["seeds", "equal means, treatment six times as far apart", "one recipe", "7 points, seeds 2 apart"]
    table([*head, "11 points, seeds 6 apart"], rows)


def as_good(repeats: int) -> None:
    """Measure how often a recipe that sometimes fails is called as good as one that never does, and one that never fails."""
    generator, rows = np.random.default_rng(0), []
    for margin, failing in ((0.02, 0.05), (0.05, 0.05), (0.05, 0.1), (0.1, 0.1), (0.1, 0.2), (0.1, 0.0), (0.05, 0.0)):
        cells = []
        for seeds in (3, 6, 29, 59):
            draws = [
                two_recipes(generator, bimodal(1.0), bimodal(1 - failing), seeds, "200 programs")
                for _ in range(repeats)
            ]
            cells.append(share([said(*one, margin=margin, asks="solved") is VerdictWord.AS_GOOD for one in draws]))
        rows.append([f"{failing:.0%}", f"{margin:.0%}", "true" if failing < margin else "false", *cells])
    table(["trainings that fail", "margin", "as good is", "3 seeds", "6", "29", "59"], rows)
    rows = []
    for apart, spread in ((2, 0.15), (4, 0.3), (6, 0.45)):
        for margin in (0.02, 0.05, 0.1):
            cells = []
            for seeds in (5, 6, 10):
                words = []
                for treatment in (smooth(0.8, spread), lower(0.8 - margin, spread)):
                    draws = [
                        said(*two_recipes(generator, smooth(0.8, spread), treatment, seeds, "200 programs"), margin)
                        for _ in range(repeats)
                    ]
                    words.append(share([one is VerdictWord.AS_GOOD for one in draws]))
                cells.append(" / ".join(words))
            rows.append([f"{apart} points", f"{margin:.0%}", *cells])
    table(["as good by rates, seeds apart", "margin", "5 seeds: equal / worse by the margin", "6", "10"], rows)


def fixed(repeats: int) -> None:
    """Measure how often fixed is said where it is false: of half of all trainings that solve it, and of runs below the threshold."""
    generator, rows = np.random.default_rng(0), []
    for seeds in (5, 6, 8, 10):
        draws = [two_recipes(generator, bimodal(0.0), bimodal(0.5), seeds, "200 programs") for _ in range(repeats)]
        rows.append(
            [
                f"{seeds} seeds, half of all trainings solve it",
                share([said(*one) is VerdictWord.FIXED for one in draws]),
            ]
        )
    for size, true in ((60, 0.9), (200, 0.9), (200, 0.94)):
        runs = [(generator.random((1, size)) < true).astype(float) for _ in range(repeats)]
        words = [said(np.zeros((1, size)), run, range(size)) for run in runs]
        rows.append([f"one run, {size} programs, truly {true:.0%}", share([one is VerdictWord.FIXED for one in words])])
    lower = [changed(generator, "HumanEval", 0.02, 0.04, 0.0) for _ in range(repeats)]
    good = share([said(*one, clusters("HumanEval")) is VerdictWord.AS_GOOD for one in lower])
    rows.append(["one run, 723 programs, truly 2 points worse: as good", good])
    table(["truth", "fixed"], rows)


FIXED = (VerdictWord.FIXED,)
BETTER = (*FIXED, VerdictWord.HELPED)
DIFFERENT = (*BETTER, VerdictWord.WORSE)
ATTENTION = Recipe(observed=(0.14, 0.16, 0.17, 0.18))
EFFECTS = {
    "none to all solve": (bimodal(0.0), bimodal(1.0)),
    "none to 9 in 10 solve": (bimodal(0.0), bimodal(0.9)),
    "none to 3 in 4 solve": (bimodal(0.0), bimodal(0.75)),
    "none to half solve": (bimodal(0.0), bimodal(0.5)),
    "1 in 10 to 9 in 10 solve": (bimodal(0.1), bimodal(0.9)),
    "3 in 10 to 8 in 10 solve": (bimodal(0.3), bimodal(0.8)),
    "attention to DeltaNet, quickstart": (ATTENTION, Recipe(observed=DELTANET)),
    "7 points, seeds 2 points apart": (smooth(0.8, 0.1), smooth(0.87, 0.1)),
    "11 points, seeds 6 points apart": (smooth(0.8, 0.4), smooth(0.9, 0.4)),
}


def power(repeats: int) -> None:
    """Measure how often an effect is decided: helped or fixed, and by each test alone."""
    generator, rows = np.random.default_rng(0), []
    for name, (baseline, treatment) in EFFECTS.items():
        cells = []
        for seeds in SEEDS:
            ours, exact = [], []
            for _ in range(repeats):
                before, after, of = two_recipes(generator, baseline, treatment, seeds, "200 programs")
                ours.append(said(before, after, of) in (VerdictWord.HELPED, VerdictWord.FIXED))
                solved = (over_seeds(before, of).solved, over_seeds(after, of).solved)
                counts = (side.sum(axis=1).astype(int) for side in (before, after))
                tests = permutation_test(*counts), boschloo(solved[0], seeds, solved[1], seeds)
                exact.append([test.up < 0.025 for test in tests])
            permuted, counted = np.mean(exact, axis=0)
            cells.append(f"{share(ours)} ({permuted:.0%}, {counted:.0%})")
        rows.append([name, f"{100 * (treatment.truth() - baseline.truth()):+.0f}", *cells])
    head = ["truth", "points", *(f"{seeds} seeds" for seeds in SEEDS)]
    table(head, rows)


def cover(repeats: int) -> None:
    """Measure how often the interval of two recipes' difference covers the truth."""
    generator, rows = np.random.default_rng(0), []
    for name, (baseline, treatment) in {**EFFECTS, **{name: (one, one) for name, one in SAME.items()}}.items():
        truth, cells = treatment.truth() - baseline.truth(), []
        for seeds in SEEDS:
            hits = []
            for _ in range(repeats):
                low, high = compare(*two_recipes(generator, baseline, treatment, seeds, "200 programs")).interval()
                hits.append(low <= truth <= high)
            cells.append(share(hits))
        rows.append([name, *cells])
    table(["two recipes: covered", *(f"{seeds} seeds" for seeds in SEEDS)], rows)


PARTS: dict[str, Callable[[int], None]] = {
    one.__name__: one for one in (one_checkpoint, two_checkpoints, same, otherwise, as_good, fixed, power, cover)
}


def main(repeats: int, parts: Sequence[str]) -> None:
    begin = time.perf_counter()
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(f"numpy {np.__version__}, scipy {scipy.__version__}, Python {platform.python_version()}, {machine}")
    print(f"{repeats} repetitions, seed 0; a share near 5 % is known to {1.96 * np.sqrt(0.05 * 0.95 / repeats):.1%}\n")
    for part in parts:
        PARTS[part](repeats)
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, sys.argv[2:] or list(PARTS))
