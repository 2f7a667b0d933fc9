"""Which failed records are worth a look, from the records alone: a few of each class, short, early, and spread over the evaluations."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from remedy.eval.records.failures import Failure
from remedy.eval.records.schema import ROLE_COLUMNS

MOST = 10
"""Records of a failure class."""
SHORTLIST = 5
"""Records at most of which each is chosen, as the one that the model was surest of."""
LONGEST = 4_000
"""Tokens of a record, true and written, that is shown at most."""
RULE = (
    f"At most {MOST} records of each failure class, whose error is soon read and is no toss-up. Conditions take turns, the first "
    "of every run, then the second; each shows a cluster of programs that the class has not shown yet, those with the fewest "
    f"tokens first, then the earliest error; of up to {SHORTLIST} such records the one whose least likely token in the wrong "
    "frame was the likeliest: the model was sure, and wrong. They show how a class looks, and no rate. Left out: records of more "
    f"than {LONGEST:,} tokens, and those of which nothing was written."
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
        """Names the page."""
        return f"{self.failure.replace(' ', '-')}-{self.number}"


def turns(records: pd.DataFrame) -> list[Turn]:
    """For each failure class, from which records one is chosen at a time."""
    return [turn for kind in Failure if kind is not Failure.TRUNCATED for turn in _of_class(kind, records)]


def surest(turn: Turn, generations: pd.DataFrame) -> tuple[dict[str, Any], float]:
    """The record of a turn that the model was surest of in the frame that is wrong, and the probability of its least likely token
    there; NaN where it wrote none. `generations`: of the condition, by index."""
    found = [(_least(record, generations.loc[record["index"]]), record) for record in turn.records]
    least, record = max(found, key=lambda one: -1.0 if math.isnan(one[0]) else one[0])  # of equals the first
    return record, least


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


def _least(record: dict[str, Any], written: pd.Series) -> float:
    places: Sequence[int] = list(written["frame_places"])
    if record["frames_right"] not in places:
        return math.nan
    return math.exp(written["frame_logprob_min"][places.index(record["frames_right"])])
