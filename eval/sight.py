"""What a row still sees, with a memory of k frames (`data.memory`).

A row forgets where a frame is closed: what it still sees is then read anew, at positions that begin anew, as in a row of training
(`data_gen.windows`). Nothing here knows what is fed, or how the next token is found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain


class Sight:
    """What one row still sees: its context, the last `memory` frames that were closed (None: all), and the one that is open."""

    def __init__(self, context: Sequence[int], memory: int | None) -> None:
        self._context = context
        self._frames: deque[list[int]] = deque([[]])
        self._most = None if memory is None else memory + 1

    def take(self, token: int, closes: bool) -> bool:
        """Take in a token. `closes`: it is its frame's last. Whether a frame was forgotten, so that the rest has to be read anew."""
        self._frames[-1].append(token)
        if not closes:
            return False
        self._frames.append([])
        if self._most is None or len(self._frames) <= self._most:
            return False
        self._frames.popleft()
        return True

    @property
    def closes(self) -> int | None:
        """How many frames can be closed before one is forgotten; None: any number."""
        return None if self._most is None else self._most - len(self._frames)

    def tokens(self) -> list[int]:
        """All that is seen, in order."""
        return [*self._context, *chain.from_iterable(self._frames)]
