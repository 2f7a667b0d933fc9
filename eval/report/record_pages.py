"""Pages of single records beside a report: what was written beside what is true, made from an evaluation's folder and its data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from remedy.eval.records.failures import Failure
from remedy.eval.records.folder import GENERATIONS
from remedy.eval.records.schema import label_columns
from remedy.eval.report.instructive import RULE, Turn, surest, turns
from remedy.eval.tables.sections import Section, named
from remedy.eval.view.page import page
from remedy.eval.view.records import Opened
from remedy.files import replace_file
from remedy.settings import UserError

FOLDER = "records"
TITLE = "Failures to look at"
HEAD = ["Record", "Run", "Condition", "Program", "First error", "Least likely token there"]


class Shown(NamedTuple):
    """A record that has a page."""

    turn: Turn
    record: Mapping[str, Any]
    least: float


def record_sections(folders: Sequence[Path], records: pd.DataFrame, output: Path) -> list[Section]:
    """Write the pages to a folder `records` beside the report, and say in a section where they are; none where nothing failed.

    `records`: with the run of each. Of an evaluation whose generations, data or tokenizer are not at hand there are no pages, and the
    section says why: in one sentence of all whose folder of generations was deleted, which is how small evaluations are kept.

    Raises:
        OSError: a page cannot be written.
    """
    wanted: dict[tuple[str, str], list[Turn]] = {}
    for turn in turns(records) if "condition" in records else ():
        wanted.setdefault((turn.run, turn.condition), []).append(turn)
    if not wanted:
        return []
    found: list[Shown] = []
    kept = [folder for folder in folders if (folder / GENERATIONS).is_dir()]
    missing = {} if len(kept) == len(folders) else {_evaluations(len(folders) - len(kept)): f"without {GENERATIONS}/"}
    for folder in kept:
        try:
            found += _written(folder, wanted, output)
        except UserError as error:
            missing.setdefault(str(folder), str(error).splitlines()[0])
    if not found:
        rows = [["Evaluation", "Why its records have no pages"], *([*item] for item in missing.items())]
        return [Section(TITLE, rows=rows)] if missing else []
    note = " ".join([RULE, *_counts(records, found), *_said(missing)])
    order = list(Failure)
    found.sort(key=lambda one: (order.index(one.turn.failure), one.turn.number))
    telling = [name for name in label_columns(records) if name != "variant" and records[name].nunique(dropna=False) > 1]
    links = {_name(one): f"{FOLDER}/{one.turn.name}.html" for one in found}
    return [Section(TITLE, rows=[HEAD, *(_row(one, telling) for one in found)], note=note, links=links)]


def _written(folder: Path, wanted: Mapping[tuple[str, str], Sequence[Turn]], output: Path) -> Iterator[Shown]:
    """The records of one evaluation, each with its page."""
    opened = Opened(folder)
    for slug in opened.request["conditions"]:
        mine = wanted.get((opened.request["run"], slug), ())
        if not mine:
            continue
        kept = opened.generations(slug)
        chosen = [(turn, *surest(turn, kept)) for turn in mine]
        views = opened.views(slug, [int(record["index"]) for _, record, _ in chosen], kept)
        for (turn, record, least), view in zip(chosen, views):
            _write(output / FOLDER / f"{turn.name}.html", page(view))
            yield Shown(turn, record, least)


def _evaluations(count: int) -> str:
    return f"{count} evaluation{'s' if count > 1 else ''}"


def _write(path: Path, text: str) -> None:
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _name(one: Shown) -> str:
    return f"{one.turn.failure} {one.turn.number}"


def _row(one: Shown, telling: Sequence[str]) -> list[str]:
    """`telling`: the labels that tell conditions apart."""
    record = one.record
    labels = {name: record[name] for name in telling if not pd.isna(record[name])}
    frame = f"frame {record['first_error_frame']}, {record['first_error_role']}"
    return [
        _name(one),
        one.turn.run,
        ", ".join(filter(None, [str(record["diagnostic"]), named(labels, telling)])),
        str(record["source"] or record["functions"] or f"example {record['index']}"),
        frame,
        "" if math.isnan(one.least) else f"{one.least:.2g}",
    ]


def _counts(records: pd.DataFrame, found: Sequence[Shown]) -> Iterator[str]:
    """How many records of each class there are in all, and how many of them have pages."""
    said = []
    for kind in Failure:
        count, pages = int((records["failure"] == kind).sum()), sum(one.turn.failure is kind for one in found)
        said += [f"{kind} {pages} of {count:,}"] if count else []
    yield f"Shown of all: {', '.join(said)}."


def _said(missing: Mapping[str, str]) -> Iterator[str]:
    for folder, why in missing.items():
        yield f"Records of {folder} have no pages: {why.removeprefix(f'{folder}: ')}."
