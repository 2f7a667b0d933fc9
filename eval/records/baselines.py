"""Baselines without a model: a guess, the start given back, always the most frequent answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

STYLES = {"chance": "-", "start": "--", "majority": ":"}
MARKS = {"chance": "_", "start": "x", "majority": "+"}
NAMES = {"chance": "chance", "start": "answering with the start", "majority": "most frequent answer"}
"""How reports call them."""


class Baselines(TypedDict):
    """Shares of right answers without a model, over the true examples of a condition; None where there is none."""

    chance: float | None
    """Of guesses among the answers that are possible, as far as the task knows them."""
    start: float | None
    """Of answering with what a program starts from: its input, or the initial state."""
    majority: float | None
    """Of the answer that is the most frequent one of these examples."""


def baselines(rows: pd.DataFrame) -> Baselines:
    """Those of one condition's records."""
    answers = rows["true_answer"][rows["true_answer"] != ""]
    return {
        "chance": _mean(rows["chance"]),
        "start": _mean(rows["start_right"]),
        "majority": float(answers.value_counts().iloc[0] / len(rows)) if len(answers) else None,
    }


def _mean(values: pd.Series) -> float | None:
    return None if values.isna().any() or not len(values) else float(values.mean())


def of(conditions: Iterable[Mapping[str, object]]) -> dict[str, list[float]]:
    """The shares that conditions have, by the name of the baseline; without those that none has."""
    found: dict[str, list[float]] = {}
    for condition in conditions:
        shares = condition.get("baselines")
        for name, share in shares.items() if isinstance(shares, Mapping) else ():
            if share is not None:
                found.setdefault(name, []).append(share)
    return {name: found[name] for name in NAMES if name in found}


def best(conditions: Iterable[Mapping[str, object]]) -> str:
    """The highest of them, and in small print which it is; empty if there is none."""
    name, share = highest(conditions)
    return f"{100 * share:.0f} %\n{NAMES[name]}" if name else ""


def highest(conditions: Iterable[Mapping[str, object]]) -> tuple[str, float]:
    """The name and the share of the highest; no name and 0 if there is none."""
    shares = {name: max(found) for name, found in of(conditions).items()}
    return max(shares.items(), key=lambda one: one[1], default=("", 0.0))


def said(shares: Sequence[float]) -> str:
    """One share, or the lowest and highest of several: `33 %`, `33 to 50 %`."""
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def draw(panel: Axes, shares: Mapping[str, Mapping[float, float]]) -> None:
    """Grey lines of every baseline's share against a number."""
    for name, points in shares.items():
        xs = sorted(points)
        panel.plot(xs, [points[x] for x in xs], STYLES[name], color="0.6", lw=1.2, label=NAMES[name], zorder=1)


def mark(panel: Axes, points: Iterable[tuple[float, Mapping[str, object]]]) -> None:
    """Grey marks of every baseline's share of each condition, at a number of its own."""
    at: dict[str, list[tuple[float, float]]] = {}
    for x, condition in points:
        for name, shares in of([condition]).items():
            at.setdefault(name, []).extend((x, share) for share in shares)
    for name in NAMES:
        if name in at:
            panel.plot(*zip(*at[name]), MARKS[name], color="0.6", ms=5, label=NAMES[name], zorder=1)


def by(rows: pd.DataFrame, at: pd.Series) -> dict[str, dict[float, float]]:
    """The share of each baseline among the rows of every value of `at`. The most frequent answer is that of a row's condition: of
    a few rows alone it would be right for being few."""
    answers = rows["true_answer"]
    frequent = answers.groupby([rows["run"], rows["condition"]]).transform(_most_frequent)
    hits = ((answers == frequent) & (answers != "")).astype(float)
    judged = rows.assign(majority=hits if (answers != "").any() else math.nan)
    columns = {"chance": "chance", "start": "start_right", "majority": "majority"}
    found: dict[str, dict[float, float]] = {}
    for value, group in judged.groupby(at):
        for name, column in columns.items():
            share = _mean(group[column])
            if share is not None:
                found.setdefault(name, {})[float(value)] = share
    return found


def _most_frequent(answers: pd.Series) -> str:
    known = answers[answers != ""]
    return str(known.value_counts().index[0]) if len(known) else ""


def along(conditions: Iterable[Mapping[str, object]], axis: str) -> dict[str, dict[float, float]]:
    """The highest share of each baseline at every value of a label."""
    at: dict[float, list[Mapping[str, object]]] = {}
    for condition in conditions:
        labels = condition["labels"]
        assert isinstance(labels, Mapping)
        at.setdefault(float(labels[axis]), []).append(condition)
    found: dict[str, dict[float, float]] = {}
    for value, group in at.items():
        for name, shares in of(group).items():
            found.setdefault(name, {})[value] = max(shares)
    return found
