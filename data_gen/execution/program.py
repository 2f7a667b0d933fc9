"""What a program, a frame and a trace are."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

MARKER = "# << START_OF_TRACE"
_MARKER_RE = re.compile(r"[ \t]*" + re.escape(MARKER))
_PLAIN_ENTRY_RE = re.compile(r"^def (\w+)\(\):[ \t]*" + re.escape(MARKER) + r"[ \t]*$", re.MULTILINE)
_ADDRESS_RE = re.compile(r" at 0x[0-9a-fA-F]+")


class ProgramError(Exception):
    """A program that cannot be traced, or whose tracing was stopped. `kind` is one word, used as the recorded outcome.

    Kinds: syntax, entry (no marked entry point), raised (while loading the module), repr, recursion, frames, output, time,
    memory, killed; in the sandbox, what a program may not do: process, thread, network, files, native; and mismatch, where its
    result is not the one that its source gives.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Event(Enum):
    """The events of `sys.settrace`, by the names the trace tokens use."""

    CALL = "call"
    LINE = "line"
    RETURN = "return"
    EXCEPTION = "exception"

    __hash__ = object.__hash__  # members are single objects; Enum's own hash is a slow call on a hot path


class Value(NamedTuple):
    """A runtime value as written down: its repr with addresses removed, and the name of its exact type."""

    text: str
    type: str

    @property
    def is_string(self) -> bool:
        return self.type == "str"


_new_value = tuple.__new__  # half the cost of calling the NamedTuple, on the tracer's hottest line


@dataclass(slots=True)
class Frame:
    """One step: the event, the physical line about to run (with its newline), and what is known at that moment.

    `locals` is the state *before* `source` runs and exists on CALL and LINE frames only; `value` is what a RETURN or an
    EXCEPTION frame carries.
    """

    event: Event
    source: str
    locals: dict[str, Value] | None = None
    value: Value | None = None


@dataclass(slots=True)
class Program:
    """Source text with one function marked `# << START_OF_TRACE`, which takes no arguments; tracing starts there."""

    code: str
    name: str = "<program>"

    @classmethod
    def from_call(cls, code: str, arguments: str, name: str = "<program>", function: str = "f") -> Program:
        """A program that calls `function(arguments)` from a marked `main`, laid out as code world models are prompted."""
        return cls(f"{code}\ndef main():  {MARKER}\n    return {function}({arguments})\n", name)

    def entry_point(self) -> str:
        """Name of the marked function.

        Raises:
            ProgramError: kind `syntax` if the source does not compile, `entry` if no single function is marked or the
                marked one needs arguments.
        """
        if self.code.count(MARKER) == 1 and (plain := _PLAIN_ENTRY_RE.search(self.code)):
            return plain[1]  # the usual layout needs no parse; a syntax error shows when the program is compiled
        try:
            tree = ast.parse(self.code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ProgramError("syntax", f"{self.name}: does not compile: {error}") from None
        lines = self.code.split("\n")
        marked = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and lines[node.lineno - 1].rstrip().endswith(MARKER)
        ]
        if len(marked) != 1:
            found = "no function" if not marked else f"{len(marked)} functions"
            raise ProgramError(
                "entry", f"{self.name}: {found} marked; write `def main():  {MARKER}` on exactly one top-level function"
            )
        arguments = marked[0].args
        required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
        required += sum(default is None for default in arguments.kw_defaults)
        if required:
            raise ProgramError("entry", f"{self.name}: the marked function {marked[0].name} must need no arguments")
        return marked[0].name

    def physical_lines(self) -> list[str]:
        """The source lines, each ending in a newline, with the marker removed: what an ACTION shows."""
        return [(_MARKER_RE.sub("", line) if MARKER in line else line) + "\n" for line in self.code.split("\n")]


@dataclass(slots=True)
class Trace:
    """What happened when a program ran. `setup` holds commands run before the first frame (REPL form only)."""

    program: Program
    frames: list[Frame]
    setup: list[str] = field(default_factory=list)
    raised: bool = False
    """Whether an exception left the entry point. Its last frame is then a RETURN of None all the same, as CPython reports it."""

    @property
    def result(self) -> Value | None:
        """The entry point's returned value; None when it raised or the form has no return."""
        last = self.frames[-1] if self.frames else None
        return last.value if last is not None and last.event is Event.RETURN and not self.raised else None

    @property
    def exception_frame(self) -> int | None:
        """The number of the frame that carries the exception that left the entry point; None where none did."""
        level = 0  # of calls, read from the end: a `finally` may call what raises and handles exceptions of its own
        for number in reversed(range(len(self.frames))) if self.raised else ():
            event = self.frames[number].event
            if event is Event.EXCEPTION and level == 1:
                return number
            level += (event is Event.RETURN) - (event is Event.CALL)
        return None


def describe(value: Any) -> Value:
    """Write a runtime value down. Raises whatever the value's `repr` raises."""
    text = repr(value)
    if " at 0x" in text:
        text = _ADDRESS_RE.sub("", text)
    return _new_value(Value, (text, type(value).__name__))
