"""Context that a row still sees, with a memory (`data.memory`).

A row forgets where a frame is closed: what it still sees is then read anew, at positions that begin anew, as in a row of training
(`data_gen.window_examples`). Nothing here knows what is fed, or how the next token is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from remedy.data_gen.context_window import FrameEvents, InSight, Memory
from remedy.data_gen.roles import Special


class Sight:
    """Context of one row: its program, the closed frames that its memory holds (None: all), and the one that is open. Which calls
    are open is told by the frames that it has read, by their special tokens: one that has not those of any event opens and ends
    none. `size`: the number of these tokens."""

    def __init__(self, context: Sequence[int], memory: Memory | None, special_ids: Mapping[Special, int]) -> None:
        self._context = context
        self._in_sight = InSight(memory) if memory is not None else None
        self._events = FrameEvents(special_ids) if memory is not None and memory.open_calls else None
        self._closed: dict[int, list[int]] = {}
        self._number = 0
        self._open: list[int] = []
        self.size = len(context)

    @property
    def forgets(self) -> bool:
        """Say if it ever does."""
        return self._in_sight is not None

    @property
    def lasting(self) -> int:
        """Count the tokens at the beginning that are there again whenever a frame was forgotten; none where that never is."""
        return len(self._context) if self.forgets else 0

    def take(self, token: int, closes: bool) -> bool:
        """Take in a token. `closes`: it is its frame's last. Whether a frame was forgotten, so that the rest has to be read anew."""
        self._open.append(token)
        self.size += 1
        if not closes:
            return False
        frame, self._open = self._open, []
        self._closed[self._number] = frame
        self._number += 1
        gone = self._in_sight.close(self._events.event_of(frame) if self._events else None) if self._in_sight else []
        self.size -= sum(len(self._closed.pop(number)) for number in gone)
        return bool(gone)

    def reach(self, tokens: Iterable[tuple[int, bool]]) -> int | None:
        """Count the tokens, of those given to `take`, that come before the one with which a frame is forgotten; None: none is."""
        if self._in_sight is None:
            return None
        in_sight, frame = self._in_sight.copy(), list(self._open)
        for count, (token, closes) in enumerate(tokens):
            frame.append(token)
            if closes:
                if in_sight.close(self._events.event_of(frame) if self._events else None):
                    return count
                frame = []
        return None

    def tokens(self) -> list[int]:
        """All that is seen, in order."""
        return [*self._context, *chain.from_iterable(self._closed.values()), *self._open]
