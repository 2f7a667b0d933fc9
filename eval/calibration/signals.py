"""Signals of doubt of every written frame, without any truth, and where the truth is known, whether the frame is the first error.

Each signal is causal: of a frame it uses that frame and the frames before it. Each grows with doubt, and those that are made of
probabilities are log-odds, since a model that knows how sure it may be has the log-odds of its own error on that scale. Generations
say how sure the model was of each frame, records where the first error is; both count frames by their place among the written ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from remedy.checksums import digest_of
from remedy.eval.decoding.forcings import CONSTRAINED
from remedy.eval.records.folder import GENERATIONS, RECORDS, words_of
from remedy.eval.records.generations import FrameProbability, read_generations
from remedy.eval.records.schema import COMMON, MEMORY, LabelValue, label_columns, read_records
from remedy.messages import suggest
from remedy.settings import ConfigError, UserError

SIGNALS = {
    "least_probability": "log-odds that the least likely of the frame's tokens is another one",
    "frame_probability": "log-odds that any of them is another one",
    "margin": "how near the likeliest token and the next come to each other, at the token where they are nearest",
    "cut": "log-odds that the model would have written what its constraint does not allow",
    "contradiction": "1 if the states written before do not lead to the frame's event and line, or the program never does, else 0",
    "call_depth": "logarithm of 1 more than the calls that are open where the frame stands, by the events written up to it",
    "tokens_so_far": "logarithm of the tokens that the model wrote up to the frame's end",
    "frame_number": "logarithm of the frame's number among the written ones",
}
"""The signals, with a sentence on each."""
UNTOLD = frozenset({"least_probability", "frame_probability", "cut"})
"""Signals that need the probability of every token among all tokens, which servers do not tell of a choice among some."""
MOST = 20.0
"""Log-odds and margins are cut at this value: further away is rounding."""

COLUMNS = tuple(
    f"frame_{name}" for name in ("places", "tokens", "logprob_sum", "logprob_min", "margin_min", "cut", "depth")
)
"""Columns of generations that make a `FrameProbability`, in its order."""
FED = "its forcing feeds states or values, so that no trace is the model's"
NOT_RUN = "its program could not be run"
NOT_DECODED = "not decoded, its true trace being too long"
CUT = "its last frame was cut by a limit, which says nothing of it"
FED_ERROR = "the first error is in a frame of which the model wrote nothing"
ABOUT = ("run", "condition", "cluster", "split", "first_error_role", "operation", "value_type")
"""Columns of records that are known of a trace here."""

Signals = dict[str, float | None]
"""The value of each signal; null where it cannot be told."""


def signals_of(frame: FrameProbability, tokens: int, constrained: bool, contradicts: bool | None) -> Signals:
    """The signals of one frame. `tokens`: how many the model has written up to its end; `constrained`: whether it was held to what a
    constraint allows; `contradicts`: None where it cannot be told."""
    return {
        "least_probability": _odds(-math.expm1(frame.logprob_min)),
        "frame_probability": _odds(-math.expm1(frame.logprob_sum)),
        "margin": None if math.isnan(frame.margin_min) else -min(frame.margin_min, MOST),
        "cut": _odds(frame.cut) if constrained else None,
        "contradiction": None if contradicts is None else float(contradicts),
        "call_depth": None if math.isnan(frame.depth) else math.log1p(frame.depth),
        "tokens_so_far": math.log1p(tokens),
        "frame_number": math.log1p(frame.place),
    }


def _odds(probability: float) -> float | None:
    """The logarithm of the odds of a probability, which rounding may put outside of 0 to 1; None where that is unknown."""
    if math.isnan(probability):
        return None
    if probability <= 0:
        return -MOST
    return MOST if probability >= 1 else min(max(math.log(probability) - math.log1p(-probability), -MOST), MOST)


class Observed(NamedTuple):
    """Written traces.

    `frames`: a row for every frame that the model wrote tokens of, in their order: `trace` (a row of `traces`), `place`, call `depth`,
    the signals (NaN where null), whether it is `at_risk` (not after the first error), and whether it is the `event`, the first error.
    `traces`: what records say (`ABOUT` and labels), the place of the first `error` (-1: none) and how many `written` frames there are.
    `left_out`: traces or parts of them that are not looked at, by why.
    """

    frames: pd.DataFrame
    traces: pd.DataFrame
    left_out: Mapping[str, int]

    @property
    def at_risk(self) -> pd.DataFrame:
        """The frames that could be the first error, each with the cluster of its trace."""
        found = self.frames[self.frames["at_risk"]]
        return found.assign(cluster=self.traces["cluster"].to_numpy()[found["trace"]])

    def some(self, kept: pd.Series) -> Observed:
        """The traces for which `kept`, of every trace, is true."""
        number = np.cumsum(kept.to_numpy()) - 1
        mine = self.frames[kept.to_numpy()[self.frames["trace"]]]
        frames = mine.assign(trace=number[mine["trace"]]).reset_index(drop=True)
        return Observed(frames, self.traces[kept.to_numpy()].reset_index(drop=True), self.left_out)


def common_labels(records: pd.DataFrame) -> dict[str, LabelValue]:
    """The labels of a condition that say how traces are written and decoded, and not of which programs."""
    names = [one.name for one in (*COMMON, MEMORY) if one.name in records]
    return {name: records[name].iloc[:1].tolist()[0] for name in names}


def conditions_named(folder: Path, request: Mapping[str, Any], words: str) -> list[str]:
    """The conditions of an evaluation whose names have all of these words.

    Raises:
        ConfigError: none has.
    """
    found = [
        slug
        for slug in request["conditions"]
        if all(word in words_of(slug) or ("=" not in word and word in slug) for word in words.split())
    ]
    if not found:
        parts = sorted({part for slug in request["conditions"] for part in words_of(slug)})
        raise ConfigError(f"--condition {words!r}: no condition of {folder} has it; {suggest(words, parts)}")
    return found


def read_condition(folder: Path, request: Mapping[str, Any], slug: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One condition's records, and what was written, both by the index of the example.

    Raises:
        UserError: a file is damaged, of another version, or not there yet.
    """
    evaluation = digest_of(request)
    path = folder / RECORDS / f"{slug}.parquet"
    if not path.exists():
        raise UserError(f"{folder}: {slug} is not evaluated yet; `remedy evaluate`, run again, goes on")
    records = read_records(path, evaluation).set_index("index", drop=False)
    return records, read_generations(folder / GENERATIONS / f"{slug}.parquet", evaluation)


