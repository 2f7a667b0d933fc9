"""Records worth a look: a few failures of each class, each with a page that shows what was written beside what is true."""

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
from remedy.eval.report.wording import plural
from remedy.eval.tables.sections import RECORDS, Section, named
from remedy.eval.view.records import Opened
from remedy.eval.view.terminal import page
from remedy.files import write_text

FOLDER = "records"
TITLE = "Failures to look at"
HEAD = ["Record", "Class", "Recipe", "Condition", "Program", "Tokens", "First error", "Role"]
MOST = 10
"""Records of a failure class."""
LONGEST = 4_000
"""Tokens of a record, true and written, that is shown at most."""


def chosen(records: pd.DataFrame) -> pd.DataFrame:
    """At most `MOST` records of each failure class, short ones first, with a `name`: conditions take turns, the first of every run,
    then the second, and no cluster is shown twice of a class. Truncated ones have no error to look at."""
    size = records[list(ROLE_COLUMNS.values())].sum(axis=1) + records["written_tokens"]
    fit = (records["first_error_frame"] >= 0) & (size <= LONGEST) & (records["failure"] != Failure.TRUNCATED)
    short = records.assign(size=size)[fit].sort_values(["size", "frames_right", "example", "index"])
    order = records[["run", "condition"]].drop_duplicates()
    order = order.assign(nth=order.groupby("run").cumcount()).sort_values("nth", kind="stable")
    picked = []
    for kind in Failure:
        groups = dict(list(short[short["failure"] == kind].groupby(["run", "condition"])))
        waiting = deque(groups[key] for key in zip(order["run"], order["condition"]) if key in groups)
        shown: set[str] = set()
        while waiting and len(shown) < MOST:
            group = waiting.popleft()
            free = group[~group["cluster"].isin(shown)].head(1)
            if len(free):
                shown.update(free["cluster"])
                picked.append(free.assign(name=f"{kind.replace(' ', '-')}-{len(shown)}"))
                waiting.append(group)
    return pd.concat(picked) if picked else short.assign(name="")


def record_sections(folders: Sequence[Path], records: pd.DataFrame, output: Path) -> list[Section]:
    """Write the pages to a folder `records` beside the report, and list them in a section; none where nothing failed, or no
    generations are kept, which is how small evaluations are. `records`: with the run of each.

    Raises:
        UserError: generations are damaged.
        OSError: a page cannot be written.
    """
    kept = [Opened(folder) for folder in folders if (folder / GENERATIONS).is_dir()]
    if not kept:
        return []
    found = chosen(records[records["run"].isin([one.request["run"] for one in kept])])
    if found.empty:
        return []
    for opened in kept:
        mine = found[found["run"] == opened.request["run"]]
        for slug, some in mine.groupby("condition"):
            for name, view in zip(some["name"], opened.views(str(slug), some["index"].tolist())):
                write_text(output / FOLDER / f"{name}.html", page(view))
    telling = [name for name in label_columns(records) if records[name].nunique(dropna=False) > 1]
    counts, shown = (one["failure"].value_counts() for one in (records, found))
    said = ", ".join(f"{kind} {shown.get(kind, 0)} of {counts[kind]:,}" for kind in Failure if kind in counts)
    without = plural(len(folders) - len(kept), "evaluation")
    why = f" Records of {without} have no pages: without {GENERATIONS}/." if len(kept) < len(folders) else ""
    return [
        Section(
            TITLE,
            rows=[HEAD, *(_row(record, telling) for record in found.to_dict("records"))],
            note=f"{NOTES['records']} Shown of all: {said}.{why}",
            links={name: f"{FOLDER}/{name}.html" for name in found["name"]},
            group=RECORDS,
        )
    ]


def _row(record: dict[Any, Any], telling: Sequence[str]) -> list[str]:
    """`telling`: the labels that tell conditions apart."""
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
