"""Records worth a look: a few failures of each class, each with a page that shows what was written beside what is true."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from remedy.eval.records.failures import Failure
from remedy.eval.records.folder import GENERATIONS
from remedy.eval.records.schema import ROLE_COLUMNS, TRACE_COLUMNS, label_columns
from remedy.eval.tables.sections import RECORDS, Section, named
from remedy.eval.view.page import page
from remedy.eval.view.records import Opened
from remedy.files import replace_file
from remedy.settings import UserError

FOLDER = "records"
TITLE = "Failures to look at"
HEAD = ["Record", "Class", "Recipe", "Condition", "Program", "Tokens", "First error", "Role", "Least likely token"]
MOST = 10
"""Records of a failure class."""
SHORTLIST = 5
"""Records at most of which each is chosen, as the one that the model was surest of."""
LONGEST = 4_000
"""Tokens of a record, true and written, that is shown at most."""
RULE = (
    f"At most {MOST} records of each failure class, whose error is soon read and is no toss-up. Conditions take turns, the first "
    "of every "
    "run, then the second; each shows a cluster of programs that the class has not shown yet, those with the fewest tokens "
    "first, then the "
    f"earliest error; of up to {SHORTLIST} such records the one whose least likely token in the wrong frame was the likeliest: "
    "the model "
    f"was sure, and wrong. They show how a class looks, and no rate. Left out: records of more than {LONGEST:,} tokens, and "
    "those of which "
    "nothing was written."
)


class Turn(NamedTuple):
    """Records of one failure class and condition of which one is to be shown; `number` counts those of the class from 1."""

    failure: Failure
    number: int
    run: str
    condition: str
    records: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """The name of the page."""
        return f"{self.failure.replace(' ', '-')}-{self.number}"


class Shown(NamedTuple):
    """A record that has a page. `least`: the probability of its least likely token in the frame that is wrong; NaN where it
    wrote none."""

    turn: Turn
    record: Mapping[str, Any]
    least: float


def turns(records: pd.DataFrame) -> list[Turn]:
    """For each failure class, the records from which one is chosen at a time."""
    return [turn for kind in Failure if kind is not Failure.TRUNCATED for turn in _of_class(kind, records)]


def surest(turn: Turn, generations: pd.DataFrame) -> Shown:
    """The record of a turn that the model was surest of in the frame that is wrong. `generations`: of the condition, by index."""
    found = [Shown(turn, record, _least(record, generations.loc[record["index"]])) for record in turn.records]
    return max(found, key=lambda one: -1.0 if math.isnan(one.least) else one.least)  # of equals the first


def _of_class(kind: Failure, records: pd.DataFrame) -> Iterator[Turn]:
    failed = records[(records["failure"] == kind) & (records["first_error_frame"] >= 0)]
    size = failed[list(ROLE_COLUMNS.values())].sum(axis=1) + failed["written_tokens"]
    failed = failed.assign(size=size)[size <= LONGEST]
    count = min(SHORTLIST, max(1, failed["cluster"].nunique() // MOST))
    waiting = deque(_in_turn(failed))
    shown: set[str] = set()
    number = 0
    while waiting and number < MOST:
        key, group = waiting.popleft()
        group = group[~group["cluster"].isin(shown)].sort_values(["size", "frames_right", "example", "index"])
        free = group.drop_duplicates("cluster").head(count)
        if len(free):
            number += 1
            shown.update(free["cluster"])
            yield Turn(kind, number, *key, tuple(free.to_dict("records")))
            waiting.append((key, group))


def _in_turn(failed: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """The records of each run and condition; conditions of different runs alternate."""
    groups = [(key, group) for key, group in failed.groupby(["run", "condition"], sort=False)]
    runs = list(dict.fromkeys(run for (run, _), _ in groups))
    nth = Counter[str]()
    places = []
    for (run, _), _ in groups:
        nth[run] += 1
        places.append((nth[run], runs.index(run)))
    return [groups[at] for at in sorted(range(len(groups)), key=places.__getitem__)]


def _least(record: Mapping[str, Any], written: pd.Series) -> float:
    places: Sequence[int] = list(written["frame_places"])
    if record["frames_right"] not in places:
        return math.nan
    return math.exp(written["frame_logprob_min"][places.index(record["frames_right"])])


def record_sections(folders: Sequence[Path], records: pd.DataFrame, output: Path) -> list[Section]:
    """Write the pages to a folder `records` beside the report, and list them in a section; none where nothing failed, or no
    generations are kept, which is how small evaluations are.

    `records`: with the run of each. Of an evaluation without generations there are no pages, and the section says why.

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
    count = len(folders) - len(kept)
    missing = {f"{count} evaluation{'s' if count > 1 else ''}": f"without {GENERATIONS}/"} if count else {}
    for folder in kept:
        try:
            found += _written(folder, wanted, output)
        except UserError as error:
            missing.setdefault(str(folder), str(error).splitlines()[0])
    if not found and not kept:
        return []
    if not found:
        rows = [["Evaluation", "Why its records have no pages"], *([*item] for item in missing.items())]
        return [Section(TITLE, rows=rows, group=RECORDS)]
    why = [
        f"Records of {folder} have no pages: {text.removeprefix(f'{folder}: ')}." for folder, text in missing.items()
    ]
    order = list(Failure)
    found.sort(key=lambda one: (order.index(one.turn.failure), one.turn.number))
    telling = [name for name in label_columns(records) if name != "variant" and records[name].nunique(dropna=False) > 1]
    links = {one.turn.name: f"{FOLDER}/{one.turn.name}.html" for one in found}
    rows = [HEAD, *(_row(one, telling) for one in found)]
    note = " ".join([RULE, _counts(records, found), *why])
    filters = ("Class", "Recipe", "Condition")
    return [Section(TITLE, rows=rows, note=note, links=links, group=RECORDS, filters=filters)]


def _written(folder: Path, wanted: Mapping[tuple[str, str], Sequence[Turn]], output: Path) -> Iterator[Shown]:
    """The records of one evaluation, each with its page."""
    opened = Opened(folder)
    for slug in opened.request["conditions"]:
        mine = wanted.get((opened.request["run"], slug), ())
        if not mine:
            continue
        generations = opened.generations(slug)
        chosen = [surest(turn, generations) for turn in mine]
        views = opened.views(slug, [int(one.record["index"]) for one in chosen], generations)
        for one, view in zip(chosen, views):
            _write(output / FOLDER / f"{one.turn.name}.html", page(view))
            yield one


def _write(path: Path, text: str) -> None:
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _row(one: Shown, telling: Sequence[str]) -> list[str]:
    """`telling`: the labels that tell conditions apart."""
    record = one.record
    labels = {name: record[name] for name in telling if not pd.isna(record[name])}
    return [
        one.turn.name,
        str(one.turn.failure),
        str(record.get("variant") or one.turn.run),
        ", ".join(filter(None, [str(record["diagnostic"]), named(labels, telling)])),
        str(record["source"] or record["functions"] or f"example {record['index']}"),
        f"{sum(record[column] for column in TRACE_COLUMNS)}",
        f"frame {record['first_error_frame']}",
        str(record["first_error_role"]),
        "" if math.isnan(one.least) else f"{one.least:.2g}",
    ]


def _counts(records: pd.DataFrame, found: Sequence[Shown]) -> str:
    """A sentence on the records of each class, and on how many of them have pages."""
    said = []
    for kind in Failure:
        count, pages = int((records["failure"] == kind).sum()), sum(one.turn.failure is kind for one in found)
        said += [f"{kind} {pages} of {count:,}"] if count else []
    return f"Shown of all: {', '.join(said)}."
