"""Effects of instructions: what each may run, found by following functions and generators over the stack of each code object.

A function is *known* where it is called if the stack says which one it is: it was just made, or comes from a variable that never
stands for another. A function or generator that goes anywhere else (into a container, an argument, a returned value) has *escaped*, and
whatever calls something unknown may run it. This is a small escape analysis (Choi et al., 1999) over stacks as the verifier of Java
bytecode sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from remedy.eval.control_flow.bytecode import Bytecode, Code, Instruction
from remedy.eval.control_flow.known import (
    KEYED,
    NEVER_RAISE,
    NEVER_RUN,
    QUIET_BUILTINS,
    QUIET_METHODS,
    READERS,
    iterates,
    pushed,
)
from remedy.eval.control_flow.names import Names


class Kind(Enum):
    """Kind of a value that the stack may be known to hold."""

    FUNCTION = 0
    GENERATOR = 1
    """One that was just made."""
    LOOP = 2
    """A generator that a loop reads."""
    BUILTIN = 3
    METHOD = 4
    """An attribute, which may be called with its object."""
    NULL = 5
    """What stands below a callee that gets no object."""
    TUPLE = 6

    __hash__ = object.__hash__


class Known(NamedTuple):
    """A value on the stack of which something is known. `code`: the function's or generator's; `name`: the builtin's or method's."""

    kind: Kind
    code: int = -1
    name: str = ""


NULL, TUPLE = Known(Kind.NULL), Known(Kind.TUPLE)
Value = Known | None


@dataclass(slots=True)
class Effect:
    """Effect of an instruction besides going on."""

    calls: int | None = None
    """The one function that it runs, after all that `runs_escaped` says."""
    reads: int | None = None
    """The generator that it reads, which nothing else can reach."""
    stops_early: bool = False
    """Whether it may close that generator before its end."""
    closes: int | None = None
    """The generator that a loop is left with."""
    runs: frozenset[int] = frozenset()
    """Functions that it may run, any number of times."""
    runs_escaped: bool = False
    """Whether it may run, resume or close all that has escaped."""
    raises: bool = True


class _State(NamedTuple):
    stack: tuple[Value, ...]
    bound: frozenset[str]
    """Variables in slots that have a value on every way here."""


class Effects:
    """The effects of all instructions: `of[code][place]`; `escaped`: codes of functions and generators that anything may run."""

    def __init__(self, bytecode: Bytecode, names: Names) -> None:
        self.names = names
        self.codes = bytecode.codes
        self.escaped: set[int] = set(range(1, len(self.codes))) if names.dynamic else set()
        self.of = [_Flow(self, code).effects for code in self.codes]


class _Flow:
    """One code object's instructions, followed along all ways."""

    def __init__(self, program: Effects, code: Code) -> None:
        self.program = program
        self.names = program.names
        self.code = code
        self.effects = [Effect() for _ in code.instructions]
        self._states: list[_State | None] = [None] * len(code.instructions)
        self._waiting = [0]
        self._states[0] = _State((), frozenset(set(code.parameters) - set(code.cells)))
        while self._waiting:
            self._step(self._waiting.pop())

    def _step(self, at: int) -> None:
        one, state = self.code.instructions[at], self._states[at]
        assert state is not None
        if one.handler is not None:
            kept = state.stack[: one.depth] + (None,) * (one.keeps_place + 1)
            self._reach(one.handler, _State(kept, state.bound))
        effect = self.effects[at] = Effect()
        effect.raises = self._raises(one, state)
        effect.runs_escaped = one.op not in NEVER_RUN and (not self.names.plain or iterates(one))
        stack, bound = list(state.stack), state.bound
        if one.op == "FOR_ITER":
            self._reach(one.target, _State(tuple(stack[:-1]), bound))
            if (value := stack[-1]) is not None and value.kind is Kind.LOOP:
                effect.reads, effect.runs_escaped = value.code, False
            else:
                self._escape([value])
            stack.append(None)
        elif one.op in ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
            self._escape(stack[-1:])
            stack[-1] = None
            self._reach(one.target, _State(tuple(stack), bound))
            stack.pop()
        elif one.op == "SEND":
            self._escape(stack[-2:])
            stack[-2:] = [None, None]
            self._reach(one.target, _State(tuple(stack[:-1]), bound))
        else:
            self._run(one, at, stack, effect)
            if one.op in ("STORE_FAST", "DELETE_FAST"):
                bound = bound - {one.name} if one.op == "DELETE_FAST" else bound | {one.name}
            self._reach(one.target, _State(tuple(stack), bound))
        self._reach(self.code.following(at), _State(tuple(stack), bound))

    def _reach(self, at: int | None, state: _State) -> None:
        if at is None:
            return
        before = self._states[at]
        if before is not None:
            stack = tuple(self._join(one, other) for one, other in zip(before.stack, state.stack))
            state = _State(stack, before.bound & state.bound)
        if state != before:
            self._states[at] = state
            self._waiting.append(at)

    def _join(self, one: Value, other: Value) -> Value:
        if one == other:
            return one
        self._escape([one, other])
        return None

    def _escape(self, values: list[Value] | tuple[Value, ...]) -> None:
        """Values that are used in a way that is not followed."""
        for value in values:
            if value is not None and value.code >= 0:
                self.program.escaped.add(value.code)

    def _raises(self, one: Instruction, state: _State) -> bool:
        if self.names.unfollowed and (one.op == "RESUME" or "BACKWARD" in one.op):
            return True  # handlers of signals run there
        tests = one.op.endswith(("_TRUE", "_FALSE", "_OR_POP", "_NOT"))
        if one.op in NEVER_RAISE or (tests and self.names.plain):  # only objects of a program's making fail tests
            return False
        if one.op == "LOAD_FAST":
            return one.name not in state.bound
        if one.op in ("LOAD_GLOBAL", "LOAD_NAME"):
            return not self.names.is_builtin(one.name)
        return True

    def _run(self, one: Instruction, at: int, stack: list[Value], effect: Effect) -> None:
        """Everything that goes on in one way, or nowhere."""
        op, arg = one.op, one.arg
        if op.startswith("LOAD_") and op not in ("LOAD_ATTR", "LOAD_METHOD"):
            if op == "LOAD_GLOBAL" and arg & 1:
                stack.append(NULL)
            stack.append(self._loaded(at, one))
        elif op == "PUSH_NULL":
            stack.append(NULL)
        elif op in ("LOAD_ATTR", "LOAD_METHOD"):
            self._escape(stack[-1:])
            stack[-1:] = [Known(Kind.METHOD, name=one.name), None] if op == "LOAD_METHOD" else [None]
        elif op == "MAKE_FUNCTION":
            made = stack.pop()
            cut = len(stack) - arg.bit_count()
            self._escape(stack[cut:])
            stack[cut:] = [made]
        elif op.startswith("STORE_") and (variable := self.names.variable(self.code, op, one.name)):
            value = stack.pop()
            if value is not None and self.names.functions.get(variable) != value.code:
                self._escape([value])
        elif op == "COPY":
            if (value := stack[-arg]) is not None and value.kind in (Kind.GENERATOR, Kind.LOOP):
                self._escape([value])  # from now on two may reach it
                stack[-arg] = None
            stack.append(stack[-arg])
        elif op == "SWAP":
            stack[-1], stack[-arg] = stack[-arg], stack[-1]
        elif op == "POP_TOP":
            value = stack.pop()
            if value is not None and value.kind is Kind.LOOP:
                effect.closes = value.code
            elif value is not None and value.kind is Kind.GENERATOR:
                self._escape([value])
        elif op == "GET_ITER" and stack[-1] is not None and stack[-1].kind is Kind.GENERATOR:
            stack[-1] = Known(Kind.LOOP, stack[-1].code)
            effect.raises = effect.runs_escaped = False
        elif op == "CALL":
            cut = len(stack) - arg
            first, second, arguments = stack[cut - 2], stack[cut - 1], stack[cut:]
            callee = second if first == NULL else first
            if first != NULL and not (first and first.kind is Kind.METHOD):
                arguments = [second, *arguments]
            del stack[cut - 2 :]
            stack.append(self._call(callee, arguments, self._keywords(at), effect))
        elif op == "CALL_FUNCTION_EX":
            cut = len(stack) - 2 - (arg & 1)
            callee, arguments = stack[cut], stack[cut + 1 :]
            del stack[cut - 1 :]
            reads = effect.runs_escaped and arguments[0] != TUPLE  # what `*` stands before is read by the call
            stack.append(self._call(callee, arguments, ("*",), effect))
            effect.runs_escaped |= reads
        elif op == "RETURN_GENERATOR":
            stack.append(None)
        elif op not in ("PRECALL", "KW_NAMES"):  # it pops and pushes values of which nothing is known
            new = pushed(one)
            left = len(stack) + one.effect - new
            self._escape(stack[left:])
            stack[left:] = [TUPLE if op in ("BUILD_TUPLE", "LIST_TO_TUPLE") else None] * new

    def _loaded(self, at: int, one: Instruction) -> Value:
        if one.code is not None:
            return Known(Kind.FUNCTION, one.code)  # what is made a function next
        if one.op == "LOAD_CONST" and one.name.startswith("("):
            return TUPLE
        variable = self.names.variable(self.code, one.op, one.name)
        if one.op == "LOAD_BUILD_CLASS":
            return Known(Kind.BUILTIN, name="__build_class__")
        if one.op in ("LOAD_NAME", "LOAD_CLASSDEREF") and not self.code.has_slots and self.code.number:
            outer = self.names.variable(self.code, "LOAD_GLOBAL", one.name) if one.op == "LOAD_NAME" else variable
            if outer in self.names.functions:
                self.program.escaped.add(self.names.functions[outer])
            return None
        if variable in self.names.functions:
            return Known(Kind.FUNCTION, self.names.functions[variable])
        if one.op in ("LOAD_GLOBAL", "LOAD_NAME") and self.names.is_builtin(one.name):
            return Known(Kind.BUILTIN, name=one.name)
        return None

    def _keywords(self, at: int) -> tuple[str, ...]:
        """The names of a call's arguments, which an instruction before it has."""
        before = [one for one in self.code.instructions[max(at - 2, 0) : at] if one.op == "KW_NAMES"]
        return tuple(before[-1].name.split()) if before else ()

    def _call(self, callee: Value, arguments: list[Value], keywords: tuple[str, ...], effect: Effect) -> Value:
        if callee is not None and callee.kind is Kind.FUNCTION:
            self._escape(arguments)
            effect.runs_escaped = False
            if self.program.codes[callee.code].is_generator:
                return Known(Kind.GENERATOR, callee.code)
            if self.program.codes[callee.code].runs_later:
                self._escape([callee])
                return None
            effect.calls = callee.code
            return None
        name = callee.name if callee is not None else ""
        builtin = callee is not None and callee.kind is Kind.BUILTIN
        method = callee is not None and callee.kind is Kind.METHOD and name not in self.names.stored_attributes
        [first] = arguments if len(arguments) == 1 and not keywords else [None]
        if first is not None and first.kind is Kind.GENERATOR and self._is_reader(name, builtin, method, first.code):
            effect.reads, effect.stops_early, effect.runs_escaped = first.code, builtin and READERS[name], False
            return None
        if (builtin and name in KEYED) or (method and name == "sort" and self.names.plain):
            key = dict(zip(reversed(keywords), reversed(arguments))).get("key")
        else:
            key = arguments[0] if builtin and name == "__build_class__" else None
        if key is not None and key.kind is Kind.FUNCTION and not self.program.codes[key.code].runs_later:
            effect.runs = frozenset({key.code})
            self._escape([value for value in arguments if value is not key])
            return None
        self._escape(arguments)
        quiet = (builtin and name in QUIET_BUILTINS) or (method and name in QUIET_METHODS)
        if quiet and self.names.plain and keywords != ("*",):
            effect.runs_escaped = False
        return None

    def _is_reader(self, name: str, builtin: bool, method: bool, number: int) -> bool:
        """Say if a callee reads its one argument, a generator, and does nothing else."""
        code, plain = self.program.codes[number], self.names.plain
        given = [code.before(at) for at, one in enumerate(code.instructions) if one.op == "YIELD_VALUE"]
        pairs = all(last is not None and last.op == "BUILD_TUPLE" for last in given)
        if name in ("dict", "update") and not pairs:
            return False  # it would read what it is given too
        return (builtin and name in READERS and (plain or name in ("list", "tuple"))) or (
            method and plain and name in ("join", "extend", "update")
        )
