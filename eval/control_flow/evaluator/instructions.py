"""Effects of instructions: the expression that each ends is evaluated on the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from remedy.eval.control_flow.bytecode import GO_ON_ELSEWHERE, Instruction
from remedy.eval.control_flow.evaluator import pure
from remedy.eval.control_flow.evaluator.frame import Frame, change
from remedy.eval.control_flow.evaluator.line import Line, Lost, Outcome
from remedy.eval.control_flow.evaluator.source import COMPREHENSIONS
from remedy.eval.control_flow.evaluator.values import CHANGE, UNKNOWN, Function, Iter, Own, Raises, Unsure
from remedy.eval.control_flow.known import NEVER_RUN, words
from remedy.eval.control_flow.options import Point

MOST_STEPS = 4_000
"""Instructions that are evaluated for one frame."""
MOST_WAYS = 32
"""Ways that are open at a time."""
_QUIET = NEVER_RUN | {"SET_ADD", "MAP_ADD"}
"""Instructions that change nothing but what a comprehension makes."""
_NUMBERS = (int, float, bool, complex, type(None))


def gather(line: Line) -> list[Outcome]:
    """All that may come next. Raises Lost."""
    for _ in range(MOST_STEPS):
        if not line.open:
            return line.outcomes
        if len(line.open) > MOST_WAYS:
            break
        way = line.open.pop()
        _run(line, way, line.code.instructions[way.at], way.at)
    raise Lost


def _run(line: Line, way: Frame, one: Instruction, at: int) -> None:
    """Evaluate the instruction that a way is at: into outcomes of the line, or ways that are open."""
    if one.op in _RUN:
        try:
            _RUN[one.op](line, way, one, at)
        except Raises:
            line.raises(way, at)
    elif one.op in GO_ON_ELSEWHERE:
        line.edge(way, at, one.target)
    elif "JUMP" in one.op:
        _branch(line, way, one, at)
    elif one.op in _QUIET and line.effects[at].closes is None:
        line.may_raise(way, at)
        line.done(way, at)
    elif one.op in ("SEND", "RETURN_GENERATOR") or one.target is not None:
        raise Lost
    else:
        line.gives(way, at, line.unknown(way, at))


def _branch(line: Line, way: Frame, one: Instruction, at: int) -> None:
    jumps: bool | None = None
    try:
        value = way.value(line.made(at))
        if one.op.endswith("_NONE"):
            jumps = (value is None) != one.op.endswith("NOT_NONE")
        else:
            jumps = pure.truth(value) == ("TRUE" in one.op)
    except (Unsure, Raises):
        line.may_raise(way, at)
    if jumps is not False:
        line.edge(way.copy(), at, one.target)
    if jumps is not True:
        line.done(way, at)


def _load(line: Line, way: Frame, one: Instruction, at: int) -> None:
    names, node = line.source.names, line.nodes[at]
    value: Any = UNKNOWN
    variable = names.variable(line.code, one.op, one.name)
    in_slot = one.op in ("LOAD_FAST", "LOAD_DEREF")
    if variable in names.functions:
        value = Function(names.functions[variable])
    elif in_slot:
        value = way.locals.get(one.name, UNKNOWN)
    elif one.op == "LOAD_GLOBAL" and names.is_builtin(one.name):
        value = Own(one.name)
    elif variable in names.modules and names.modules[variable] == "math":
        value = Own("math")
    unbound = one.name not in way.locals or one.name in names.deleted_cells
    if unbound if in_slot else value is UNKNOWN or not names.all_defined:
        line.may_raise(way, at)
    line.gives(way, at, value if isinstance(node, ast.Name) and node.id == one.name else UNKNOWN)


def _store(line: Line, way: Frame, one: Instruction, at: int) -> None:
    way.bind(one.name, _given(line, way, line.nodes[at]))
    line.done(way, at)


def _given(line: Line, way: Frame, target: ast.AST | None) -> Any:
    """Return what a target is given; UNKNOWN where that is not known."""
    if target in line.source.stored:
        return way.known_or_not(line.source.stored[target])
    return way.values.get(target, UNKNOWN) if target is not None else UNKNOWN


def _delete(line: Line, way: Frame, one: Instruction, at: int) -> None:
    line.may_raise(way, at)
    way.locals.pop(one.name, None)
    way.kept -= {one.name}
    line.done(way, at)


_ENDS: dict[str, tuple[type[ast.AST], ...]] = {
    "BINARY_OP": (ast.BinOp, ast.AugAssign),
    "BINARY_SUBSCR": (ast.Subscript,),
    **dict.fromkeys(words("UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT UNARY_NOT"), (ast.UnaryOp,)),
    **dict.fromkeys(words("COMPARE_OP IS_OP CONTAINS_OP"), (ast.Compare,)),
    **dict.fromkeys(words("LOAD_ATTR LOAD_METHOD"), (ast.Attribute,)),
    **dict.fromkeys(words("BUILD_MAP BUILD_CONST_KEY_MAP"), (ast.Dict,)),
    "BUILD_SET": (ast.Set,),
}
"""Instructions that end an expression whose parts are evaluated, and what they end."""


def _evaluate(line: Line, way: Frame, one: Instruction, at: int) -> None:
    node = line.nodes[at] if isinstance(line.nodes[at], _ENDS[one.op]) else None
    if isinstance(node, ast.Attribute) and node.attr in line.source.names.stored_attributes:
        node = None
    way.values.pop(node, None)  # type: ignore[arg-type]
    try:
        match node:
            case ast.AugAssign():
                value = _augmented(way, node)
            case ast.Compare():
                value = _compared(way, node, one)
            case _:
                value = way.value(node)
    except Unsure:
        value = line.quiet(way, at)
    line.gives(way, at, value)


def _compared(way: Frame, node: ast.Compare, one: Instruction) -> bool:
    """Return what a comparison gives, which the compiler may have turned round."""
    if one.op == "CONTAINS_OP" and way.known_or_not(node.comparators[-1]) is UNKNOWN:
        change(way, UNKNOWN)  # it may be an iterator that is read
    if len(node.ops) > 1:
        raise Unsure
    sign = type(node.ops[0]).__name__
    if one.op != "COMPARE_OP":
        sign = (("In", "NotIn") if one.op == "CONTAINS_OP" else ("Is", "IsNot"))[one.arg]
    return pure.compare(sign, way.value(node.left), way.value(node.comparators[0]))


def _augmented(way: Frame, node: ast.AugAssign) -> Any:
    """Return what a variable is after `+=` and the like, which change an object where it can be changed."""
    before, by = way.known_or_not(node.target), way.known_or_not(node.value)
    number = type(by) in _NUMBERS and not isinstance(node.op, ast.Mult)
    if (type(before) in CHANGE or before is UNKNOWN) and not number:
        change(way, UNKNOWN if by is UNKNOWN or isinstance(by, Iter) else before)
    return pure.augmented(type(node.op).__name__, before, by)


def _store_subscript(line: Line, way: Frame, one: Instruction, at: int) -> None:
    node = line.nodes[at]
    target, key_of = (node.value, node.slice) if isinstance(node, ast.Subscript) else (None, None)
    before, key = way.known_or_not(target), way.known_or_not(key_of)
    change(way, before)
    try:
        pure.changed_at(before, key, deletes=one.op == "DELETE_SUBSCR")
    except Unsure:
        line.unknown(way, at)
    line.done(way, at)


def _extend(line: Line, way: Frame, one: Instruction, at: int) -> None:
    """Return what is made of `*` or `**`, or of a long literal."""
    value = way.known_or_not(line.made(at))
    if value is UNKNOWN:
        line.unknown(way, at)
    elif not (type(value) in (list, tuple, str, range, dict, Iter) and one.op == "LIST_EXTEND"):
        line.may_raise(way, at)
    line.done(way, at)


def _get_iter(line: Line, way: Frame, one: Instruction, at: int) -> None:
    try:
        way.loops[at + 1] = way.iterator(line.made(at))
    except Unsure:
        way.loops[at + 1] = line.quiet(way, at)
    line.done(way, at)


def _for(line: Line, way: Frame, one: Instruction, at: int) -> None:
    iterator: Any = way.loops.get(at, UNKNOWN)
    item: Any = UNKNOWN
    way.values = {}
    if not isinstance(iterator, Iter):
        line.unknown(way, at)
        line.edge(way.copy(), at, one.target)
    elif iterator.at >= len(iterator.items):
        line.edge(way, at, one.target)
        return
    else:
        item = iterator.items[iterator.at]
        way.loops[at] = iterator._replace(at=iterator.at + 1)
    if (target := line.nodes[at + 1]) is not None:
        way.values[target] = item
    line.done(way, at)


def _unpack(line: Line, way: Frame, one: Instruction, at: int) -> None:
    node = line.nodes[at]
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    try:
        way.values.update(zip(parts, pure.unpacked(_given(line, way, node), one.arg)))
    except Unsure:
        line.unknown(way, at)
    line.done(way, at)


def _leave(line: Line, way: Frame, one: Instruction, at: int) -> None:
    text, last = None, line.code.before(at)
    if last is not None and last.op == "LOAD_CONST" and last.code is None:
        text = last.name or None
    elif last is not None and last.op == "LOAD_FAST" and way.shown and last.name in way.kept:
        text = way.shown.get(last.name)
    line.leave(way, at, Point.RETURNED if one.op == "RETURN_VALUE" else Point.YIELDED, text)


def _raise(line: Line, way: Frame, one: Instruction, at: int) -> None:
    if one.op == "RERAISE":
        line.unwind(way, at, line.moves.handlers.places(line.code.number, at))
        return
    if one.arg == 0:
        line.unwind(way, at, {at})
    line.raises(way, at)


def came_back(line: Line, way: Frame) -> None:
    """Return what an instruction called has come back."""
    if line.code.instructions[way.at].op not in ("CALL", "CALL_FUNCTION_EX"):
        raise Lost
    if not way.awaited and line.effects[way.at].calls is None:
        way.came = line.unknown(way, way.at)
    line.gives(way, way.at, way.came)


def _call(line: Line, way: Frame, one: Instruction, at: int) -> None:
    node = line.nodes[at]
    if isinstance(node, ast.Assert):
        return line.done(way, at)
    callee = way.known_or_not(node.func) if isinstance(node, ast.Call) else UNKNOWN
    number, effect = callee.code if isinstance(callee, Function) else line.effects[at].calls, line.effects[at]
    if isinstance(node, COMPREHENSIONS):
        if number is None:
            line.gives(way, at, UNKNOWN)  # a generator, which runs later
            return
        given: Any = UNKNOWN
        with suppress(Unsure, Raises):
            given = way.iterator(node.generators[0].iter)
        line.enter(way, at, number, awaited=True, given=given)
    elif number is not None:
        if not (isinstance(node, ast.Call) and _fits(line, node, number)):
            if one.op == "CALL_FUNCTION_EX" and effect.runs_escaped and (line.moves.functions or line.moves.generators):
                raise Lost  # what `*` stands before may run some of it before the call
            line.may_raise(way, at)
        if line.moves.codes[number].runs_later:
            line.gives(way, at, UNKNOWN)
        else:
            line.enter(way, at, number, awaited=True)
    elif isinstance(node, ast.Call):
        _own(line, way, node, callee, at)
    else:
        line.gives(way, at, line.unknown(way, at))


def _fits(line: Line, node: ast.Call, number: int) -> bool:
    """Say if a function certainly takes the arguments of a call."""
    code, starred = line.moves.codes[number], any(isinstance(one, ast.Starred) for one in node.args)
    return not (starred or node.keywords) and len(node.args) == code.positional == len(code.parameters)


def _own(line: Line, way: Frame, node: ast.Call, callee: Any, at: int) -> None:
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    receiver = way.known_or_not(owner) if owner is not None else None
    way.values.pop(node, None)
    try:
        value = way.value(node)
    except Unsure:
        value = UNKNOWN
    finally:
        if owner is not None and isinstance(callee, Own) and callee.name[1:] in pure.MUTATORS.get(type(receiver), ()):
            change(way, receiver)
    line.gives(way, at, line.unknown(way, at) if value is UNKNOWN else value)


_RUN: dict[str, Callable[[Line, Frame, Instruction, int], None]] = {
    **dict.fromkeys(words("LOAD_FAST LOAD_DEREF LOAD_GLOBAL LOAD_NAME LOAD_CLASSDEREF"), _load),
    **dict.fromkeys(words("STORE_FAST STORE_DEREF"), _store),
    **dict.fromkeys(words("DELETE_FAST DELETE_DEREF"), _delete),
    **dict.fromkeys(_ENDS, _evaluate),
    **dict.fromkeys(words("STORE_SUBSCR DELETE_SUBSCR"), _store_subscript),
    **dict.fromkeys(words("LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE"), _extend),
    **dict.fromkeys(words("RETURN_VALUE YIELD_VALUE"), _leave),
    **dict.fromkeys(words("RAISE_VARARGS RERAISE"), _raise),
    **dict.fromkeys(words("CALL CALL_FUNCTION_EX"), _call),
    "GET_ITER": _get_iter,
    "FOR_ITER": _for,
    "UNPACK_SEQUENCE": _unpack,
}
