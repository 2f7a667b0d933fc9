"""Comparisons of numbers that are no rates: validation losses of trainings, and tokens of traces. Of both less is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from remedy.eval.stats import Difference, Estimate, Evidence, Repeated, VerdictWord
from remedy.eval.stats.clusters import codes, quantile, variance_of_mean
from remedy.eval.stats.differences import SEEDS_A_SIDE
from remedy.eval.stats.exact import permutation
from remedy.eval.stats.seeds import Spread, crossed
from remedy.eval.stats.words import least_p
from remedy.settings import ConfigError

SCALE = 1000
"""Steps in which losses are told apart by the permutation test."""
Compared = tuple[Difference, Repeated, Repeated, Evidence]


class Loss(NamedTuple):
    """The validation loss of a training at its end, and what it is of: the tokenizer and roles, as text."""

    value: float
    of: str


def word_of_numbers(evidence: Evidence, level: float) -> VerdictWord:
    """The word for a difference of numbers."""
    if evidence.up < level:
        return VerdictWord.HELPED
    return VerdictWord.WORSE if evidence.down < level else VerdictWord.INCONCLUSIVE


def compare_losses(where: str, baseline: Sequence[Loss | None], treatment: Sequence[Loss | None]) -> Compared:
    """Losses of two recipes' trainings: from five seeds a side by an exact permutation test, with Welch's interval.

    Raises:
        ConfigError: a training has kept none, or they are of other tokens.
    """
    known = [[one for one in side if one is not None] for side in (baseline, treatment)]
    if sum(map(len, known)) < len(baseline) + len(treatment):
        raise ConfigError(f"{where}: metric loss: a run has kept no validation loss: train with `evaluate_every`")
    if len({one.of for side in known for one in side}) > 1:
        raise ConfigError(
            f"{where}: metric loss: losses of other tokenizers or roles are of other tokens, and not to be compared"
        )
    before, after = (np.array([one.value for one in side]) for side in known)
    seeds = len(before), len(after)
    error, degrees = math.inf, 1.0
    if min(seeds) > 1:
        between = [(float(side.var(ddof=1)) / len(side), len(side) - 1) for side in (before, after)]
        variance, degrees = crossed(between, (0.0, math.inf), 0.0)
        error = math.sqrt(variance)
    spread = Spread(float(before.mean() - after.mean()), ((error, degrees),))
    evidence = Evidence({}, 1.0, 1.0, 1.0, None)
    if min(seeds) >= SEEDS_A_SIDE:
        top, width = max(before.max(), after.max()), max(np.ptp(np.concatenate([before, after])), 1e-12)
        test = permutation(*(np.round(SCALE * (top - side) / width).astype(np.int64) for side in (before, after)))
        evidence = Evidence({"rates": test}, 2 * test.up, 2 * test.down, least_p("rates", seeds), None)
    return (*_sides(before, after, seeds, spread, min(seeds) > 1), evidence)


def compare_tokens(where: str, both: pd.DataFrame) -> Compared:
    """Tokens of the same programs' traces, as relative changes with a t interval over clusters: true traces depend on no training.
    `both`: pairs of which both were written.

    Raises:
        ConfigError: no program has a trace on both sides.
    """
    both = both.drop_duplicates("example")
    if both.empty:
        raise ConfigError(f"{where}: metric tokens: no program has a trace on both sides")
    before, after = (both[f"cost_{side}"].to_numpy(dtype=float) for side in ("before", "after"))
    of = codes(both["cluster"].tolist(), len(both))
    fewer, degrees = 1 - after / before, int(of.max())
    error = math.sqrt(variance_of_mean(fewer, of)) if degrees else math.inf
    spread = Spread(float(fewer.mean()), ((error, float(max(degrees, 1))),))
    means = before.mean(keepdims=True), after.mean(keepdims=True)
    found, *sides = _sides(*means, (1, 1), spread, False)
    found = found._replace(examples=len(both), clusters=degrees + 1)
    return found, sides[0], sides[1], Evidence({}, *spread.p_values(), 0.0, None)


def _sides(
    before: np.ndarray, after: np.ndarray, seeds: tuple[int, int], spread: Spread, repeated: bool
) -> tuple[Difference, Repeated, Repeated]:
    means = float(before.mean()), float(after.mean())
    recipes = spread if repeated else None
    found = Difference(0, 0, seeds, repeated, False, *means, 0.0, 0.0, recipes, spread, None)
    return found, _side(before), _side(after)


def _side(values: np.ndarray) -> Repeated:
    """The numbers of a side's seeds, with a t interval of their mean."""
    mean, count = float(values.mean()), len(values)
    spread = float(values.std(ddof=1)) if count > 1 else math.nan
    half = quantile(0.05, count - 1) * spread / math.sqrt(count) if count > 1 else math.nan
    runs = tuple(Estimate(float(value), math.nan, math.nan, 1, 1.0) for value in values)
    return Repeated(Estimate(mean, mean - half, mean + half, count, count), runs, spread, math.nan, False)
