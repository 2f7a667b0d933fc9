"""What the sandbox and its server say to each other: length-prefixed JSON.

A module of its own because the server imports it: every module there makes every fork slower.
"""

from __future__ import annotations

import json
import struct
from typing import IO, Any

from remedy.data_gen.execution.program import Event, Frame, Value


def send(pipe: IO[bytes], data: bytes) -> None:
    """Write one length-prefixed message, which is JSON."""
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> dict[str, Any] | None:
    """Read one message; None at the end of the stream."""
    header = pipe.read(8)
    if len(header) < 8:
        return None
    (size,) = struct.unpack("<Q", header)
    data = pipe.read(size)
    if len(data) < size:
        return None
    message: dict[str, Any] = json.loads(data)
    return message


def frame_fields(frame: Frame) -> list[Any]:
    """A frame as JSON; `frame_from` is its inverse."""
    shown = None if frame.locals is None else [[name, *value] for name, value in frame.locals.items()]
    return [frame.event.value, frame.source, shown, frame.value]


def frame_from(fields: list[Any]) -> Frame:
    """The frame that `frame_fields` wrote. Raises ValueError, TypeError or KeyError for anything else."""
    event, source, shown, value = fields
    return Frame(
        Event(event),
        source,
        None if shown is None else {name: Value(text, kind) for name, text, kind in shown},
        None if value is None else Value(*value),
    )
