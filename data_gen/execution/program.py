"""Programs, frames and traces."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

MARKER = "# << START_OF_TRACE"
_MARKER_RE = re.compile(r"(?<![ \t])[ \t]*" + re.escape(MARKER))  # looks at blanks once: linear
_PLAIN_ENTRY_RE = re.compile(r"^def (\w+)\(\):[ \t]*" + re.escape(MARKER) + r"[ \t]*$", re.MULTILINE)
_LINE_END_RE = re.compile(r"\n|\r(?!\n)")
_LONGEST_MESSAGE = 400

OUTCOMES: dict[str, str] = {
    "syntax": "it does not compile",
    "entry": "no single function that can be an entry point is marked, or running it does not run that function",
    "raised": "it raised while it was loaded",
    "repr": "the repr of a value, or the names of a class, could not be read (`tracer.unreadable`)",
    "recursion": "it recursed too deeply to be traced",
    "frames": "its trace has too many frames",
    "output": "its trace has too many characters of values",
    "time": "it ran too long",
    "memory": "it needed too much memory",
    "killed": "its process ended, or a signal handler of its own raised, before its trace was complete",
    "forged": "what came back is not what the tracer records: the program meddled with the tracer, its own code or the sandbox's pipe",
    "process": "it tried to start or signal a process, or to lift a limit",
    "thread": "it tried to start a thread",
    "network": "it tried to use the network",
    "files": "it tried to change a file outside its temporary folder",
    "native": "it tried to call native code",
    "resumed": "it threw an exception into a generator that delegates (`yield from`) and went on: Python reports no call of it then",
    "unstable": "another run of it had another trace (an `id`, unseeded random numbers), or it reads the clock",
    "call": "the call that its row gives ran nothing of the function: no such function, other arguments than it takes, or a generator",
    "observed": "without tracing it has another result: it sees the tracer (`locals()`, a weak reference, a `__repr__` that counts)",
    "mismatch": "its result is not the one that its source gives",
}
"""Kinds of a ProgramError, with why a program has no trace."""


class ProgramError(Exception):
    """Reason why a program has no trace; `kind` is one of OUTCOMES."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(_one_line(message))
        self.kind = kind


def _one_line(text: str) -> str:
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[:_LONGEST_MESSAGE]}..."
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def can_be_name(name: str) -> bool:
    """Say if a local can have this name."""
    return name.isidentifier() or (name[:1] == "." and (name[1:].isidentifier() or name[1:].isdecimal()))


class Event(Enum):
    """Event of `sys.settrace`."""

    CALL = "call"
    LINE = "line"
    RETURN = "return"
    EXCEPTION = "exception"

    __hash__ = object.__hash__  # members are single objects; Enum's own hash is a slow call on a hot path


class Value(NamedTuple):
    """Value's repr without addresses, and the name of its exact type."""

    text: str
    type: str

    @property
    def is_string(self) -> bool:
        return self.type == "str"


UNCHANGED = Value("..", "unchanged")
"""A value equal to the one last shown."""


@dataclass(slots=True)
class Frame:
    """Event of a run, and the physical line about to run.

    `line`: counted from 1. `source`: with its newline. `locals`: the state *before* the line runs, in CALL and LINE frames.
    `value`: in RETURN and EXCEPTION frames.
    """

    event: Event
    line: int
    source: str
    locals: dict[str, Value] | None = None
    value: Value | None = None


class EntryPoint(NamedTuple):
    """Marked function's name, and its `def`'s line, counted from 1."""

    name: str
    line: int


