"""What can be right without a model: a guess, the start given back, always the most frequent answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

STYLES = {"chance": "-", "start": "--", "majority": ":"}
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
    shares = {name: max(found) for name, found in of(conditions).items()}
    if not shares:
        return ""
    name = max(shares, key=lambda one: shares[one])
    return f"{100 * shares[name]:.0f} %\n{NAMES[name]}"


def said(shares: Sequence[float]) -> str:
    """One share, or the lowest and highest of several: `33 %`, `33 to 50 %`."""
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def draw(panel: Axes, shares: Mapping[str, Mapping[float, float]]) -> None:
    """Grey lines of every baseline's share against a number."""
    for name, points in shares.items():
        xs = sorted(points)
        panel.plot(xs, [points[x] for x in xs], STYLES[name], color="0.6", lw=1.2, label=NAMES[name], zorder=1)


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
