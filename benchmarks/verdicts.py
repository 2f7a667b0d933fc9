"""How often intervals cover the truth and verdicts are false, by simulation, beside other ways to compare.

python benchmarks/verdicts.py [repetitions]    (the table of two recipes takes a quarter of them)
"""

from __future__ import annotations

import itertools
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import numpy.typing as npt
import scipy
from scipy import special, stats

from remedy.eval.stats import Difference, VerdictWord, compare, over_seeds, rate, word

Array = npt.NDArray[np.float64]
Generator = np.random.Generator

HUMANEVAL = [5] * 120 + [4] * 18 + [3] * 15 + [2, 2, 1, 1]
"""Executions of each HumanEval problem: 723 of 157."""
SETS = {"200 programs": [1] * 200, "60 programs": [1] * 60, "HumanEval": HUMANEVAL, "9 problems": HUMANEVAL[113:122]}
"""Sizes of the clusters of each set of programs."""


def clusters(name: str) -> list[int]:
    """The cluster of every program of a set."""
    return [number for number, size in enumerate(SETS[name]) for _ in range(size)]


def alike(generator: Generator, of: Sequence[int], correlation: float) -> Array:
    """Uniform numbers (P,), the same for two of a cluster with such a probability."""
    own, shared = generator.random(len(of)), generator.random(max(of) + 1)[np.asarray(of)]
    return np.where(generator.random(len(of)) < np.sqrt(correlation), shared, own)


class Recipe(NamedTuple):
    """Rates of right answers of a recipe's runs. A run solves its task with probability `solves` and then has the rate `high`, else
    `low`; `spread` is the standard deviation of runs, `programs` that of programs, both on the logit scale."""

    solves: float
    high: float
    low: float
    spread: float = 0.0
    programs: float = 1.0

    def chances(self, generator: Generator, seeds: int, difficulty: Array) -> Array:
        """Probabilities to be right (seeds, P), for programs of the given difficulty (P,)."""
        solved = generator.random((seeds, 1)) < self.solves
        logits = np.where(solved, _logit(self.high), _logit(self.low)) + self.spread * generator.normal(size=(seeds, 1))
        return np.asarray(1 / (1 + np.exp(-logits - self.programs * difficulty)))

    @lru_cache  # noqa: B019 (the recipes are few)
    def truth(self) -> float:
        """The mean over seeds and programs."""
        generator = np.random.default_rng(1)
        return float(np.mean([self.chances(generator, 400, generator.normal(size=400)) for _ in range(20)]))


def _logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def smooth(rate: float, spread: float) -> Recipe:
    """Runs about a rate."""
    return Recipe(1.0, rate, rate, spread)


def bimodal(solves: float) -> Recipe:
    """Runs that reach 99.9 %, or stay at a chance of a third."""
    return Recipe(solves, 0.999, 1 / 3, 0.1, 0.3)


def outcomes(generator: Generator, recipe: Recipe, seeds: int, difficulty: Array) -> Array:
    chances = recipe.chances(generator, seeds, difficulty)
    return (generator.random(chances.shape) < chances).astype(float)


def difficulties(generator: Generator, of: Sequence[int]) -> Array:
    """Normal difficulties (P,) with intraclass correlation 0.37, as the published failures on HumanEval have."""
    if max(of) + 1 == len(of):
        return generator.normal(size=len(of))
    shared = generator.normal(size=max(of) + 1)[np.asarray(of)]
    return np.asarray(np.sqrt(0.37) * shared + np.sqrt(0.63) * generator.normal(size=len(of)))


# One checkpoint.


def covered_rate(generator: Generator, programs: str, share: float, correlation: float) -> tuple[bool, bool]:
    """Whether the interval of a checkpoint's rate holds the truth, over clusters and as if there were none."""
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


def bootstrap(
    generator: Generator, before: Array, after: Array, of: Sequence[int], draws: int = 200
) -> tuple[float, float]:
    """The pigeonhole bootstrap (Owen, Annals of Applied Statistics 1, 2007): seeds and clusters are drawn again, crossed."""
    count = max(of) + 1
    size = np.bincount(of).astype(float)
    weights = generator.multinomial(count, np.full(count, 1 / count), draws).astype(float)

    def means(side: Array) -> Array:
        sums = np.stack([np.bincount(of, weights=row) for row in side])
        seeds = generator.multinomial(len(side), np.full(len(side), 1 / len(side)), draws) / len(side)
        return np.asarray(((seeds @ sums) * weights).sum(axis=1) / (weights @ size))

    low, high = np.quantile(means(after) - means(before), [0.025, 0.975])
    return float(low), float(high)


