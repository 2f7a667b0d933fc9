"""The solved horizon: how far does a run follow a state with an accuracy that is surely high?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from remedy.eval.records.schema import LabelValue
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import BAR
from remedy.eval.tables.sections import Line, Rows, Section, in_order, lines, text, title, varying

AXIS = "horizon"
NOTE = (
    f"The largest horizon at which the lower end of the 95 % interval is at least {BAR:.0%}, run by run; in small print, what was "
    "tested, and smaller horizons that do not reach it. Horizon: commands since the last state that shows all variables."
)


class SolvedHorizon(TypedDict):
    """Horizon up to which one run follows a state."""

    run: str
    labels: dict[str, LabelValue]
    """What the conditions have in common, of the labels that tell conditions apart."""
    solved: int | None
    """The largest horizon whose interval's lower bound is at least `BAR`; None if there is none."""
    tested: list[int]
    """All horizons that were tested."""
    failed_below: list[int]
    """Those below the solved one that do not reach the bar themselves."""


def solved_horizons(conditions: Sequence[ConditionSummary]) -> list[SolvedHorizon]:
    """One for every run and line along the horizon: conditions that differ in spacing or forcing are never one."""
    scored = [one for one in in_order(conditions) if AXIS in one["labels"] and one["right"] is not None]
    return [_solved(line) for line in lines(scored, varying(scored), AXIS)]


def _solved(line: Line) -> SolvedHorizon:
    low = {int(one["labels"][AXIS]): one["right"]["low"] for one in line.conditions if one["right"] is not None}
    solved = max((at for at, bound in low.items() if bound >= BAR), default=None)
    return {
        "run": line.run,
        "labels": dict(line.labels),
        "solved": solved,
        "tested": sorted(low),
        "failed_below": [at for at in sorted(low) if solved is not None and at < solved and low[at] < BAR],
    }


def solved_horizon_section(name: str, conditions: Sequence[ConditionSummary]) -> list[Section]:
    """A table of the solved horizons; nothing where nothing was scored."""
    found = solved_horizons(conditions)
    if not found:
        return []
    labels = list(dict.fromkeys(label for one in found for label in one["labels"]))
    rows: Rows = [["Run", *map(title, labels), "Solved horizon"]]
    for one in found:
        rows.append([one["run"], *(text(one["labels"].get(label, "")) for label in labels), _said(one)])
    return [Section(f"{name}: solved horizon", rows=rows, note=NOTE)]


def _said(found: SolvedHorizon) -> str:
    said = "none" if found["solved"] is None else str(found["solved"])
    said += f"\ntested: {', '.join(map(str, found['tested']))}"
    return said + (f"\nbut not {', '.join(map(str, found['failed_below']))}" if found["failed_below"] else "")
