"""The bytecode of a program, as plain data: what the compiler made of its source, of which nothing is run."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from remedy.data_gen.execution.program import Program, ProgramError

NO_LINE = -1
_OPTIMIZED, _GENERATOR = 0x1, 0x20
_LATER = 0x20 | 0x80 | 0x200  # a generator's, coroutine's or asynchronous generator's code: a call runs none of it
_NAMED = frozenset({*dis.hasname, *dis.haslocal, *dis.hasfree, dis.opmap["COMPARE_OP"]})
GO_ON_ELSEWHERE = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
GO_NOWHERE = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})


class ControlFlowError(ValueError):
    """A program whose control flow cannot be read. The message says which program, why, and what to do."""


class Instruction(NamedTuple):
    """One instruction; others of its code are named by their places in it. `EXTENDED_ARG` is part of what it extends."""

    op: str
    arg: int
    line: int
    """The physical line, counted from 1; NO_LINE for what the compiler made up."""
    target: int | None
    """Where it may jump."""
    handler: int | None
    """Where an exception goes that is raised here; None: out of the frame."""
    depth: int
    """How much of the stack the handler keeps."""
    keeps_place: bool
    """Whether the handler is also given this place, to raise again as if from here."""
    name: str
    """The variable, attribute or module that it names, or its operator, or the repr of the constant that it loads; else empty."""
    code: int | None
    """The number of the code object that it loads."""
    effect: int
    """By how much the stack is longer where it goes on without a jump."""


class Code(NamedTuple):
    """A code object: the module, or a function, class body, comprehension or lambda."""

    number: int
    parent: int | None
    name: str
    instructions: list[Instruction]
    has_slots: bool
    """Whether its variables are slots that the compiler knows, as a function's are; the module's and a class's are any mapping."""
    runs_later: bool
    """Whether a call makes a generator or coroutine and runs nothing."""
    is_generator: bool
    """Whether that is a generator, which loops can read."""
    parameters: tuple[str, ...]
    cells: tuple[str, ...]
    """Variables that functions inside it use."""
    first_line: int
    """The line that a call shows: the `def`, or the first decorator."""
    start: int
    """The place of its first RESUME: a call goes on after it."""
    born: int
    """The place where a generator waits before it is started."""

    def following(self, at: int) -> int | None:
        """The next instruction, if this one may go on to it."""
        elsewhere = self.instructions[at].op in GO_ON_ELSEWHERE | GO_NOWHERE
        return None if elsewhere or at + 1 >= len(self.instructions) else at + 1

    def before(self, at: int) -> Instruction | None:
        """The instruction before one, if nothing else leads there: a value that was made right before may come from another branch."""
        elsewhere = any(at in (one.target, one.handler) for one in self.instructions)
        return None if elsewhere or at == 0 else self.instructions[at - 1]

    def shows(self, before: int, at: int) -> bool:
        """Say if a LINE fires where the frame goes on from one instruction to another (`maybe_call_line_trace`)."""
        one = self.instructions[at]
        other = one.line != self.instructions[before].line or (at <= before and one.op != "SEND")
        return one.line != NO_LINE and (other or before <= self.start)


class Bytecode(NamedTuple):
    """All code objects of a program. `entry`: the number of the marked function's."""

    codes: list[Code]
    entry: int


