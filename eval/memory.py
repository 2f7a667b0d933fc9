"""Decoding with a memory of k frames (`data.memory`): what a row still sees, and a teacher-forced pass window by window.

A row forgets where a frame is closed: what it still sees is then read anew, at positions that begin anew, as in a row of training
(`data_gen.windows`). Nothing here knows what is fed, or how the next token is found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

from torch import Tensor

from remedy.data_gen.windows import Window, windows
from remedy.models.protocol import Reader
from remedy.models.tokenizer import Encoded


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

    def tokens(self) -> list[int]:
        """All that is seen, in order."""
        return [*self._context, *chain.from_iterable(self._frames)]


def read_in_windows(
    reader: Reader, examples: Sequence[Encoded], memory: int | None
) -> Iterator[tuple[int, Window, Tensor]]:
    """The true sequences in parallel passes, as many windows at once as there are examples: an example's number, one of its windows,
    and the logits (N, V) for the tokens that are predicted in it, up to its end: all but the very first token of an example."""
    found = [
        (number, window, example)
        for number, example in enumerate(examples)
        for window in windows(example.roles, example.frames, memory)
    ]
    for at in range(0, len(found), max(1, len(examples))):
        some = found[at : at + len(examples)]
        sequences = [[*e.ids[: w.context], *e.ids[w.begin : w.stop]] for _, w, e in some]
        for (number, window, _), logits in zip(some, reader.parallel(sequences)):
            yield number, window, logits[max(window.start + window.shift, 1) - 1 : -1]
