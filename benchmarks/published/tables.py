"""Tables and numbers as Markdown has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Interval = Sequence[float]


class Table(NamedTuple):
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]


def markdown(table: Table) -> str:
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    body = "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return f"## {table.title}\n\n{body}\n"


def per_cent(found: Interval, digits: int = 1) -> str:
    """An estimate with the ends of its interval, in per cent."""
    centre, low, high = (f"{100 * one:.{digits}f}" for one in found[:3])
    return f"{centre} % ({low} to {high})"


def times(found: Interval, factor: float, digits: int = 2) -> str:
    """An estimate with the ends of its interval, multiplied."""
    centre, low, high = (f"{factor * one:.{digits}f}" for one in found[:3])
    return f"{centre} ({low} to {high})"
