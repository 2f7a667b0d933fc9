"""Expectation for a composition from single calls, if nothing but their own errors went wrong.

Three lines by depth. *Published*: the product of the accuracies that a program's functions have alone. *Corrected*: the same
after these accuracies, which a few programs each have measured, are drawn towards each other as a beta-binomial model says;
functions that were chosen because they did well did so partly by luck. *Given true inputs*: how often a call returns the right
value where all before it is true (one-step forcing), multiplied along each program's calls; they meet the values that really
occur, which grow with depth. Traces that step over calls do not show what each returns, and have no such line. Beside it stands
how many programs have every frame right after a true past, in which nothing is assumed to be independent: an answer may be right
in spite of a wrong frame, so more can be right than that. A line above what is observed leaves something for the model's own
errors to explain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from remedy.eval.decoding.forcings import gives_half_an_action
from remedy.eval.stats import compound, pooled, rate

ATOMIC = "atomic"
ONE_STEP = "teacher_forced"
DRAWS = 2000
Line = dict[int, tuple[float, float, float]]
"""By depth, an estimate and the ends of its 95 % interval."""
Floats = npt.NDArray[np.float64]


def published_line(rows: pd.DataFrame) -> dict[int, float]:
    """The mean product of the atomic accuracies of each composed program's functions; at depth 1, their mean."""
    right, tried = _atomic(rows)
    accuracies = dict(zip(right.index, (right / tried).to_numpy(dtype=float)))
    return {depth: float(found) for depth, found in _products(rows, accuracies).items()}


def corrected_line(rows: pd.DataFrame) -> Line:
    """The product of accuracies drawn from their posterior under a beta-binomial model of all functions."""
    right, tried = _atomic(rows)
    if right.empty:
        return {}
    drawn = posterior(right.to_numpy(dtype=float), tried.to_numpy(dtype=float))
    accuracies = {name: drawn[:, place] for place, name in enumerate(right.index)}
    return {depth: _summary(found) for depth, found in _products(rows, accuracies).items()}


def given_true_inputs(rows: pd.DataFrame) -> Line:
    """Predict right compositions from one-step records of one form: the share of right values among all that calls return or raise
    after a true past, to the power of each program's number of them, and the mean of that over programs. Nothing where a trace steps
    over calls: then a program has no more returns than calls. Its own return, a copy of a value that a frame before it holds, is one
    of them, which raises the line a little: five calls, right in 80 %, should give 33 % and give 34."""
    found: Line = {}
    for depth, one in _one_step(rows).groupby("depth"):
        called = one[one["returns"] > 0]
        returns, clusters = called["returns"], called["cluster"].tolist()
        if called.empty or (returns <= depth).any():
            continue
        right = (called["value_exact"] * returns).round().astype(int)
        step = pooled(right.tolist(), returns.tolist(), clusters)
        found[int(depth)] = compound(returns.to_numpy(dtype=float)[:, None], [step[:3]], clusters)
    return found


def every_frame_right(rows: pd.DataFrame, forcing: str = "free") -> Line:
    """Measure, in one-step records of one form, the share of composed programs in which every frame is right after true ones, as far
    as the model writes it under `forcing`. Nothing where lines are fed and events are not: under teacher forcing the two are right
    or wrong together."""
    if gives_half_an_action(forcing):
        return {}
    written = ["state_exact", "value_exact"] + (["action_exact"] if forcing != "action_forced" else [])
    found: Line = {}
    for depth, one in _one_step(rows).groupby("depth"):
        right = (one[written].astype(float).fillna(1.0) == 1.0).all(axis=1)
        found[int(depth)] = rate(right.tolist(), one["cluster"].tolist())[:3]
    return found


def _one_step(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["form"] != ATOMIC) & (rows["forcing"] == ONE_STEP)]


def posterior(right: Floats, tried: Floats) -> Floats:
    """Accuracies drawn from their posterior, shape (DRAWS, functions): each function's is of a beta distribution, whose mean and size
    are drawn too, from a grid under the prior of Gelman et al., Bayesian Data Analysis (3rd ed.), section 5.3."""
    means, sizes = np.meshgrid(np.linspace(0.01, 0.99, 99), np.exp(np.linspace(0, 7, 50)))
    a, b = (means * sizes).ravel(), ((1 - means) * sizes).ravel()
    logs = special.betaln(a[:, None] + right, b[:, None] + tried - right) - special.betaln(a, b)[:, None]
    weights = logs.sum(axis=1) - 0.5 * np.log(
        a + b
    )  # (a + b)^(-5/2), on a grid of the mean and the logarithm of the size
    weights = np.exp(weights - weights.max())
    random = np.random.default_rng(0)
    at = random.choice(len(a), size=DRAWS, p=weights / weights.sum())
    drawn: Floats = random.beta(a[at, None] + right, b[at, None] + tried - right)
    return drawn


def _atomic(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Right answers and programs of every function alone."""
    groups = rows[rows["form"] == ATOMIC].groupby("function")["right"]
    return groups.sum().astype(float), groups.count().astype(float)


def _products(rows: pd.DataFrame, accuracies: Mapping[str, float | Floats]) -> dict[int, Floats | float]:
    """By depth, the mean over programs of the product over their functions; nothing of programs with a function not measured."""
    composed = rows[rows["form"] != ATOMIC]
    found: dict[int, Floats | float] = {}
    if accuracies:
        found[1] = _mean(list(accuracies.values()))
    for depth, one in composed.groupby("depth"):
        products = [_product(names.split(), accuracies) for names in one["functions"]]
        if products and not any(product is None for product in products):
            found[int(depth)] = _mean([product for product in products if product is not None])
    return dict(sorted(found.items()))


def _product(names: Sequence[str], accuracies: Mapping[str, float | Floats]) -> float | Floats | None:
    if any(name not in accuracies for name in names):
        return None
    product: float | Floats = 1.0
    for name in names:
        product = product * accuracies[name]
    return product


def _mean(values: Sequence[float | Floats]) -> float | Floats:
    total: float | Floats = 0.0
    for value in values:
        total = total + value
    return total / len(values)


def _summary(draws: float | Floats) -> tuple[float, float, float]:
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(np.mean(draws)), float(low), float(high)
