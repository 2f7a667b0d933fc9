"""Bytecode of a program as plain data, compiled but never run."""

from __future__ import annotations

import ast
import dis
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from remedy.data_gen.execution.program import Program, ProgramError

NO_LINE = -1
UNPLACED = "?"
"""Callee of a call whose source position the compiler did not keep."""
_NAMED = frozenset({*dis.hasname, *dis.haslocal, *dis.hasfree})
_NO_NEXT = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE")
_Span = tuple[int | None, ...]
"""First line, last line, first column and last column of an expression; empty if unknown."""


class ControlFlowError(ValueError):
    """Program whose control flow cannot be read. The message says why, and what to do."""


class Instruction(NamedTuple):
    """Instruction, numbered within its code. `EXTENDED_ARG` is part of the next one."""

    op: str
    arg: int
    line: int
    """Physical line, from 1; NO_LINE if the compiler made the instruction up."""
    target: int | None
    """Jump target."""
    handler: int | None
    """Handler of an exception raised here; None: it leaves the frame."""
    name: str
    """Variable, attribute or module that it names, its operator, or its callee (a method with a dot before it); else empty."""
    code: int | None
    """Number of the code object that it loads, or of the comprehension or generator expression that it begins."""
    given: list[int]
    """Codes of generator expressions, and of a lambda as `key`, that are made for this call alone."""


class Code(NamedTuple):
    """Code object: the module, a function, class body, comprehension or lambda."""

    instructions: list[Instruction]
    start: int
    """Index of its first RESUME, whose line a call shows."""

    def following(self, index: int) -> int | None:
        """Return the next instruction's index; None if this one never goes there."""
        return None if self.instructions[index].op in _NO_NEXT or index + 1 >= len(self.instructions) else index + 1

    def shows(self, before: int, index: int) -> bool:
        """Return whether a LINE fires between two instructions (`maybe_call_line_trace`)."""
        instruction = self.instructions[index]
        other = instruction.line != self.instructions[before].line or (index <= before and instruction.op != "SEND")
        return instruction.line != NO_LINE and (other or before <= self.start)


class Bytecode(NamedTuple):
    """All code objects of a program; number 0 is the module."""

    codes: list[Code]
    entry: int
    """Number of the marked function."""
    values: list[str]
    """Names that are parameters, attributes, or read other than for a plain call."""


class _Calls:
    """Facts about calls that only the syntax tree shows."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        decorators = {_span(decorator) for node in nodes for decorator in getattr(node, "decorator_list", ())}
        names: dict[_Span, set[str]] = {}
        for call in calls:
            names.setdefault(_span(call), set()).add(_name(call.func))
        # Spans are ambiguous in 3.11: parts of f-strings share them, and a decorator's call has the decorator's span.
        self.callees: dict[_Span, str] = {
            span: name for span, (name, *others) in names.items() if not others and span not in decorators
        }
        self.given: dict[_Span, list[_Span]] = {}
        """Of a call, the spans of the expressions whose codes it alone is given."""
        plain: set[ast.expr] = set()
        for call in calls:
            sole_argument = call.args if len(call.args) == 1 else []
            given = [*sole_argument, *(keyword.value for keyword in call.keywords if keyword.arg == "key")]
            self.given[_span(call)] = [_span(node) for node in given if isinstance(node, ast.GeneratorExp | ast.Lambda)]
            starred = any(isinstance(argument, ast.Starred) for argument in call.args) or any(
                keyword.arg is None for keyword in call.keywords
            )
            has_many = len(call.args) + len(call.keywords) > 15  # the compiler may use CALL_FUNCTION_EX for so many
            if _span(call) in self.callees and not starred and not has_many:
                plain.add(call.func)
        values = {_name(node).lstrip(".") for node in nodes if node not in plain}
        self.values = sorted(values | {node.arg for node in nodes if isinstance(node, ast.arg)})
        self.callees[()] = UNPLACED


def _name(node: ast.AST) -> str:
    """Return a variable's name, or an attribute's with a dot before it; else empty."""
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ""


def _span(located: ast.expr | dis.Positions | None) -> _Span:
    span = (located.lineno, located.end_lineno, located.col_offset, located.end_col_offset) if located else ()
    return () if None in span else span


def read_bytecode(program: Program) -> Bytecode:
    """Return a program's bytecode.

    Raises:
        ControlFlowError: this interpreter is not CPython 3.11.
        ProgramError: the program does not compile or has no entry point.
    """
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11):
        raise ControlFlowError(
            f"control flow is read from the bytecode of CPython 3.11, whose events traces have; this is {sys.implementation.name} "
            f"{'.'.join(map(str, sys.version_info[:3]))}: run it with CPython 3.11"
        )
    entry = program.entry_point()
    try:
        # As the tracer does: this module's own `__future__` import would change the bytecode.
        module = compile(program.code, "<control flow>", "exec", dont_inherit=True)
        calls = _Calls(ast.parse(program.code))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError("syntax", f"{program.name}: does not compile: {error}") from None
    objects = list(_objects(module))
    numbers = {id(code): number for number, code in enumerate(objects)}
    try:
        codes = [_read(code, numbers, calls) for code in objects]
    except ValueError as error:
        raise ControlFlowError(f"{program.name}: has a constant that Python cannot write: {error}") from None
    for made in (constant for constant in module.co_consts if isinstance(constant, types.CodeType)):
        last = max(line or 0 for _, _, line in made.co_lines())
        if made.co_name == entry.name and made.co_firstlineno <= entry.line <= last:
            return Bytecode(codes, numbers[id(made)], calls.values)
    raise ControlFlowError(f"{program.name}: the compiler left the marked function {entry.name} out")


def _objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _objects(constant)


def _read(code: types.CodeType, numbers: dict[int, int], calls: _Calls) -> Code:
    read: Any = dis.Bytecode(code)
    raw: list[dis.Instruction] = []
    indices: dict[int, int] = {}
    for instruction in read:
        indices[instruction.offset] = len(raw)
        if instruction.opname != "EXTENDED_ARG":
            raw.append(instruction)
    entries = read.exception_entries
    # A unit of code is two bytes; the table gives handlers to ranges of them.
    handlers = {unit: indices[entry.target] for entry in entries for unit in range(entry.start, entry.end, 2)}
    loaded = {index: numbers.get(id(instruction.argval)) for index, instruction in enumerate(raw)}
    made = {_span(raw[index].positions): number for index, number in loaded.items() if number is not None}
    instructions = []
    for index, instruction in enumerate(raw):
        is_call = instruction.opname.startswith("CALL")
        span = _span(instruction.positions) if is_call else ()
        called = calls.callees.get(span, "") if is_call else ""
        named = str(instruction.argval) if instruction.opcode in _NAMED else called
        instructions.append(
            Instruction(
                op=instruction.opname,
                arg=instruction.arg or 0,
                line=(instruction.positions and instruction.positions.lineno) or NO_LINE,
                target=indices[instruction.argval] if instruction.opcode in dis.hasjrel else None,
                handler=handlers.get(instruction.offset),
                name=instruction.argrepr if instruction.opname == "BINARY_OP" else named,
                code=made.get(span) if span else loaded[index],
                given=[made[node] for node in calls.given.get(span, ()) if node in made],
            )
        )
    start = next(index for index, instruction in enumerate(instructions) if instruction.op == "RESUME")
    return Code(instructions, start)