@dataclass(slots=True)
class Program:
    """Source text with one function marked `# << START_OF_TRACE`, where tracing starts."""

    code: str
    name: str = "<program>"
    first_line: int = 1
    """Number of its first line, from which formats with line numbers count."""
    calls: str = ""
    """Name of the function that `from_call`'s marked function calls."""

    @classmethod
    def from_call(cls, code: str, arguments: str, name: str = "<program>", function: str = "f") -> Program:
        """Make a program whose marked function returns `function(arguments)`.

        That function is `main`, or `main_` if the code has a `main`.
        """
        main = "main"
        while _has_global(code, main):
            main += "_"
        return cls(f"{code}\ndef {main}():  {MARKER}\n    return {function}({arguments})\n", name, calls=function)

    def entry_point(self) -> EntryPoint:
        """Find the marked function.

        Raises:
            ProgramError: `syntax` if the source does not compile; `entry` if not exactly one top-level `def` without
                required arguments is marked.
        """
        code = self.code
        # The usual layout needs no walk, and mostly no parse; a syntax error shows when the program is compiled. Inside a string that
        # goes over several lines the marker marks nothing.
        usual: EntryPoint | None = None
        if code.count(MARKER) == 1 and "\r" not in code and (plain := _PLAIN_ENTRY_RE.search(code)):
            before = code[: plain.start()]
            usual = EntryPoint(plain[1], before.count("\n") + 1)
            if '"""' not in before and "'''" not in before:
                return usual
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ProgramError("syntax", f"{self.name}: does not compile: {error}") from None
        if usual and any(isinstance(node, ast.FunctionDef) and node.lineno == usual.line for node in tree.body):
            return usual
        lines = self.source_lines()
        marked = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_marked(tree, node.lineno, lines)
        ]
        if problem := _no_entry(tree, marked):
            raise ProgramError("entry", f"{self.name}: {problem}")
        return EntryPoint(marked[0].name, marked[0].lineno)

    def source_lines(self) -> list[str]:
        """Split the code into lines as CPython does.

        A lone `\\r` ends a line; of `\\r\\n` the `\\r` stays.
        """
        return _LINE_END_RE.split(self.code) if "\r" in self.code else self.code.split("\n")

    def physical_lines(self) -> list[str]:
        """List the lines as an ACTION shows them: with newline, without marker."""
        return [(_MARKER_RE.sub("", line) if MARKER in line else line) + "\n" for line in self.source_lines()]


def _has_global(code: str, name: str) -> bool:
    from symtable import symtable  # seldom needed, and every sandbox imports this file

    try:
        return name in code and name in symtable(code, "<code>", "exec").get_identifiers()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_marked(tree: ast.Module, number: int, lines: Sequence[str]) -> bool:
    line = lines[number - 1].rstrip()
    if not line.endswith(MARKER):
        return False
    marker_start = (number, len(line.encode()) - len(MARKER))
    return not any(
        (node.lineno, node.col_offset) <= marker_start < (node.end_lineno or 0, node.end_col_offset or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
    )


def _no_entry(tree: ast.Module, marked: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]) -> str:
    if len(marked) != 1:
        count = "no function" if not marked else f"{len(marked)} functions"
        return f"{count} marked; write `def main():  {MARKER}` on exactly one top-level function"
    [function] = marked
    if isinstance(function, ast.AsyncFunctionDef):
        return (
            f"the marked function {function.name} is `async def`, which nothing awaits: "
            "mark a `def` that runs it, as with `asyncio.run`"
        )
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    inside = [n.name for n in ast.walk(tree) if isinstance(n, scopes) and n is not function and function in ast.walk(n)]
    if inside:
        return f"the marked function {function.name} is inside {inside[0]}: mark a top-level function"
    arguments = function.args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    required += sum(default is None for default in arguments.kw_defaults)
    return f"the marked function {function.name} must need no arguments" if required else ""


@dataclass(slots=True)
class Trace:
    """Record of a program's run.

    `setup`: a session's commands before the first frame.
    """

    program: Program
    frames: list[Frame]
    setup: list[str] = field(default_factory=list)
    raised: bool = False
    """Whether an exception left the entry point; the last frame is then a RETURN of None, as CPython reports."""
    unreadable: int = 0
    """Number of values written as `object` would, since their own repr raised."""
    end: Value | None = None
    """Value that the entry point, or its decorators, returned; or the exception that left it, of type `raised`."""

    @property
    def result(self) -> Value | None:
        """Return the entry point's returned value; None if it raised, or in a session."""
        last = self.frames[-1] if self.frames else None
        return last.value if last is not None and last.event is Event.RETURN and not self.raised else None

    @property
    def exception_frame(self) -> int | None:
        """Return the number of the frame whose exception left the entry point."""
        level = 0  # of calls, read from the end: a `finally` may call what raises and handles exceptions of its own
        for number in reversed(range(len(self.frames))) if self.raised else ():
            event = self.frames[number].event
            if event is Event.EXCEPTION and level == 1:
                return number
            level += (event is Event.RETURN) - (event is Event.CALL)
        return None


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """Limits on frames and characters of values, and the values that may show."""

    frames: int = 100_000
    output: int = 16_000_000
    unreadable: bool = True
    """Whether a value whose repr raises may be shown."""
    attributes: bool = False
    """Whether objects without their own repr show attributes."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> TraceLimits:
        """Read the limits from the settings of a `TracerConfig`."""
        return cls(
            settings["max_frames"],
            settings["max_value_characters"],
            settings["unreadable"] == "placeholder",
            settings["objects"] == "attributes",
        )
