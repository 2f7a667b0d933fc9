"""Messages between the sandbox and its server: length-prefixed JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import IO, Any

from remedy.data_gen.execution.program import Event, Frame, Trace


def send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read one message; None at the end.

    Raises:
        ValueError, RecursionError: it is no JSON, or nested too deeply.
    """
    data = receive_bytes(pipe)
    return None if data is None else json.loads(data)


def receive_bytes(pipe: IO[bytes]) -> bytes | None:
    header = pipe.read(8)
    if len(header) < 8:
        return None
    (size,) = struct.unpack("<Q", header)
    data = pipe.read(size)
    if len(data) < size:
        return None
    return data


def problem_writer() -> Callable[[str, str], bytes]:
    """Make a writer of a ProgramError's kind and message."""
    encode = _encoder()

    def write(kind: str, message: str) -> bytes:
        return "".join(encode({"error": kind, "message": message})).encode()

    return write


def reply_writer() -> Callable[[Trace], bytes]:
    """Make a writer of traces, the inverse of `replies.read`.

    Make it before a program runs, which could replace its parts.
    """
    encode = _encoder()
    events = {event: event.value for event in Event}

    def fields(frame: Frame) -> list[Any]:
        shown = None if frame.locals is None else [[name, *value] for name, value in frame.locals.items()]
        return [events[frame.event], frame.line, shown, frame.value]

    def write(trace: Trace) -> bytes:
        frames = [fields(frame) for frame in trace.frames]
        reply = {"frames": frames, "raised": trace.raised, "unreadable": trace.unreadable, "end": trace.end}
        return "".join(encode(reply)).encode()

    return write


def _encoder() -> Callable[[Any], Iterable[str]]:
    """Make `json.dumps` in pieces, in C code that looks up no name."""
    if c_make_encoder is None:  # an interpreter that is not CPython
        return json.JSONEncoder().iterencode
    encoder = c_make_encoder(None, None, encode_basestring_ascii, None, ": ", ", ", False, False, True)

    def encode(reply: Any) -> Iterable[str]:
        pieces: Iterable[str] = encoder(reply, 0)
        return pieces

    return encode
