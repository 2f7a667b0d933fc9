"""Memory of a trace (`data.memory`): the frames seen when the next one is written.

These are the last k frames. With `open_calls` also, for every call that has not returned, its call frame, its last line, and the
values and exceptions that came back to that line. Special tokens show events, so true and generated frames are treated alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from pydantic import Field, model_serializer, model_validator

from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Special
from remedy.data_gen.traces.cwm import EVENT_TOKENS
from remedy.settings import Settings


class Memory(Settings):
    """Frames that a model still sees, after the context.

    `4` is short for `{frames: 4}`.
    """

    frames: int = Field(ge=1, le=1_000_000)
    """Number of last frames."""
    open_calls: bool = False
    """Also keep, for every call that has not returned, its call frame, its last line, and the values and exceptions returned to that
    line."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, bool):  # which would be read as one frame, or none
            raise ValueError("must be a number of frames, or {frames: 4, open_calls: true}")
        return value if value is None or isinstance(value, Mapping | Memory) else {"frames": value}

    @model_serializer
    def _as_short(self) -> int | dict[str, int | bool]:
        return {"frames": self.frames, "open_calls": True} if self.open_calls else self.frames

    def __str__(self) -> str:
        return f"{self.frames} with open calls" if self.open_calls else str(self.frames)


class FrameEvents:
    """Events of frames, recognised by their special tokens."""

    def __init__(self, special_ids: Mapping[Special, int]) -> None:
        self._specials = frozenset(special_ids.values())
        self._forms: dict[tuple[int, ...], Event] = {}
        for event, token in EVENT_TOKENS.items():
            value = [Special.ARG_SEP] if event in (Event.RETURN, Event.EXCEPTION) else []
            form = (token, Special.ACTION_SEP, *value, Special.FRAME_SEP)
            self._forms[tuple(special_ids[special] for special in form)] = event

    def event_of(self, frame: Sequence[int]) -> Event | None:
        """Return the event of a whole frame; None if its special tokens match none."""
        event = self._forms.get(tuple(token for token in frame if token in self._specials))
        return event if event is not None and frame[0] in self._specials else None


class _OpenCalls:
    """Stack of open calls: for each, its call frame and those of its current line.

    The entry's call is the first.
    """

    def __init__(self, stack: Sequence[Sequence[int]] = ((-1,),)) -> None:
        self._stack = [list(call) for call in stack]
        self.frames = {number for call in self._stack for number in call}

    def copy(self) -> _OpenCalls:
        return _OpenCalls(self._stack)

    def take(self, number: int, event: Event | None) -> list[int]:
        """Add a frame and return the numbers of frames that no open call needs."""
        unneeded: list[int] = []
        if event is Event.CALL:
            self._stack.append([])
        elif event is Event.LINE:
            unneeded, self._stack[-1] = self._stack[-1][1:], self._stack[-1][:1]
        elif event is Event.RETURN and len(self._stack) > 1:
            unneeded = self._stack.pop()
        elif event is not Event.EXCEPTION:
            return []
        self._stack[-1].append(number)
        self.frames.add(number)
        self.frames.difference_update(unneeded)
        return unneeded


class RememberedFrames:
    """Numbers of the remembered frames, in order."""

    def __init__(self, memory: Memory, special_ids: Mapping[Special, int]) -> None:
        self._memory = memory
        self._events = FrameEvents(special_ids) if memory.open_calls else None
        self._closed = 0
        self._numbers: dict[int, None] = {}
        self._calls = _OpenCalls()

    @property
    def numbers(self) -> list[int]:
        return list(self._numbers)

    def copy(self) -> RememberedFrames:
        other = copy(self)
        other._numbers, other._calls = dict(self._numbers), self._calls.copy()
        return other

    def close(self, frame: Sequence[int]) -> list[int]:
        """Add the next frame, by its tokens, and return the numbers of forgotten frames."""
        self._numbers[self._closed] = None
        unneeded = self._calls.take(self._closed, self._events.event_of(frame) if self._events else None)
        self._closed += 1
        oldest = self._closed - self._memory.frames
        needed_frames = self._calls.frames
        forgotten = [
            number
            for number in {*unneeded, oldest - 1}
            if number < oldest and number in self._numbers and number not in needed_frames
        ]
        for number in forgotten:
            del self._numbers[number]
        return forgotten
