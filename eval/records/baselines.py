"""Baselines without a model: for answers a guess, the start given back, one answer for all; for parts of frames, rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Shares = Mapping[str, Mapping[float, float]]
"""The share of each baseline at every value of an axis."""
STYLES = {"chance": "-", "start": "--", "majority": ":"}
"""Their lines."""
NAMES = {"chance": "chance", "start": "answering with the start", "majority": "most frequent answer"}
"""How reports call them."""


RULES = {
    "state_exact": ("nothing changed", "unchanged_states", "states"),
    "changed_state_exact": ("nothing changed", "", "changed_states"),
    "action_exact": ("the line below", "lines_below", "actions"),
    "value_exact": ("the value before", "values_repeated", "returns"),
}
"""By a share of frames: the rule's name, the column that counts what it has right, if anything, and that of all."""


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
    return {name: _mean(outcomes) for name, outcomes in _answers(rows).items()}  # type: ignore[return-value]


def rule_for(rows: pd.DataFrame, share: str) -> tuple[str, pd.Series]:
    """The name of the best rule for a share of records, and that share of each record by it; no name where none is known, as of records
    that were made before states were counted by kind."""
    if share == "right":
        known = {NAMES[name]: outcomes for name, outcomes in _answers(rows).items() if _mean(outcomes) is not None}
        return max(known.items(), key=lambda one: one[1].mean(), default=("", rows["chance"]))
    name, right, of = RULES[share]
    if of not in rows or right not in {"", *rows} or rows[of].isna().any():
        return "", rows["chance"]
    return name, (rows[right] if right else 0) / rows[of].clip(lower=1)


def _answers(rows: pd.DataFrame) -> dict[str, pd.Series]:
    answers = rows["true_answer"].where(rows["true_answer"] != "")
    most = answers.value_counts().index[:1]
    return {
        "chance": rows["chance"],
        "start": rows["start_right"],
        "majority": answers.isin(most).astype(float) if len(most) else rows["chance"] * math.nan,
    }


def _mean(values: pd.Series) -> float | None:
    return None if values.isna().any() or not len(values) else float(values.mean())


def best(conditions: Iterable[Mapping[str, Any]]) -> str:
    """The highest of them, and in small print which it is; empty if there is none."""
    name, share = highest(conditions)
    return f"{100 * share:.0f} %\n{NAMES[name]}" if name else ""


def highest(conditions: Iterable[Mapping[str, Any]]) -> tuple[str, float]:
    """The name and the share of the highest; no name and 0 if there is none."""
    found = along((0.0, one) for one in conditions)
    return max(((name, points[0.0]) for name, points in found.items()), key=lambda one: one[1], default=("", 0.0))


def along(conditions: Iterable[tuple[float, Mapping[str, Any]]]) -> dict[str, dict[float, float]]:
    """The highest share of each baseline at every place of an axis, of conditions with their places."""
    found: dict[str, dict[float, float]] = {name: {} for name in NAMES}
    for place, condition in conditions:
        for name, share in condition["baselines"].items():
            if share is not None:
                found[name][place] = max(share, found[name].get(place, 0.0))
    return {name: points for name, points in found.items() if points}


def draw(panel: Axes, shares: Shares) -> None:
    """Draw the baselines' shares as grey lines."""
    for name, points in shares.items():
        panel.plot(*zip(*sorted(points.items())), color="0.6", lw=1.2, ls=STYLES[name], label=NAMES[name], zorder=1)
