"""A section of the report: a title, a table or a figure, and a note."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

Draw = Callable[[pd.DataFrame], Figure | None]
"""Draws records, or returns None where they do not hold what the figure shows."""


class Section(NamedTuple):
    """`rows`: a table whose first line is its head. `figure`: drawn from `data`, or from all records where that is None."""

    title: str
    rows: list[list[str]] | None = None
    figure: Draw | None = None
    data: pd.DataFrame | None = None
    note: str = ""
