"""Baselines without a model: for answers, and rules for parts of frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Shares = Mapping[str, Mapping[float, float]]
"""Share of each baseline at every value of an axis."""
STYLES = {"chance": "-", "start": "--", "majority": ":"}
"""Line styles of the baselines of answers."""
NAMES = {
    "chance": "chance",
    "start": "answering with the start",
    "majority": "most frequent answer",
    "nothing_changed": "nothing changed",
    "line_below": "the line below",
    "value_before": "the value before",
}
"""Names in reports."""
RULES = {
    "state_exact": ("nothing_changed", "unchanged_states", "states"),
    "action_exact": ("line_below", "lines_below", "actions"),
    "value_exact": ("value_before", "values_repeated", "returns"),
}
"""By a share of frames: its rule, the column that counts what the rule has right, and the column of all."""


class Baselines(TypedDict):
    """Shares that are right without a model, over a condition's true examples; None if undefined.

    The first three are of answers, the others means of shares of frames.
    """

    chance: float | None
    """Guessing among the possible answers, if the task knows them."""
    start: float | None
    """Answering with the program's input or initial state."""
    majority: float | None
    """Answering with the most frequent answer of these examples."""
    nothing_changed: float | None
    """For states, the state last shown of a call (`data_gen.traces.kinds`, as the next two)."""
    line_below: float | None
    """For actions, the next line below."""
    value_before: float | None
    """For values, the value before."""


def baselines(rows: pd.DataFrame) -> Baselines:
    rights = {name: right for share in ("right", *RULES) for name, right in outcomes(rows, share).items()}
    return {name: _mean(rights[name]) if name in rights else None for name in NAMES}  # type: ignore[return-value]


def outcomes(rows: pd.DataFrame, share: str) -> dict[str, pd.Series]:
    """Return each baseline of a share in each record; empty if not counted."""
    if share != "right":
        name, right, of = RULES.get(share, ("", "", ""))
        # A trace without such frames has 0 of 1 right, since 0 of 0 is no share.
        return {name: rows[right] / rows[of].clip(lower=1)} if right in rows else {}
    most = rows["true_answer"][rows["true_answer"] != ""].value_counts().index[:1]
    constant = {"majority": rows["true_answer"].isin(most).astype(float)} if len(most) else {}
    return {"chance": rows["chance"], "start": rows["start_right"], **constant}


def _mean(values: pd.Series) -> float | None:
    return None if values.isna().any() or not len(values) else float(values.mean())


def best(conditions: Iterable[Mapping[str, Any]]) -> str:
    """Write the highest baseline of answers, if any, as a table cell."""
    name, share = highest(conditions)
    return f"{100 * share:.0f} %\n{NAMES[name]}" if name else ""


def highest(conditions: Iterable[Mapping[str, Any]]) -> tuple[str, float]:
    """Return name and share of the highest baseline of answers, else `("", 0.0)`."""
    best_shares = along((0.0, named_share) for named_share in conditions)
    return max(
        ((name, points[0.0]) for name, points in best_shares.items()),
        key=lambda named_share: named_share[1],
        default=("", 0.0),
    )


def along(conditions: Iterable[tuple[float, Mapping[str, Any]]]) -> dict[str, dict[float, float]]:
    """Return each answer baseline's highest share at every value of an axis."""
    shares: dict[str, dict[float, float]] = {name: {} for name in STYLES}
    for position, condition in conditions:
        for name in shares:
            if (share := condition["baselines"][name]) is not None:
                shares[name][position] = max(share, shares[name].get(position, 0.0))
    return {name: points for name, points in shares.items() if points}


def draw(panel: Axes, shares: Shares) -> None:
    for name, points in shares.items():
        panel.plot(*zip(*sorted(points.items())), color="0.6", lw=1.2, ls=STYLES[name], label=NAMES[name], zorder=1)
