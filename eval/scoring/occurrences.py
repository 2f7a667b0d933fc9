"""Was a wrong next line taken from another place where the line before it stands?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T", str, int)


def followed_another(lines: Sequence[T], place: int, written: T) -> bool:
    """Say if `written`, in place of `lines[place]`, follows another occurrence of the line before it.

    `lines`: of the true trace, in the order in which they ran. The first has none before it.
    """
    if not 0 < place < len(lines) or written == lines[place]:
        return False
    return any(before == lines[place - 1] and after == written for before, after in pairwise(lines))
