"""Remarks on rates that would mislead alone, such as floors or truncation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from remedy.eval.records import baselines

if TYPE_CHECKING:
    from remedy.eval.records.summary import ConditionSummary


def remarks(conditions: Sequence[ConditionSummary], rate: tuple[float, float, float] | None) -> list[str]:
    """Return remarks on one rate of these conditions. `rate`: mean, low and high."""
    notes = list(dict.fromkeys(lacks for condition in conditions if (lacks := condition.get("lacks", ""))))
    examples = sum(condition["examples"] for condition in conditions)
    truncated = round(sum(condition["truncated"] * condition["examples"] for condition in conditions))
    if truncated:
        notes.append(
            f"{'all' if truncated == examples else f'{truncated} of {examples}'} truncated by a limit on tokens"
        )
    if rate is None or not examples:
        return notes
    mean, low, high = rate
    name, share = baselines.highest(conditions)
    if mean in (0.0, 1.0):
        notes.append("floor: none right" if mean == 0.0 else "ceiling: all right")
    if name and high < share:
        notes.append(f"below {baselines.NAMES[name]} ({share:.0%})")
    elif name and mean and low <= share:
        notes.append(f"not distinguishable from {baselines.NAMES[name]} ({share:.0%})")
    return notes


def of_condition(condition: ConditionSummary) -> list[str]:
    right = condition["right"]
    return remarks([condition], right and (right.mean, right.low, right.high))