def read_bytecode(program: Program) -> Bytecode:
    """Compile a program and list its instructions.

    Raises:
        ControlFlowError: this interpreter's events are not those of the traces: it is not CPython 3.11.
        ProgramError: the program does not compile or has no entry point.
    """
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11):
        raise ControlFlowError(
            f"control flow is read from the bytecode of CPython 3.11, whose events traces have; this is {sys.implementation.name} "
            f"{'.'.join(map(str, sys.version_info[:3]))}: run it with CPython 3.11"
        )
    entry = program.entry_point()
    try:
        module = compile(program.code, "<control flow>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError("syntax", f"{program.name}: does not compile: {error}") from None
    objects = list(_objects(module, None))
    numbers = {id(code): number for number, (code, _) in enumerate(objects)}
    try:
        codes = [_read(code, None if parent is None else numbers[id(parent)], numbers) for code, parent in objects]
    except ValueError as error:
        raise ControlFlowError(f"{program.name}: has a constant that Python cannot write: {error}") from None
    for code, (found, parent) in zip(codes, objects):
        last = max((line for _, _, line in found.co_lines() if line is not None), default=0)
        if parent is module and code.name == entry.name and found.co_firstlineno <= entry.line <= last:
            return Bytecode(codes, code.number)
    raise ControlFlowError(f"{program.name}: the compiler left the marked function {entry.name} out")


def _objects(
    code: types.CodeType, parent: types.CodeType | None
) -> Iterator[tuple[types.CodeType, types.CodeType | None]]:
    """A code object and those inside it, each with the one that it is in."""
    yield code, parent
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _objects(constant, code)


def _read(code: types.CodeType, parent: int | None, numbers: dict[int, int]) -> Code:
    read: Any = dis.Bytecode(code)
    own: list[dis.Instruction] = []
    places: dict[int, int] = {}
    for one in read:
        places[one.offset] = len(own)
        if one.opname != "EXTENDED_ARG":
            own.append(one)
    handlers = {unit: entry for entry in read.exception_entries for unit in range(entry.start, entry.end, 2)}
    instructions = [_instruction(code, one, handlers.get(one.offset), places, numbers) for one in own]
    start = next(place for place, one in enumerate(instructions) if one.op == "RESUME")
    taken = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return Code(
        numbers[id(code)],
        parent,
        code.co_name,
        instructions,
        bool(code.co_flags & _OPTIMIZED),
        bool(code.co_flags & _LATER),
        bool(code.co_flags & _GENERATOR),
        code.co_varnames[:taken],
        code.co_cellvars,
        instructions[start].line,
        start,
        next((place for place, one in enumerate(instructions) if one.op == "RETURN_GENERATOR"), 0),
    )


def _instruction(
    code: types.CodeType, one: dis.Instruction, handler: Any, places: dict[int, int], numbers: dict[int, int]
) -> Instruction:
    """`handler`: the entry of the table of exceptions; `places`: of instructions by their offsets."""
    line = one.positions.lineno if one.positions else None
    loaded = one.argval if isinstance(one.argval, types.CodeType) else None
    return Instruction(
        op=one.opname,
        arg=one.arg or 0,
        line=NO_LINE if line is None else line,
        target=places[one.argval] if one.opcode in dis.hasjrel else None,
        handler=places[handler.target] if handler else None,
        depth=handler.depth if handler else 0,
        keeps_place=bool(handler and handler.lasti),
        name="" if loaded else _name(code, one),
        code=numbers[id(loaded)] if loaded else None,
        effect=dis.stack_effect(one.opcode, one.arg, jump=False),
    )


def _name(code: types.CodeType, one: dis.Instruction) -> str:
    if one.opname == "KW_NAMES":
        return " ".join(code.co_consts[one.arg or 0])
    if one.opname in ("LOAD_CONST", "BINARY_OP"):
        return one.argrepr
    return str(one.argval) if one.opcode in _NAMED else ""


class Handlers:
    """Ways of exceptions: which may end in the frame that raised them, and from where they seem to come when raised again."""

    def __init__(self, bytecode: Bytecode) -> None:
        self._codes = bytecode.codes
        self._ends, self._again = cache(self._may_end), cache(self._raised_again)

    def catches(self, code: int, at: int) -> bool:
        """Say if an exception that an instruction raises may end in its frame."""
        handler = self._codes[code].instructions[at].handler
        return handler is not None and self._ends(code, handler)

    def places(self, code: int, at: int) -> set[int]:
        """From where a RERAISE raises: from itself, or as if from where the exception that its handler was given came."""
        return self._again(code).get(at) or {at}

    def _may_end(self, code: int, handler: int) -> bool:
        reached = self._reached(code, handler, through_handlers=True)
        return any(self._codes[code].instructions[one].op in ("RETURN_VALUE", "YIELD_VALUE") for one in reached)

    def _raised_again(self, code: int) -> dict[int, set[int]]:
        """From where instructions raise again that do not raise from themselves."""
        instructions = self._codes[code].instructions
        found: dict[int, set[int]] = {}
        for handler in {one.handler for one in instructions if one.keeps_place}:
            for at in self._reached(code, handler):
                if instructions[at].op == "RERAISE" and instructions[at].arg:
                    places = {n for n, one in enumerate(instructions) if one.handler == handler and one.keeps_place}
                    found.setdefault(at, set()).update(places)
        for _ in found:  # an exception that is raised again, and caught again, is still from where it came
            for places in found.values():
                places |= {place for one in places if one in found for place in found[one]}
        return found

    def _reached(self, code: int, start: int | None, through_handlers: bool = False) -> set[int]:
        """The instructions that can run after one, without exceptions but those that are raised again."""
        seen: set[int] = set()
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at is None or at in seen:
                continue
            seen.add(at)
            one = self._codes[code].instructions[at]
            waiting += [self._codes[code].following(at), one.target, one.handler if through_handlers else None]
        return seen
