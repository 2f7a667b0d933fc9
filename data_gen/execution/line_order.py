"""Possible orders of a function's lines, from CPython 3.11's bytecode."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterable
from typing import Any

IS_KNOWN = sys.version_info[:2] == (3, 11)
_BACKWARD = {number for name, number in dis.opmap.items() if "JUMP_BACKWARD" in name}
_JUMPS = set(dis.hasjrel)
_GO_ELSEWHERE = {
    dis.opmap[name]
    for name in (
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "RETURN_VALUE",
        "RAISE_VARARGS",
        "RERAISE",
    )
    if name in dis.opmap
}


class LineOrder:
    """Pairs of lines whose `line` events may follow each other in a code object.

    Any line may follow itself, and a handler's first line may follow any.
    """

    def __init__(self, code: types.CodeType) -> None:
        units = code.co_code
        self._lines: list[int | None] = []  # of each unit of two bytes; some, made up by the compiler, have none
        for start, end, line in code.co_lines():
            self._lines += [line] * ((end - start) // 2)
        self._next: list[tuple[int, ...]] = []  # units that can come after each
        extended = 0
        for unit in range(len(units) // 2):
            opcode, argument = units[2 * unit], units[2 * unit + 1] | extended
            extended = argument << 8 if opcode == dis.EXTENDED_ARG else 0
            successors: tuple[int, ...] = () if opcode in _GO_ELSEWHERE else (unit + 1,)
            if opcode in _JUMPS:
                successors += (unit + 1 + (-argument if opcode in _BACKWARD else argument),)
            self._next.append(successors)
        table: Any = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        self._handled = self._first_lines([entry.target // 2 for entry in table])
        self._following: dict[int, set[int]] = {}
        for line, units_after in zip(self._lines, self._next):
            if line is not None and any(self._lines[unit] != line for unit in units_after):
                self._following.setdefault(line, set()).update(self._first_lines(units_after))

    def allows(self, line: int, following: int) -> bool:
        """Say if line `following` may run next after `line`."""
        return following == line or following in self._handled or following in self._following.get(line, ())

    def _first_lines(self, units: Iterable[int]) -> set[int]:
        first_lines, visited, waiting = set[int](), set[int](), list(units)
        while waiting:
            unit = waiting.pop()
            if unit in visited:
                continue
            visited.add(unit)
            line = self._lines[unit]
            if line is not None:
                first_lines.add(line)
            else:
                waiting += self._next[unit]
        return first_lines
