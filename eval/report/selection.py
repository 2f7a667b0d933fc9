"""What variants chose on validation before their runs were made: what was tried, with which figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from remedy.checksums import read_json
from remedy.eval.tables.sections import Rows, Section

SELECTION = "selection.json"
NOTE = (
    "Each variant was trained with every value tried and judged on the validation split, by seeds that none of its runs has; the test "
    "programs had no part in it. Figures: mean over the seeds, then each seed's. A best value at an end of what was tried may have a "
    "better one beyond."
)


class Tried(TypedDict):
    """One setting that a variant tried. `figures`: of each seed; null for a training whose loss became NaN or infinite."""

    values: dict[str, Any]
    figures: list[float | None]
    mean: float | None
    chosen: bool


class SelectionRecord(TypedDict):
    """The choices of a group's variants."""

    group: str
    metric: str
    seeds: list[int]
    variants: dict[str, list[Tried]]


def read_selection(folder: Path) -> SelectionRecord:
    """The record in a folder of trials.

    Raises:
        UserError: it is damaged.
    """
    return cast("SelectionRecord", read_json(folder / SELECTION, "run the experiment again, which writes it anew"))


def selection_sections(records: Sequence[SelectionRecord]) -> list[Section]:
    """A table of what was tried for every record."""
    titles = {record["group"]: f": {record['group']}" if len(records) > 1 else "" for record in records}
    return [Section(f"What was tried{titles[record['group']]}", rows=_table(record), note=NOTE) for record in records]


def _table(record: SelectionRecord) -> Rows:
    metric = {"loss": "Loss", "exact_match": "Exact match"}[record["metric"]]
    of = f"{len(record['seeds'])} seed{'s' if len(record['seeds']) > 1 else ''}"
    rows = [["Variant", "Tried", f"{metric} on validation ({of})", "Chosen"]]
    for variant, tried in record["variants"].items():
        for one in tried:
            values = ", ".join(f"{key.removeprefix('train.')} {_said(value)}" for key, value in one["values"].items())
            rows.append([variant, values, _figures(record["metric"], one), "chosen" if one["chosen"] else ""])
    return rows


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _figures(metric: str, one: Tried) -> str:
    shown = [_figure(metric, figure) for figure in one["figures"]]
    return shown[0] if len(shown) == 1 else f"{_figure(metric, one['mean'])} ({', '.join(shown)})"


def _figure(metric: str, value: float | None) -> str:
    if value is None:
        return "no finite loss"
    return f"{value:.1%}" if metric == "exact_match" else f"{value:.4g}"
