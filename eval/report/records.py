"""Records worth a look: a few failures of each class, each with a page that shows what was written beside what is true."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from remedy.eval.records.failures import Failure
from remedy.eval.records.folder import GENERATIONS
from remedy.eval.records.schema import ROLE_COLUMNS, TRACE_COLUMNS, label_columns
from remedy.eval.report.notes import NOTES
from remedy.eval.report.render import write_text
from remedy.eval.report.wording import plural
from remedy.eval.tables.sections import RECORDS, Section, named
from remedy.eval.view.page import page
from remedy.eval.view.records import Opened

FOLDER = "records"
TITLE = "Failures to look at"
HEAD = ["Record", "Class", "Recipe", "Condition", "Program", "Tokens", "First error", "Role", "Least likely token"]
MOST = 10
"""Records of a failure class."""
SHORTLIST = 5
"""Records at most of which each is chosen, as the one that the model was surest of."""
LONGEST = 4_000
"""Tokens of a record, true and written, that is shown at most."""


class Turn(NamedTuple):
    """Records of one failure class and condition of which one is to be shown; `name` is that of the page."""

    name: str
    run: str
    condition: str
    records: tuple[dict[str, Any], ...]


class Shown(NamedTuple):
    """A record that has a page. `least`: the probability of its least likely token in the frame that is wrong; NaN where it
    wrote none."""

    name: str
    record: Mapping[str, Any]
    least: float


def turns(records: pd.DataFrame) -> Iterator[Turn]:
    """For each failure class, the records from which one is chosen at a time: conditions of runs take turns, the first of every run,
    then the second, and no cluster is shown twice."""
    for kind in Failure:
        failed = records[(records["failure"] == kind) & (records["first_error_frame"] >= 0)]
        size = failed[list(ROLE_COLUMNS.values())].sum(axis=1) + failed["written_tokens"]
        failed = failed.assign(size=size)[size <= LONGEST]
        if kind is Failure.TRUNCATED or failed.empty:
            continue
        count = min(SHORTLIST, max(1, failed["cluster"].nunique() // MOST))
        groups: dict[Any, pd.DataFrame] = dict(list(failed.groupby(["run", "condition"], sort=False)))
        runs: dict[str, list[Any]] = {}
        for key in groups:
            runs.setdefault(key[0], []).append(key)
        waiting = deque(key for layer in zip_longest(*runs.values()) for key in layer if key is not None)
        shown: set[str] = set()
        number = 0
        while waiting and number < MOST:
            key = waiting.popleft()
            group = groups[key].sort_values(["size", "frames_right", "example", "index"])
            free = group[~group["cluster"].isin(shown)].drop_duplicates("cluster").head(count)
            if len(free):
                number += 1
                shown.update(free["cluster"])
                yield Turn(f"{kind.replace(' ', '-')}-{number}", key[0], key[1], tuple(free.to_dict("records")))
                waiting.append(key)


def surest(turn: Turn, generations: pd.DataFrame) -> Shown:
    """The record of a turn that the model was surest of in the frame that is wrong. `generations`: of the condition, by index."""
    found = [Shown(turn.name, record, _least(record, generations.loc[record["index"]])) for record in turn.records]
    return max(found, key=lambda one: -1.0 if math.isnan(one.least) else one.least)  # of equals the first


def _least(record: Mapping[str, Any], written: pd.Series) -> float:
    places: Sequence[int] = list(written["frame_places"])
    if record["frames_right"] not in places:
        return math.nan
    return math.exp(written["frame_logprob_min"][places.index(record["frames_right"])])


def record_sections(folders: Sequence[Path], records: pd.DataFrame, output: Path) -> list[Section]:
    """Write the pages to a folder `records` beside the report, and list them in a section; none where nothing failed, or no
    generations are kept, which is how small evaluations are. `records`: with the run of each.

    Raises:
        UserError: generations are damaged.
        OSError: a page cannot be written.
    """
    wanted: dict[tuple[str, str], list[Turn]] = {}
    order: dict[str, int] = {}
    for turn in turns(records) if "condition" in records else ():
        wanted.setdefault((turn.run, turn.condition), []).append(turn)
        order[turn.name] = len(order)
    kept = [folder for folder in folders if (folder / GENERATIONS).is_dir()]
    found = [one for folder in kept if wanted for one in _written(folder, wanted, output)]
    if not found:
        return []
    found.sort(key=lambda one: order[one.name])
    telling = [name for name in label_columns(records) if records[name].nunique(dropna=False) > 1]
    shown = Counter(str(one.record["failure"]) for one in found)
    counts = records["failure"].value_counts()
    said = ", ".join(f"{kind} {shown[kind]} of {counts[kind]:,}" for kind in Failure if kind in counts)
    without = plural(len(folders) - len(kept), "evaluation")
    why = f" Records of {without} have no pages: without {GENERATIONS}/." if len(kept) < len(folders) else ""
    return [
        Section(
            TITLE,
            rows=[HEAD, *(_row(one, telling) for one in found)],
            note=f"{NOTES['records']} Shown of all: {said}.{why}",
            links={one.name: f"{FOLDER}/{one.name}.html" for one in found},
            group=RECORDS,
        )
    ]


def _written(folder: Path, wanted: Mapping[tuple[str, str], Sequence[Turn]], output: Path) -> Iterator[Shown]:
    """The records of one evaluation, each with its page."""
    opened = Opened(folder)
    for slug in opened.request["conditions"]:
        if mine := wanted.get((opened.request["run"], slug), ()):
            generations = opened.generations(slug)
            chosen = [surest(turn, generations) for turn in mine]
            views = opened.views(slug, [int(one.record["index"]) for one in chosen], generations)
            for one, view in zip(chosen, views):
                write_text(output / FOLDER / f"{one.name}.html", page(view))
                yield one


def _row(one: Shown, telling: Sequence[str]) -> list[str]:
    """`telling`: the labels that tell conditions apart."""
    record = one.record
    labels = {name: record[name] for name in telling if not pd.isna(record[name])}
    return [
        one.name,
        str(record["failure"]),
        str(record.get("variant") or record["run"]),
        ", ".join(filter(None, [str(record["diagnostic"]), named(labels, telling)])),
        str(record["source"] or record["functions"] or f"example {record['index']}"),
        f"{sum(record[column] for column in TRACE_COLUMNS)}",
        f"frame {record['first_error_frame']}",
        str(record["first_error_role"]),
        "" if math.isnan(one.least) else f"{one.least:.2g}",
    ]
