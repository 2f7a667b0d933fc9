"""What each instruction does with what is known of the values on the stack, as CPython 3.11 has them (`Python/ceval.c`)."""

from __future__ import annotations

from collections.abc import Callable

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.guide.builtins import has_attribute, has_method
from remedy.eval.control_flow.guide.calls import call, call_with_star
from remedy.eval.control_flow.guide.containers import CHANGE
from remedy.eval.control_flow.guide.evaluated import GIVE_ONE, evaluate, quiet
from remedy.eval.control_flow.guide.line import Line, Lost
from remedy.eval.control_flow.guide.loops import ITERATE
from remedy.eval.control_flow.guide.operators import truth
from remedy.eval.control_flow.guide.values import (
    UNKNOWN,
    Builtin,
    Data,
    Function,
    Generator,
    Items,
    Mapped,
    Mark,
    Math,
    Method,
    Module,
    Raised,
    Value,
    read,
)
from remedy.eval.control_flow.guide.way import Way, bind, unbind
from remedy.eval.control_flow.known import NEVER_RUN, pushed, words
from remedy.eval.control_flow.moves import Point
from remedy.eval.control_flow.names import Names

_SKIPPED = words("NOP RESUME PRECALL KW_NAMES MAKE_CELL COPY_FREE_VARS SETUP_ANNOTATIONS")
_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})


def run(line: Line, way: Way) -> None:
    """Evaluate the instruction that a way is at: into outcomes of the line, or ways that are open."""
    at = way.at
    one = line.code.instructions[at]
    op = one.op
    if op in _SKIPPED:
        line.done(way, at)
    elif op in _JUMPS:
        line.edge(way, at, one.target)
    elif "JUMP" in op:
        _branch(line, way, one, at)
    elif op.startswith("LOAD_") and op not in ("LOAD_ATTR", "LOAD_METHOD"):
        _load(line, way, one, at)
    elif op in _MOVES:
        _MOVES[op](way, one)
        line.done(way, at)
    elif op in GIVE_ONE:
        evaluate(line, way, one, at)
    elif op in ITERATE:
        ITERATE[op](line, way, one, at)
    elif op in CHANGE:
        CHANGE[op](line, way, one, at)
    elif op in _OTHERS:
        _OTHERS[op](line, way, one, at)
    else:
        _unknown(line, way, one, at)


def _unknown(line: Line, way: Way, one: Instruction, at: int) -> None:
    """An instruction of which only its effect on the height of the stack is known."""
    if one.op in ("SEND", "RETURN_GENERATOR") or one.target is not None:
        raise Lost
    new = pushed(one)
    way.take(max(new - one.effect, 0))
    if one.op not in NEVER_RUN:
        line.unknown(way, at)
    else:
        line.may_raise(way, at)
    way.stack += [UNKNOWN] * new
    line.done(way, at)


