"""Expected accuracy of compositions by depth, if single calls fail independently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from remedy.eval.decoding.forcings import gives_half_an_action
from remedy.eval.stats import compound, pooled, rate

if TYPE_CHECKING:
    import pandas as pd

ATOMIC = "atomic"
ONE_STEP = "teacher_forced"
DRAWS = 2000
Line = dict[int, tuple[float, float, float]]
"""By depth, an estimate and the ends of its 95 % interval."""
Floats = npt.NDArray[np.float64]


def published_line(rows: pd.DataFrame) -> dict[int, float]:
    """Average products of functions' accuracies alone over programs."""
    right, tried = _atomic(rows)
    alone = (right / tried).to_numpy(dtype=float)[None, :]
    return {depth: float(products[0]) for depth, products in _products(rows, alone, right.index).items()}


def corrected_line(rows: pd.DataFrame) -> Line:
    """Estimate `published_line` with accuracies shrunk by a beta-binomial model."""
    right, tried = _atomic(rows)
    if right.empty:
        return {}
    accuracies = posterior(right.to_numpy(dtype=float), tried.to_numpy(dtype=float))
    lines: Line = {}
    for depth, products in _products(rows, accuracies, right.index).items():
        low, high = np.quantile(products, [0.025, 0.975])
        lines[depth] = float(products.mean()), float(low), float(high)
    return lines


def given_true_inputs(rows: pd.DataFrame) -> Line:
    """Predict right compositions from the share of right returns after a true past.

    A program's own return, a copy, counts as a call, which raises the prediction a little: with five calls right in
    80 %, from 33 to 34 %.
    """
    line: Line = {}
    for depth, of_depth in _one_step(rows).groupby("depth"):
        called = of_depth[of_depth["returns"] > 0]
        returns, clusters = called["returns"].to_numpy(dtype=int), called["cluster"]
        if called.empty or (returns <= depth).any():  # the trace steps over calls
            continue
        right = (called["value_exact"] * returns).round().to_numpy(dtype=int)
        line[int(depth)] = compound(returns[:, None], [pooled(right, returns, clusters)[:3]], clusters)
    return line


def every_frame_right(rows: pd.DataFrame, forcing: str = "free") -> Line:
    """Measure the share of programs with every frame right after a true past.

    Empty if forcing feeds lines but not events: teacher forcing scores both together.
    """
    if gives_half_an_action(forcing):
        return {}
    written = ["state_exact", "value_exact"] + (["action_exact"] if forcing != "action_forced" else [])
    line: Line = {}
    for depth, of_depth in _one_step(rows).groupby("depth"):
        right = (of_depth[written].astype(float).fillna(1.0) == 1.0).all(axis=1)
        line[int(depth)] = rate(right, of_depth["cluster"])[:3]
    return line


def _one_step(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["form"] != ATOMIC) & (rows["forcing"] == ONE_STEP)]


def posterior(right: Floats, tried: Floats) -> Floats:
    """Draw accuracies (DRAWS, functions) from a beta-binomial posterior.

    On a grid of mean and size, with the prior of Gelman et al., Bayesian Data Analysis (3rd ed.), section 5.3.
    """
    from scipy import special  # here, since settings are read without it

    means, sizes = np.meshgrid(np.linspace(0.01, 0.99, 99), np.exp(np.linspace(0, 7, 50)))
    a, b = (means * sizes).ravel(), ((1 - means) * sizes).ravel()
    logs = special.betaln(a[:, None] + right, b[:, None] + tried - right) - special.betaln(a, b)[:, None]
    # The prior (a + b)^(-5/2), on this grid of the mean and the logarithm of the size.
    weights = logs.sum(axis=1) - 0.5 * np.log(a + b)
    weights = np.exp(weights - weights.max())  # the largest becomes 1: else all may underflow to 0
    random = np.random.default_rng(0)  # a report made twice is the same
    cells = random.choice(len(a), size=DRAWS, p=weights / weights.sum())
    accuracies: Floats = random.beta(a[cells, None] + right, b[cells, None] + tried - right)
    return accuracies


def _atomic(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Count right answers and programs of each function alone."""
    groups = rows[rows["form"] == ATOMIC].groupby("function")["right"]
    return groups.sum().astype(float), groups.count().astype(float)


def _products(rows: pd.DataFrame, accuracies: Floats, names: Sequence[str]) -> dict[int, Floats]:
    """Average products of the functions' accuracies over programs, (draws,) by depth.

    `accuracies`: (draws, functions), in the order of `names`. Depths with functions not measured are left out.
    """
    column = {name: number for number, name in enumerate(names)}
    by_depth: dict[int, Floats] = {1: accuracies.mean(axis=1)} if column else {}
    for depth, of_depth in rows[rows["form"] != ATOMIC].groupby("depth"):
        programs = [functions.split() for functions in of_depth["functions"]]
        if all(name in column for program in programs for name in program):
            products = [accuracies[:, [column[name] for name in program]].prod(axis=1) for program in programs]
            by_depth[int(depth)] = np.mean(products, axis=0)
    return dict(sorted(by_depth.items()))
