"""What a model with a memory of k frames sees of an example: for each frame, the context, the k frames before it, and the frame.

Context erasure (arXiv 2604.25166): where a state says all that was, the past is needless, and what is read for a frame does not grow
with the trace. Frames are those that are written, whatever their numbers in the trace. The first window holds k + 1 of them, before
which nothing is forgotten; every other one adds a frame. So each token is predicted in one window, from what decoding shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from remedy.data_gen import rng
from remedy.data_gen.roles import Role
from remedy.data_gen.tokens import Tokens


class Window(NamedTuple):
    """A window on an example: its first `context` tokens, then those from `begin` to `stop` (exclusive). Those from `start` on are
    predicted in it; the others are given. Positions are the example's."""

    context: int
    begin: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many tokens are seen."""
        return self.context + self.stop - self.begin

    @property
    def shift(self) -> int:
        """The place in the window of a token that is predicted, less its position in the example."""
        return self.context - self.begin


def windows(roles: Sequence[int], frames: Sequence[int], memory: int | None) -> list[Window]:
    """The windows of an example, given by the role and frame of each token, in order. `memory`: k; None: all is seen at once."""
    total = len(roles)
    context = next((at for at, role in enumerate(roles) if role != Role.CONTEXT), total)
    if memory is None:
        return [Window(context, context, 0, total)]
    borders = [at for at in range(context + 1, total) if frames[at] != frames[at - 1]]
    starts = [context, *borders]  # of each frame
    ends = [*borders, total]
    first = Window(context, context, 0, ends[min(memory, len(ends) - 1)])
    rest = [Window(context, starts[at - memory], starts[at], ends[at]) for at in range(memory + 1, len(starts))]
    return [first, *rest]


def longest_seen(roles: Sequence[int], frames: Sequence[int], memory: int | None) -> int:
    """The most tokens of an example that are seen at once."""
    return len(roles) if memory is None else max(window.size for window in windows(roles, frames, memory))


def seen(tokens: Tokens, window: Window) -> Tokens:
    """The tokens in a window. Frames that are remembered are given, so their tokens are context there, in frames of their own."""
    context, begin, start, stop = window
    cut = Tokens(*(np.concatenate([column[:context], column[begin:stop]]) for column in tokens))
    cut.roles[context : max(context, start + window.shift)] = Role.CONTEXT
    return cut


def drawn_window(tokens: Tokens, memory: int | None, learnt: npt.NDArray[np.int8], bits: int) -> Tokens:
    """What is seen in one window of an example, which 64 random bits choose: all alike that predict a token whose role is learnt, so
    that all these tokens are equally likely."""
    if memory is None:
        return tokens
    found = windows(tokens.roles.tolist(), tokens.frames.tolist(), memory)
    counts = np.concatenate([[0], np.cumsum(np.isin(tokens.roles, learnt))])
    useful = [window for window in found if counts[window.stop] > counts[window.start]] or found[:1]
    return seen(tokens, useful[rng.below(bits, len(useful))])
