"""Pages of some failures of each class."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.eval.records.failures import Failure
from remedy.eval.records.folder import GENERATIONS
from remedy.eval.records.schema import ROLE_COLUMNS, TRACE_COLUMNS, label_columns
from remedy.eval.report.notes import NOTES
from remedy.eval.tables.sections import RECORDS, Section, named
from remedy.eval.view.records import EvaluationFolder
from remedy.eval.view.terminal import page
from remedy.files import write_text
from remedy.messages import plural

FOLDER = "records"
TITLE = "Failures to look at"
HEAD = ["Record", "Class", "Recipe", "Condition", "Program", "Tokens", "First error", "Role"]
MOST_OF_CLASS = 10
"""Records shown of a failure class."""
MOST_TOKENS = 4_000
"""The most tokens, true and written, of a shown record."""


def choose_records(records: pd.DataFrame) -> pd.DataFrame:
    """Choose and `name` up to `MOST_OF_CLASS` records of each failure class, short ones first.

    Conditions take turns; a cluster comes once in a class.
    """
    size = records[list(ROLE_COLUMNS.values())].sum(axis=1) + records["written_tokens"]
    # Only errors that a reader can find on a page.
    eligible = (records["first_error_frame"] >= 0) & (size <= MOST_TOKENS) & (records["failure"] != Failure.TRUNCATED)
    short = records.assign(size=size)[eligible].sort_values(["size", "frames_right", "example", "index"])
    order = records[["run", "condition"]].drop_duplicates()
    order = order.assign(nth=order.groupby("run").cumcount()).sort_values("nth", kind="stable")
    picked = []
    for kind in Failure:
        groups = dict(list(short[short["failure"] == kind].groupby(["run", "condition"])))
        waiting = deque(groups[key] for key in zip(order["run"], order["condition"]) if key in groups)
        clusters: set[str] = set()
        while waiting and len(clusters) < MOST_OF_CLASS:
            group = waiting.popleft()
            unseen = group[~group["cluster"].isin(clusters)].head(1)
            if len(unseen):
                clusters.update(unseen["cluster"])
                picked.append(unseen.assign(name=f"{kind.replace(' ', '-')}-{len(clusters)}"))
                waiting.append(group)
    return pd.concat(picked) if picked else short.assign(name="")


def record_sections(folders: Sequence[Path], records: pd.DataFrame, output: Path) -> list[Section]:
    """Write pages to `records/`, and list them in a section, if any.

    Raises:
        UserError: generations are damaged.
    """
    evaluations = [EvaluationFolder(folder) for folder in folders if (folder / GENERATIONS).is_dir()]
    if not evaluations:
        return []
    picked = choose_records(records[records["run"].isin([evaluation.request["run"] for evaluation in evaluations])])
    if picked.empty:
        return []
    for evaluation in evaluations:
        request = evaluation.request
        own = (picked["run"] == request["run"]) & picked["condition"].isin(request["conditions"])
        for slug, of_condition in picked[own].groupby("condition"):
            for name, view in zip(of_condition["name"], evaluation.views(str(slug), of_condition["index"].tolist())):
                write_text(output / FOLDER / f"{name}.html", page(view))
    telling = [name for name in label_columns(records) if records[name].nunique(dropna=False) > 1]
    counts, counts_shown = (table["failure"].value_counts() for table in (records, picked))
    numbers = ", ".join(f"{kind} {counts_shown.get(kind, 0)} of {counts[kind]:,}" for kind in Failure if kind in counts)
    without = len(folders) - len(evaluations)
    no_pages = f" {plural(without, 'evaluation')} without {GENERATIONS}/ have no pages." if without else ""
    return [
        Section(
            TITLE,
            rows=[HEAD, *(_row(record, telling) for record in picked.to_dict("records"))],
            note=f"{NOTES['records']} Shown of all: {numbers}.{no_pages}",
            links={name: f"{FOLDER}/{name}.html" for name in picked["name"]},
            group=RECORDS,
        )
    ]


def _row(record: dict[Any, Any], telling: Sequence[str]) -> list[str]:
    labels = {name: record[name] for name in telling if not pd.isna(record[name])}
    return [
        record["name"],
        record["failure"],
        record["variant"],
        ", ".join(filter(None, [record["diagnostic"], named(labels, telling)])),
        record["source"] or record["functions"] or f"example {record['index']}",
        f"{sum(record[column] for column in TRACE_COLUMNS)}",
        f"frame {record['first_error_frame']}",
        record["first_error_role"],
    ]
