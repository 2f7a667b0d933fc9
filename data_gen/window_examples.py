"""Windows of an example for a model with a memory.

A window is the context, remembered frames, and the frames to predict (context erasure, arXiv 2604.25166). It ends where a
frame is forgotten, so that each token is predicted once, from what decoding shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from remedy import rng
from remedy.data_gen.memory import Memory, RememberedFrames
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.tokens import Tokens

Ints = Sequence[int]
Ids = Mapping[Special, int]


class Window(NamedTuple):
    """Tokens `start` to `stop` of an example, predicted after `given` pieces of it."""

    given: tuple[tuple[int, int], ...]
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop + self.shift

    @property
    def shift(self) -> int:
        """Return a predicted token's position in the window minus that in the example."""
        return sum(stop - start for start, stop in self.given) - self.start

    @property
    def positions(self) -> list[int]:
        """List the positions in the example of the window's tokens."""
        return [*chain.from_iterable(range(start, stop) for start, stop in (*self.given, (self.start, self.stop)))]


def context_size(roles: Ints) -> int:
    """Count the tokens of the context, which come first."""
    return next((position for position, role in enumerate(roles) if role != Role.CONTEXT), len(roles))


def windows(ids: Ints, roles: Ints, frames: Ints, memory: Memory | None, special_ids: Ids) -> list[Window]:
    """Cut an example into windows by each token's id, role and frame."""
    total = len(roles)
    if memory is None:
        return [Window((), 0, total)]
    context = context_size(roles)
    frame_starts = [position for position in range(context + 1, total) if frames[position] != frames[position - 1]]
    frame_pieces = [*zip([context, *frame_starts], [*frame_starts, total])]
    remembered = RememberedFrames(memory, special_ids)
    cut: list[Window] = []
    given: tuple[tuple[int, int], ...] = ()
    begin = 0
    for start, stop in frame_pieces[:-1]:
        if remembered.close(ids[start:stop]):
            cut.append(Window(given, begin, stop))
            given, begin = ((0, context), *(frame_pieces[number] for number in remembered.numbers)), stop
    return [*cut, Window(given, begin, total)]


def longest_seen(ids: Ints, roles: Ints, frames: Ints, memory: Memory | None, special_ids: Ids) -> int:
    """Return the size of an example's largest window."""
    return max(window.size for window in windows(ids, roles, frames, memory, special_ids))


def windows_of(tokens: Tokens, memory: Memory | None, special_ids: Ids) -> list[Window]:
    return windows(tokens.ids.tolist(), tokens.roles.tolist(), tokens.frames.tolist(), memory, special_ids)


def window_tokens(tokens: Tokens, window: Window) -> Tokens:
    """Cut the tokens of a window, in which remembered frames are context."""
    positions_seen = window.positions
    positions = np.arange(len(positions_seen))
    tokens_in_window = Tokens(
        tokens.ids[positions_seen],
        tokens.roles[positions_seen],
        tokens.frames[positions_seen],
        tokens.strings[positions_seen],
        positions,
    )
    tokens_in_window.roles[: window.start + window.shift] = Role.CONTEXT
    return tokens_in_window


def drawn_window(
    tokens: Tokens, memory: Memory | None, learnt: npt.NDArray[np.int8], bits: int, special_ids: Ids
) -> Tokens:
    """Draw a window by 64 random bits, uniformly among those with `learnt` roles."""
    if memory is None:
        return tokens
    cut_windows = windows_of(tokens, memory, special_ids)
    counts = np.concatenate([[0], np.cumsum(np.isin(tokens.roles, learnt))])
    learnt_windows = [window for window in cut_windows if counts[window.stop] > counts[window.start]] or cut_windows[:1]
    return window_tokens(tokens, learnt_windows[rng.below(bits, len(learnt_windows))])