def observe(conditions: Sequence[tuple[pd.DataFrame, pd.DataFrame]]) -> Observed:
    """The traces of conditions, each given as records and what was written, by the index of the example."""
    parts: list[pd.DataFrame] = []
    traces: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    for records, kept in conditions:
        labels = label_columns(records)
        for record, written in zip(records.to_dict("records"), kept.loc[records.index].to_dict("records")):
            if why := _unusable(record, written):
                left_out[why] += 1
                continue
            error = int(record["frames_right"]) if record["first_error_frame"] >= 0 else -1
            frames = _frames(written, str(record["forcing"]) in CONSTRAINED)
            if _cut_while_right(record, frames["place"].max()):
                frames, error = frames[frames["place"] < error], -1
                left_out[CUT] += 1
            elif error >= 0 and error not in set(frames["place"]):
                left_out[FED_ERROR] += 1
            place = frames["place"]
            parts.append(frames.assign(trace=len(traces), at_risk=(place <= error) | (error < 0), event=place == error))
            about = {name: record[name] for name in (*ABOUT, *labels)}
            traces.append({**about, "error": error, "written": len(frames)})
    frames = pd.concat(parts, ignore_index=True) if parts else _frames({name: [] for name in COLUMNS}, False)
    return Observed(frames, pd.DataFrame(traces), dict(left_out))


def _unusable(record: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """Say why nothing can be learnt of a trace; empty if something can."""
    if pd.isna(record["right"]):
        return FED
    if record["outcome"] != "ok":
        return NOT_RUN
    return "" if len(written["frame_places"]) else NOT_DECODED


def _cut_while_right(record: Mapping[str, Any], last: int) -> bool:
    """Say if what is called the first error is a frame that a limit cut, and nothing says that it would have been wrong. Of true
    traces those that fit are decoded alone, so one that is cut has left the truth, unless it spells out what the truth does not."""
    return bool(record["truncated"] and record["respelled"] > 0 and record["frames_right"] >= last)


def _frames(written: Mapping[str, Any], constrained: bool) -> pd.DataFrame:
    found = [FrameProbability(*one) for one in zip(*(written[name] for name in COLUMNS))]
    against = written.get("contradictions")
    wrong = None if against is None else {*map(int, against)}
    tokens = accumulate(one.tokens for one in found)
    said = [
        signals_of(one, count, constrained, None if wrong is None else one.place in wrong)
        for one, count in zip(found, tokens)
    ]
    table = pd.DataFrame(said, columns=list(SIGNALS), dtype=float)
    return table.assign(
        place=np.array([one.place for one in found], dtype=int),
        depth=np.array([one.depth for one in found], dtype=float),
    )