def permutation(before: Array, after: Array) -> float:
    """The exact permutation test of seeds' rates: which of them belong to the treatment."""
    rates, seeds = np.concatenate([before.mean(axis=1), after.mean(axis=1)]), len(before)
    chosen = np.array(list(itertools.combinations(range(len(rates)), seeds)))
    spread = np.abs(rates[chosen].mean(axis=1) - (rates.sum() - rates[chosen].sum(axis=1)) / (len(rates) - seeds))
    return float((spread >= abs(after.mean() - before.mean()) - 1e-12).mean())


def welch(before: Array, after: Array) -> tuple[float, float]:
    """Welch's t interval over seeds' rates: programs are taken as given, and seeds that agree as sure."""
    first, second = before.mean(axis=1), after.mean(axis=1)
    one, other = first.var(ddof=1) / len(first), second.var(ddof=1) / len(second)
    middle, variance = float(second.mean() - first.mean()), one + other
    if not variance:
        return middle, middle
    degrees = variance**2 / (one**2 / (len(first) - 1) + other**2 / (len(second) - 1))
    half = float(special.stdtrit(degrees, 0.975) * np.sqrt(variance))
    return middle - half, middle + half


WAYS = ("ours", "bootstrap", "Welch", "permutation")


def two_recipes(
    generator: Generator, baseline: Recipe, treatment: Recipe, seeds: int, programs: str
) -> tuple[Array, Array, list[int]]:
    of = clusters(programs)
    difficulty = difficulties(generator, of)
    before, after = (outcomes(generator, recipe, seeds, difficulty) for recipe in (baseline, treatment))
    return before, after, of


def judged(generator: Generator, before: Array, after: Array, of: Sequence[int]) -> dict[str, tuple[float, float]]:
    """The interval of the difference in each way; of the test, one that leaves out 0 or does not."""
    p = permutation(before, after)
    return {
        "ours": compare(before, after, of).interval(),
        "bootstrap": bootstrap(generator, before, after, of),
        "Welch": welch(before, after),
        "permutation": (0.0, 0.0) if p >= 0.05 else (1.0, 1.0),
    }


# The seeds of one recipe.

DELTANET = {16: (0.988, 1.0, 0.98, 0.81), 32: (0.928, 0.97, 0.88, 0.463), 64: (0.702, 0.818, 0.573, 0.175)}
"""Four seeds of one DeltaNet recipe, by length."""


def false_verdict(generator: Generator, length: int, seeds: int, programs: int = 400) -> VerdictWord:
    """The word for two draws of seeds of that recipe."""
    sides = [
        (generator.random((seeds, programs)) < generator.choice(DELTANET[length], (seeds, 1))).astype(float)
        for _ in range(2)
    ]
    return word(compare(*sides), *(over_seeds(side) for side in sides))


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
            decided.append(found.p_value < 0.05)
            exact.append(mcnemar(before, after) < 0.05)
        rows.append([programs, f"{coherence:g}", f"{up:.0%}, {down:.0%}", share(hits), share(decided), share(exact)])
    head = ["two checkpoints", "coherence", "gained, lost", "covered", "decided", "McNemar's exact test decides"]
    table(head, rows)


RECIPES = {
    "80 %, seeds alike": (smooth(0.8, 0.05), smooth(0.8, 0.05)),
    "80 %, seeds apart": (smooth(0.8, 0.5), smooth(0.8, 0.5)),
    "95 %, seeds apart": (smooth(0.95, 0.7), smooth(0.95, 0.7)),
    "80 % to 86 %": (smooth(0.8, 0.1), smooth(0.86, 0.1)),
    "80 % to 90 %, seeds apart": (smooth(0.8, 0.4), smooth(0.9, 0.4)),
    "half solve": (bimodal(0.5), bimodal(0.5)),
    "three in four solve": (bimodal(0.75), bimodal(0.75)),
    "nine in ten solve": (bimodal(0.9), bimodal(0.9)),
    "1 in 10 to 9 in 10 solve": (bimodal(0.1), bimodal(0.9)),
    "3 in 10 to 8 in 10 solve": (bimodal(0.3), bimodal(0.8)),
    "none to all solve": (bimodal(0.0), bimodal(1.0)),
    "none to 9 in 10 solve": (bimodal(0.0), bimodal(0.9)),
    "none to 1 in 4 solve": (bimodal(0.0), bimodal(0.25)),
}


