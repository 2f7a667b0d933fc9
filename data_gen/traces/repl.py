"""The `repl` format: `>>> COMMAND` lines, and queries `>>> print('a', a)` answered by `a 2`.

A frame is the queries of its state, its command, and its value's line. The newline that ends a command or an answer is
STRUCTURE, which tells a decoder that it is complete. Values are escaped as in JSON, to stay on one line. A program's own
line is read as a query if it looks like one and the next line answers it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from remedy.data_gen.execution.program import Trace
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.frames import Format, Rendered, WrittenFrame, without_empty_states
from remedy.data_gen.traces.parse import Malformed, Reader, ReadFrame, json_string
from remedy.data_gen.traces.spans import Spans

PROMPT = ">>> "
_QUERY = re.compile(r">>> print\('([^'\\\s]+)', \1\)")
_LITERAL_TEXT = re.compile(r'[^"\\\x00-\x1f]*')
"""Text that JSON's escaping leaves as it is, or may leave."""


class Repl(Format):
    session = True
    hides_program = True

    def write(
        self, trace: Trace, frames: Sequence[WrittenFrame], *, context: bool, encoding: str, answer_only: bool
    ) -> Rendered:
        spans = Spans()
        spans.special(Special.BEGIN_OF_TEXT, -1, Role.CONTEXT)
        if trace.setup:
            spans.text(Role.CONTEXT, "".join(f">>> {line}\n" for line in trace.setup), -1)
            if context:
                spans.text(Role.CONTEXT, "".join(f">>> {frame.source}" for frame in trace.frames if frame.source), -1)
        elif context:
            spans.source(Role.CONTEXT, trace.program.code, -1)
        spans.special(Special.FRAME_SEP, -1, Role.CONTEXT)
        for number, _, source, state, value in frames:
            for name, shown in (state or {}).items():
                spans.text(Role.QUERY, f">>> print({name!r}, {name})", number)
                spans.text(Role.STRUCTURE, "\n", number)
                spans.text(Role.STATE, f"{name} ", number)
                spans.value(Role.STATE, shown, encoding, number)
                spans.text(Role.STRUCTURE, "\n", number)
            if source:
                spans.source(Role.ACTION, f">>> {source}"[:-1], number)
                spans.text(Role.STRUCTURE, "\n", number)
            if value is not None:
                spans.value(Role.VALUE, value, encoding, number)
                spans.text(Role.STRUCTURE, "\n", number)
        spans.special(Special.END_OF_TEXT, len(trace.frames))
        return Rendered(spans, without_empty_states(frames))

    def reader(self, answer_only: bool = False) -> Reader:
        return ReplReader()


class ReplReader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self._line: list[str] = []
        """The line that is being written, in pieces."""
        self._begun = 0
        """The first piece of that line."""
        self._query: str | None = None
        """A line that is a query, if the next one answers it."""
        self._state: dict[str, str] | None = None
        """The answers since the last command."""
        self._command: str | None = None
        """The last command, whose value may follow."""

    def _text(self, text: str) -> None:
        *ends, rest = text.split("\n")
        if self._command is not None:  # is this its value, or the next frame?
            line_start = "".join([*self._line[: len(PROMPT)], ends[0] if ends else rest])
            prompt = line_start != "" and line_start[: len(PROMPT)] == PROMPT[: len(line_start)]
            self.frame_number += prompt or self._query is not None
        for end in ends:
            line = "".join([*self._line, end])
            self._line = []
            self._read(line)
        if rest:
            self._line.append(rest)

    def _special(self, token: Special) -> None:
        self._begun = len(self.roles)
        if token is not Special.END_OF_TEXT:
            raise Malformed(f"{token.value} in a session")
        if self._line:
            raise Malformed("a line without its end")
        self._not_a_query()
        self._close()
        self.ended = True
        self.frame_number = len(self.frames)

    def _unfinished(self) -> str:
        return "a line without its end" if self._line else ""

    def _read(self, line: str) -> None:
        # The role of a line is known at its end only: its pieces' roles are set then.
        question, query = _QUERY.fullmatch(self._query or ""), _QUERY.fullmatch(line)
        answered = question[1] if question and line.startswith(f"{question[1]} ") else None
        role = Role.QUERY if query else Role.ACTION if line.startswith(PROMPT) else Role.VALUE
        self.roles[self._begun :] = [role if answered is None else Role.STATE] * (len(self.roles) - self._begun)
        self._begun = len(self.roles)
        if answered is not None:
            self._answer(answered, line[len(answered) + 1 :])
            return
        self._not_a_query()
        if query:
            self._query = line
        elif line.startswith(PROMPT):
            self._start(line)
        elif self._command is not None:
            self.frames.append(ReadFrame(None, self._command, self._state, _unescaped(line)))
            self._command = self._state = None
        else:
            raise Malformed("a value of no command")

    def _answer(self, name: str, text: str) -> None:
        self._query = None
        if self._command is not None:
            self._close()
        self._state = self._state or {}
        if name in self._state:
            raise Malformed("a variable that is shown twice")
        self._state[name] = _unescaped(text)

    def _not_a_query(self) -> None:
        if self._query is not None:
            self._start(self._query)
            self._query = None

    def _start(self, line: str) -> None:
        if self._command is not None:
            self._close()
        self._command = line[len(PROMPT) :] + "\n"

    def _close(self) -> None:
        if self._command is not None or self._state is not None:
            self.frames.append(ReadFrame(None, self._command or "", self._state))
        self._command = self._state = None


def _unescaped(text: str) -> str:
    return text if _LITERAL_TEXT.fullmatch(text) else json_string(f'"{text}"', "a value")