def _pop(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = way.pop()
    if isinstance(value, Generator):
        line.close(way, at, value)
        return
    if line.effects[at].closes is not None:
        raise Lost
    line.done(way, at)


def _copy(way: Way, one: Instruction) -> None:
    value = way.peek(one.arg)
    if isinstance(value, Data):
        value = value._replace(own=False)
    elif isinstance(value, Items | Mapped | Generator):
        value = UNKNOWN  # two would read it
    way.put(one.arg, value)
    way.stack.append(value)


def _swap(way: Way, one: Instruction) -> None:
    missing = one.arg - len(way.stack)
    if missing > 0:
        way.stack[:0] = [UNKNOWN] * missing
    way.stack[-1], way.stack[-one.arg] = way.stack[-one.arg], way.stack[-1]


def _make_function(way: Way, one: Instruction) -> None:
    made = way.pop()
    way.take(one.arg.bit_count())
    way.stack.append(made)


def _push_exception(way: Way, one: Instruction) -> None:
    raised = way.pop()
    way.stack += [UNKNOWN, raised]


_MOVES: dict[str, Callable[[Way, Instruction], None]] = {
    "PUSH_NULL": lambda way, one: way.stack.append(Mark.NULL),
    "COPY": _copy,
    "SWAP": _swap,
    "MAKE_FUNCTION": _make_function,
    "STORE_FAST": lambda way, one: bind(way, one.name, way.pop()),
    "STORE_DEREF": lambda way, one: bind(way, one.name, way.pop()),
    "PUSH_EXC_INFO": _push_exception,
    "POP_EXCEPT": lambda way, one: way.take(1).clear(),
}


def _load(line: Line, way: Way, one: Instruction, at: int) -> None:
    if one.op == "LOAD_GLOBAL" and one.arg & 1:
        way.stack.append(Mark.NULL)
    names = line.moves.effects.names
    value = _loaded(names, line, way, one)
    in_slot = one.op in ("LOAD_FAST", "LOAD_DEREF")
    if one.name not in way.locals if in_slot else value is UNKNOWN or not names.all_defined:
        line.may_raise(way, at)
    way.stack.append(value)
    line.done(way, at)


def _loaded(names: Names, line: Line, way: Way, one: Instruction) -> Value:
    if one.code is not None:
        return Function(one.code)
    if one.op == "LOAD_CONST":
        return read(one.name)
    if one.op == "LOAD_ASSERTION_ERROR":
        return Builtin("AssertionError")
    variable = names.variable(line.code, one.op, one.name)
    if variable in names.functions:
        return Function(names.functions[variable])
    if one.op in ("LOAD_FAST", "LOAD_DEREF"):
        value = way.locals.get(one.name, UNKNOWN)
        named = one.op == "LOAD_FAST" and isinstance(value, Data) and value.changes
        return value._replace(name=one.name) if isinstance(value, Data) and named else value
    if one.op == "LOAD_GLOBAL" and names.is_builtin(one.name):
        return Builtin(one.name)
    return Module(names.modules[variable]) if variable in names.modules else UNKNOWN


def _branch(line: Line, way: Way, one: Instruction, at: int) -> None:
    keeps = one.op.endswith("OR_POP")
    value = way.peek(1) if keeps else way.pop()
    if one.op.endswith("_NONE"):
        none = value.value is None if isinstance(value, Data) else None if value is UNKNOWN else False
        jumps = none if none is None else none != one.op.endswith("NOT_NONE")
    else:
        true = truth(value)
        jumps = true if true is None else true == ("TRUE" in one.op)
    if jumps is None and line.effects[at].raises:
        line.may_raise(way, at)
    if jumps is not False:
        line.edge(way.copy(), at, one.target)
    if jumps is not True:
        if keeps:
            way.pop()
        line.done(way, at)


def _delete(line: Line, way: Way, one: Instruction, at: int) -> None:
    line.may_raise(way, at)
    unbind(way, one.name)
    line.done(way, at)


def _return(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = way.pop()
    line.leave(way, line.line_of(at), Point.RETURNED, _given(value), text=_text(line, way, at))


def _yield(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = way.pop()
    left = way.frame(at, Point.RUN)._replace(below=None)
    line.leave(way, line.line_of(at), Point.YIELDED, _given(value), left, _text(line, way, at))


def _text(line: Line, way: Way, at: int) -> str | None:
    """The text of what an instruction gives back that was just loaded: a constant, or what a variable has kept."""
    last = line.code.before(at)
    if last is None:
        return None
    if last.op == "LOAD_CONST" and last.code is None:
        return last.name or None
    return way.shown.get(last.name) if last.op == "LOAD_FAST" and way.shown and last.name in way.kept else None


def _given(value: Value) -> Value:
    """What is given back keeps only what its text does not tell."""
    return value if isinstance(value, Function) else UNKNOWN


def _raise(line: Line, way: Way, one: Instruction, at: int) -> None:
    values = way.take(one.arg)
    if one.arg == 0:
        line.unwind(way, at, {at}, UNKNOWN)
    elif not all(isinstance(value, Raised | Builtin) for value in values) and line.effects[at].runs_escaped:
        line.unknown(way, at)
    line.raises(way, at)


def _raise_again(line: Line, way: Way, one: Instruction, at: int) -> None:
    raised = way.pop()
    line.unwind(way, at, line.moves.handlers.places(line.code.number, at), raised)


def _attribute(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = way.pop()
    known = isinstance(value, Data) and one.name not in line.moves.effects.names.stored_attributes
    if isinstance(value, Data) and known:
        if not has_method(value, one.name):
            line.raises(way, at)
            return
    elif not (isinstance(value, Builtin | Module) and has_attribute(value, one.name)):
        quiet(line, way, at)
    if one.op == "LOAD_METHOD":
        way.stack += [Method(one.name), value]
    elif isinstance(value, Data) and known and callable(getattr(type(value.value), one.name)):
        way.stack.append(Method(one.name))
    else:
        way.stack.append(Math(one.name) if isinstance(value, Module) else UNKNOWN)
    line.done(way, at)


def _import(line: Line, way: Way, one: Instruction, at: int) -> None:
    """Modules of Python's own run nothing of the program."""
    if one.op == "IMPORT_NAME":
        way.take(2)
    line.may_raise(way, at)
    way.stack.append(UNKNOWN)
    line.done(way, at)


def _call(line: Line, way: Way, one: Instruction, at: int) -> None:
    call(line, way, at) if one.op == "CALL" else call_with_star(line, way, at)


_OTHERS: dict[str, Callable[[Line, Way, Instruction, int], None]] = {
    "POP_TOP": _pop,
    "DELETE_FAST": _delete,
    "DELETE_DEREF": _delete,
    "RETURN_VALUE": _return,
    "YIELD_VALUE": _yield,
    "RAISE_VARARGS": _raise,
    "RERAISE": _raise_again,
    "LOAD_ATTR": _attribute,
    "LOAD_METHOD": _attribute,
    "IMPORT_NAME": _import,
    "IMPORT_FROM": _import,
    "CALL": _call,
    "CALL_FUNCTION_EX": _call,
}
