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

from collections.abc import Sequence

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
    alone = (right / tried).to_numpy(dtype=float)[None, :]
    return {depth: float(found[0]) for depth, found in _products(rows, alone, right.index).items()}


def corrected_line(rows: pd.DataFrame) -> Line:
    """The product of accuracies drawn from their posterior under a beta-binomial model of all functions."""
    right, tried = _atomic(rows)
    if right.empty:
        return {}
    drawn = posterior(right.to_numpy(dtype=float), tried.to_numpy(dtype=float))
    lines: Line = {}
    for depth, found in _products(rows, drawn, right.index).items():
        low, high = np.quantile(found, [0.025, 0.975])
        lines[depth] = float(found.mean()), float(low), float(high)
    return lines


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


def _products(rows: pd.DataFrame, accuracies: Floats, names: Sequence[str]) -> dict[int, Floats]:
    """By depth, the mean over programs of the product over their functions, shape (draws,); nothing of programs with a function not
    measured. `accuracies`: shape (draws, functions), of the functions with these names."""
    places = {name: place for place, name in enumerate(names)}
    found: dict[int, Floats] = {1: accuracies.mean(axis=1)} if places else {}
    for depth, one in rows[rows["form"] != ATOMIC].groupby("depth"):
        programs = [functions.split() for functions in one["functions"]]
        if all(name in places for program in programs for name in program):
            products = [accuracies[:, [places[name] for name in program]].prod(axis=1) for program in programs]
            found[int(depth)] = np.mean(products, axis=0)
    return dict(sorted(found.items()))
