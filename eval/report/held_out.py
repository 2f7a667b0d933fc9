"""Compositions of what a run was trained on beside those of functions or depths that were held out from its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from remedy.eval.records import baselines
from remedy.eval.records.schema import answered
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import rate
from remedy.eval.tables.sections import WITHOUT, Rows, Section, in_order, interval, places, text, title, varying

NOTE = (
    "Right answers on programs without and with a function that the run's data keeps from training (`held_out_functions`), and at "
    "depths that it keeps (`held_out_depths`). Intervals are for other programs of these very functions: of a few functions that "
    "are held out, another choice may be easier or harder."
)


def held_out_section(
    name: str, conditions: Sequence[ConditionSummary], records: pd.DataFrame, requests: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """The section on one diagnostic; nothing where no run has held anything out."""
    rows = held_out_table(conditions, records, requests)
    return [Section(f"{name}: held out from training", rows=rows, note=NOTE)] if len(rows) > 1 else []


def held_out_table(
    conditions: Sequence[ConditionSummary], records: pd.DataFrame, requests: Sequence[Mapping[str, Any]]
) -> Rows:
    """A line for every run and condition; only single functions, which are conditions of their own, stand together."""
    tasks = {request["run"]: request["trained_on"] or {} for request in requests if "trained_on" in request}
    labels = [label for label in varying(conditions) if label != "function"]
    depths = {run: task.get("held_out_depths", ()) for run, task in tasks.items()}
    functions = {run: set(task.get("held_out_functions", ())) for run, task in tasks.items()}
    table = [["Run", *map(title, labels), "Depth held out", "Of trained functions", "With one held out", WITHOUT]]
    mine = [one for one in in_order(conditions) if depths.get(one["run"]) or functions.get(one["run"])]
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in mine:
        key = (one["run"], *(text(one["labels"].get(label, "")) for label in labels))
        groups.setdefault(key, []).append(one["condition"])
    for (run, *values), names in groups.items():
        rows = answered(records[(records["run"] == run) & records["condition"].isin(names)])
        rows = rows[rows["functions"] != ""]
        if rows.empty:
            continue
        used = rows["functions"].str.split()
        new = ~used.map(functions[run].isdisjoint).astype(bool)
        deep = used.map(len).isin(depths[run])
        for kept, said in ((~deep, "no"), (deep, "yes")):
            if kept.any():
                without = baselines.best([{"baselines": baselines.baselines(rows[kept])}])
                table.append([run, *values, said, _cell(rows[kept & ~new]), _cell(rows[kept & new]), without])
    return table


def _cell(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    found = rate(rows["right"].astype(bool).tolist(), rows["cluster"].tolist())
    shown = f"{100 * found.mean:.{places(found.low, found.high)}f} %"
    programs = rows["example"].nunique()
    of = f"of {found.size}" + (f"\n{programs} programs" if programs < found.size else "")
    return f"{shown}\n{interval(found.low, found.high)}\n{of}"
