"""What a model wrote, kept beside the records: text, token ids, and how sure it was of every frame.

A record leads to its generation by `condition` (the file's name) and `index` (the row).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import pandas as pd
import pyarrow as pa

from remedy.data_gen.sealed import read_table, write_table
from remedy.eval.decoding import Generated
from remedy.eval.records import CURE


class FrameProbability(NamedTuple):
    """How sure the model was of what it wrote of one frame."""

    place: int
    tokens: int
    logprob_sum: float
    logprob_min: float


class Generation(TypedDict):
    """What a model wrote for one example; all lists are empty for one that was not decoded."""

    index: int
    """The example's index in its split, as in its record."""
    text: str
    """What the model and the forcing wrote together, after the context; special tokens under their names."""
    run_starts: list[int]
    """Of each run of generated tokens: the position in the true sequence of the first token that it stands for."""
    run_stops: list[int]
    """The position after the last one."""
    run_lengths: list[int]
    """How many tokens it has."""
    ids: list[int]
    """The generated tokens of all runs, one after another."""
    frame_places: list[int]
    """Frames that the model wrote tokens of, by their place among the written frames, counted from 0."""
    frame_tokens: list[int]
    """How many tokens of each it wrote."""
    frame_logprob_sum: list[float]
    """The sum of the natural logarithms of their probabilities."""
    frame_logprob_min: list[float]
    """The least of them."""


def generation(index: int, text: str, runs: Sequence[Generated], frames: Sequence[FrameProbability]) -> Generation:
    """The row of one example."""
    return {
        "index": index,
        "text": text,
        "run_starts": [run.start for run in runs],
        "run_stops": [run.stop for run in runs],
        "run_lengths": [len(run.ids) for run in runs],
        "ids": [token for run in runs for token in run.ids],
        "frame_places": [frame.place for frame in frames],
        "frame_tokens": [frame.tokens for frame in frames],
        "frame_logprob_sum": [frame.logprob_sum for frame in frames],
        "frame_logprob_min": [frame.logprob_min for frame in frames],
    }


def write_generations(path: Path, rows: Iterable[Generation], evaluation: str) -> None:
    """Write one condition's generations, the whole file or none of it. `evaluation`: which they are a part of."""
    table = pd.DataFrame(list(rows), columns=list(Generation.__annotations__))
    write_table(path, pa.Table.from_pandas(table), evaluation)


def read_generations(path: Path, evaluation: str | None = None) -> pd.DataFrame:
    """One condition's generations, by the index of the example. Every byte of the file is checked.

    Raises:
        DamagedFile: as `read_records`.
    """
    found: pd.DataFrame = read_table(path, CURE, evaluation).to_pandas()
    return found.set_index("index", drop=False)