def recipes(repeats: int) -> None:
    generator, rows = np.random.default_rng(0), []
    for programs, seeds in (("200 programs", 3), ("200 programs", 5), ("HumanEval", 3)):
        for name, (baseline, treatment) in RECIPES.items():
            truth = treatment.truth() - baseline.truth() if treatment != baseline else 0.0
            hits: dict[str, list[bool]] = {way: [] for way in WAYS}
            decided: dict[str, list[bool]] = {way: [] for way in WAYS}
            for _ in range(repeats):
                before, after, of = two_recipes(generator, baseline, treatment, seeds, programs)
                for way, (low, high) in judged(generator, before, after, of).items():
                    hits[way].append(low <= truth <= high)
                    decided[way].append(low > 0 or high < 0)
            cells = [f"{share(hits[way])}, {share(decided[way])}" for way in WAYS[:-1]]
            rows.append([f"{programs}, {seeds} seeds", name, f"{truth:+.1%}", *cells, share(decided["permutation"])])
    table(
        ["two recipes", "runs", "true", *(f"{way}: covered, decided" for way in WAYS[:-1]), "permutation decides"], rows
    )


def one_recipe(repeats: int) -> None:
    """The interval of one recipe's rate."""
    generator, rows = np.random.default_rng(0), []
    kinds = {name: RECIPES[name][0] for name in ("80 %, seeds alike", "80 %, seeds apart", "95 %, seeds apart")}
    kinds |= {f"{solves:.0%} solve": bimodal(solves) for solves in (0.0, 0.1, 0.3, 0.5, 0.75, 0.9, 1.0)}
    for name, recipe in kinds.items():
        truth, cells = recipe.truth(), []
        for seeds in (3, 5):
            hits = []
            for _ in range(repeats):
                found = over_seeds(outcomes(generator, recipe, seeds, generator.normal(size=200))).estimate
                hits.append(found.low <= truth <= found.high)
            cells.append(share(hits))
        rows.append([name, f"{truth:.1%}", *cells])
    table(["one recipe, 200 programs", "true", "covered, 3 seeds", "5 seeds"], rows)


def same_recipe(repeats: int) -> None:
    generator, rows = np.random.default_rng(0), []
    for length, seeds in itertools.product(DELTANET, (2, 3, 4, 5, 6)):
        words = Counter(false_verdict(generator, length, seeds) for _ in range(repeats))
        false = sum(words[one] for one in (VerdictWord.FIXED, VerdictWord.HELPED, VerdictWord.WORSE))
        rows.append([str(length), str(seeds), f"{false / repeats:.1%}", f"{words[VerdictWord.AS_GOOD] / repeats:.1%}"])
    table(["one DeltaNet recipe with itself, length", "seeds", "called different", "called as good"], rows)


def false_words(repeats: int) -> None:
    """How often fixed and as good are said where they are false."""
    generator, rows = np.random.default_rng(0), []
    cases: dict[str, tuple[Callable[[], tuple[Array, Array]], VerdictWord]] = {}
    for size, true in ((60, 0.9), (200, 0.9), (200, 0.94)):
        cases[f"one run, {size} programs, truly {true:.0%}"] = (
            lambda size=size, true=true: (np.zeros((1, size)), (generator.random((1, size)) < true).astype(float)),
            VerdictWord.FIXED,
        )
    for seeds in (5, 6, 8, 10):
        cases[f"{seeds} seeds, half of all trainings solve"] = (
            lambda seeds=seeds: two_recipes(generator, bimodal(0.0), bimodal(0.5), seeds, "200 programs")[:2],
            VerdictWord.FIXED,
        )
    cases["one run, 723 programs, truly 2 points worse"] = (
        lambda: changed(generator, "HumanEval", 0.02, 0.04, 0.0),
        VerdictWord.AS_GOOD,
    )
    lower = smooth(0.8, 0.1), smooth(0.775, 0.1)
    cases[f"5 seeds, 200 programs, truly {lower[0].truth() - lower[1].truth():.1%} worse"] = (
        lambda: two_recipes(generator, *lower, 5, "200 programs")[:2],
        VerdictWord.AS_GOOD,
    )
    for name, (draw, false) in cases.items():
        words = []
        for _ in range(repeats):
            before, after = draw()
            words.append(said(compare(before, after), before, after) == false)
        rows.append([name, str(false), share(words)])
    table(["truth", "word that is false", "said"], rows)


def said(found: Difference, before: Array, after: Array) -> VerdictWord:
    return word(found, over_seeds(before), over_seeds(after))


def main(repeats: int) -> None:
    begin = time.perf_counter()
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(f"numpy {np.__version__}, scipy {scipy.__version__}, Python {platform.python_version()}, {machine}")
    print(f"{repeats} repetitions, seed 0; a share near 95 % is known to {1.96 * np.sqrt(0.05 * 0.95 / repeats):.1%}\n")
    for part in (one_checkpoint, two_checkpoints, one_recipe, same_recipe, false_words):
        part(repeats)
    recipes(max(repeats // 4, 1))
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
