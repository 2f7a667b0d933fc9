"""What a model wrote, kept beside the records: text, token ids, and how sure it was of every frame.

A record leads to its generation by `condition` (the file's name) and `index` (the row).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import pandas as pd

from remedy.data_gen.files import replace_file
from remedy.data_gen.settings import UserError
from remedy.eval.decoding import Generated


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


def write_generations(path: Path, rows: Iterable[Generation]) -> None:
    """Write one condition's generations, the whole file or none of it."""
    table = pd.DataFrame(list(rows), columns=list(Generation.__annotations__))
    replace_file(path, lambda partial: table.to_parquet(partial, compression="zstd"))


def read_generations(path: Path) -> pd.DataFrame:
    """One condition's generations, by the index of the example.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        return pd.read_parquet(path).set_index("index", drop=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: no readable generations ({str(error).splitlines()[0]}); delete the records of this condition "
            "and evaluate again"
        ) from None
