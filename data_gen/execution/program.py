"""Programs, frames and traces."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

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
    "call": "the call that its row gives raised before the function ran: no such function, or other arguments than it takes",
    "observed": "without tracing it has another result: it sees the tracer (`locals()`, a weak reference, a `__repr__` that counts)",
    "mismatch": "its result is not the one that its source gives",
}
"""Why a program has no trace: the kinds of a ProgramError."""


class ProgramError(Exception):
    """A program that cannot be traced, or whose tracing was stopped. `kind`, one of OUTCOMES, is the recorded outcome.

    The message is one printable line whatever the program put into it.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(_one_line(message))
        self.kind = kind


def _one_line(text: str) -> str:
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[:_LONGEST_MESSAGE]}..."
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def can_be_name(name: str) -> bool:
    """Say if code can have a local of this name: an identifier, or one that the compiler makes, such as `.0`."""
    return name.isidentifier() or (name[:1] == "." and (name[1:].isidentifier() or name[1:].isdecimal()))


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


UNCHANGED = Value("..", "unchanged")
"""Stands for a value equal to the one last shown."""


@dataclass(slots=True)
class Frame:
    """One step: the event, the physical line about to run, and what is known at that moment.

    `line` is its number, counted from 1, and `source` its text with its newline. `locals` is the state *before* it runs and exists on
    CALL and LINE frames only; `value` is what a RETURN or an EXCEPTION frame carries.
    """

    event: Event
    line: int
    source: str
    locals: dict[str, Value] | None = None
    value: Value | None = None


class EntryPoint(NamedTuple):
    """The marked function: its name, and the line of its `def`, counted from 1."""

    name: str
    line: int


@dataclass(slots=True)
class Program:
    """Source text with one function marked `# << START_OF_TRACE`, which takes no arguments; tracing starts there."""

    code: str
    name: str = "<program>"
    first_line: int = 1
    """The number of its first line in the file that it stands in: what formats that write numbers count from."""
    calls: str = ""
    """The function that its marked function calls, where that was written by `from_call`."""

    @classmethod
    def from_call(cls, code: str, arguments: str, name: str = "<program>", function: str = "f") -> Program:
        """A program that calls `function(arguments)` from a marked `main`, laid out as code world models are prompted.

        Where the code has a `main` of its own, the marked function is `main_`.
        """
        main = "main"
        while _has_global(code, main):
            main += "_"
        return cls(f"{code}\ndef {main}():  {MARKER}\n    return {function}({arguments})\n", name, calls=function)

    def entry_point(self) -> EntryPoint:
        """The marked function.

        Raises:
            ProgramError: kind `syntax` if the source does not compile, `entry` if no single top-level function is marked, or
                the marked one needs arguments or is asynchronous.
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
        """The lines as CPython counts them, which ends a line at a lone carriage return too; `\\r\\n` keeps its first half."""
        return _LINE_END_RE.split(self.code) if "\r" in self.code else self.code.split("\n")

    def physical_lines(self) -> list[str]:
        """The source lines, each ending in a newline, with the marker removed: what an ACTION shows."""
        return [(_MARKER_RE.sub("", line) if MARKER in line else line) + "\n" for line in self.source_lines()]


def _has_global(code: str, name: str) -> bool:
    """Say if a module's own statements name this; False where it does not compile."""
    from symtable import symtable  # seldom needed, and every sandbox imports this file

    try:
        return name in code and name in symtable(code, "<code>", "exec").get_identifiers()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_marked(tree: ast.Module, number: int, lines: Sequence[str]) -> bool:
    """Say if the line ends in the marker as a comment, not as the text of a string."""
    line = lines[number - 1].rstrip()
    if not line.endswith(MARKER):
        return False
    place = (number, len(line.encode()) - len(MARKER))
    return not any(
        (node.lineno, node.col_offset) <= place < (node.end_lineno or 0, node.end_col_offset or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
    )


def _no_entry(tree: ast.Module, marked: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]) -> str:
    """Say why the marked functions are no entry point; empty if they are one."""
    if len(marked) != 1:
        found = "no function" if not marked else f"{len(marked)} functions"
        return f"{found} marked; write `def main():  {MARKER}` on exactly one top-level function"
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
    """Record of a program's run. `setup` holds commands run before the first frame (REPL form only)."""

    program: Program
    frames: list[Frame]
    setup: list[str] = field(default_factory=list)
    raised: bool = False
    """Whether an exception left the entry point. Its last frame is then a RETURN of None all the same, as CPython reports it."""
    unreadable: int = 0
    """How many values are shown in the form that `object` gives them, since their own repr raised."""
    end: Value | None = None
    """What the call of the entry point came to, seen from outside: the value that it or its decorators return, or the exception that
    leaves it, which no frame need show. Its type is then `raised`."""

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
