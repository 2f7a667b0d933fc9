"""Windows of an example for a model with a memory: for each frame, the context, the frames that it remembers, and the frame.

Context erasure (arXiv 2604.25166): where a state says all that was, the past is needless, and what is read for a frame does not grow
with the trace. Frames are those that are written, whatever their numbers in the trace. A window goes on until a frame is forgotten:
without open calls the first one holds k + 1 frames, and every other adds a frame. So each token is predicted in one window, from what
decoding shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from remedy import rng
from remedy.data_gen.context_window import FrameEvents, InSight, Memory
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.tokens import Tokens

Ints = Sequence[int]
Ids = Mapping[Special, int]


class Window(NamedTuple):
    """A window on an example. Its tokens from `start` to `stop` (exclusive) are predicted, and read after those of `given`: pieces of
    what comes before, as (start, stop), in order."""

    given: tuple[tuple[int, int], ...]
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Count the tokens that are seen."""
        return self.stop + self.shift

    @property
    def shift(self) -> int:
        """The place in the window of a token that is predicted, less its place in the example."""
        return sum(stop - start for start, stop in self.given) - self.start

    @property
    def places(self) -> list[int]:
        """The places in the example of the tokens that are seen, in order."""
        return [*chain.from_iterable(range(start, stop) for start, stop in (*self.given, (self.start, self.stop)))]


def windows(ids: Ints, roles: Ints, frames: Ints, memory: Memory | None, special_ids: Ids) -> list[Window]:
    """The windows of an example, given by the id, role and frame of each token, in order. `memory`: None: all is seen at once;
    `special_ids`: of the tokenizer, by which open calls are told."""
    total = len(roles)
    if memory is None:
        return [Window((), 0, total)]
    context = next((at for at, role in enumerate(roles) if role != Role.CONTEXT), total)
    borders = [at for at in range(context + 1, total) if frames[at] != frames[at - 1]]
    pieces = [*zip([context, *borders], [*borders, total])]  # of each frame
    in_sight, events = InSight(memory), FrameEvents(special_ids) if memory.open_calls else None
    found: list[Window] = []
    given: tuple[tuple[int, int], ...] = ()
    begin = 0
    for start, stop in pieces[:-1]:
        if in_sight.close(events.of(ids[start:stop]) if events else None):
            found.append(Window(given, begin, stop))
            given, begin = ((0, context), *(pieces[number] for number in in_sight.numbers)), stop
    return [*found, Window(given, begin, total)]


def longest_seen(ids: Ints, roles: Ints, frames: Ints, memory: Memory | None, special_ids: Ids) -> int:
    """The most tokens of an example that are seen at once; arguments as of `windows`."""
    return max(window.size for window in windows(ids, roles, frames, memory, special_ids))


def windows_of(tokens: Tokens, memory: Memory | None, special_ids: Ids) -> list[Window]:
    """The windows of an example that is given as arrays."""
    return windows(tokens.ids.tolist(), tokens.roles.tolist(), tokens.frames.tolist(), memory, special_ids)


def seen(tokens: Tokens, window: Window) -> Tokens:
    """The tokens in a window. Frames that are remembered are given, so their tokens are context there, in frames of their own."""
    places = window.places
    positions = np.arange(len(places))
    cut = Tokens(tokens.ids[places], tokens.roles[places], tokens.frames[places], tokens.strings[places], positions)
    cut.roles[: window.start + window.shift] = Role.CONTEXT
    return cut


def drawn_window(
    tokens: Tokens, memory: Memory | None, learnt: npt.NDArray[np.int8], bits: int, special_ids: Ids
) -> Tokens:
    """Draw one window of an example by 64 random bits: all windows that predict a token whose role is learnt, so that all these
    tokens are equally likely."""
    if memory is None:
        return tokens
    found = windows_of(tokens, memory, special_ids)
    counts = np.concatenate([[0], np.cumsum(np.isin(tokens.roles, learnt))])
    useful = [window for window in found if counts[window.stop] > counts[window.start]] or found[:1]
    return seen(tokens, useful[rng.below(bits, len(useful))])
