"""Each instruction by the expression that it ends, or by what it does with one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.evaluator import pure
from remedy.eval.control_flow.evaluator.calls import call, read_on
from remedy.eval.control_flow.evaluator.line import Line, Lost
from remedy.eval.control_flow.evaluator.values import (
    CHANGE,
    UNKNOWN,
    Function,
    Generator,
    Iter,
    Mapped,
    Own,
    Raises,
    Reading,
    Unsure,
)
from remedy.eval.control_flow.evaluator.way import Way, change, changed, following
from remedy.eval.control_flow.known import NEVER_RUN, words
from remedy.eval.control_flow.moves import Point


def run(line: Line, way: Way) -> None:
    """Evaluate the instruction that a way is at: into outcomes of the line, or ways that are open."""
    at = way.at
    one = line.code.instructions[at]
    if one.op in _RUN:
        _RUN[one.op](line, way, one, at)
    elif one.op in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"):
        line.edge(way, at, one.target)
    elif "JUMP" in one.op:
        _branch(line, way, one, at)
    elif one.op in NEVER_RUN:
        line.may_raise(way, at)
        line.done(way, at)
    elif one.op in ("SEND", "RETURN_GENERATOR") or one.target is not None:
        raise Lost
    else:
        line.unknown(way, at)
        line.gives(way, at, UNKNOWN)


def _branch(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = _tested(line, way, at)
    if one.op.endswith("_NONE"):
        jumps = None if value is UNKNOWN else (value is None) != one.op.endswith("NOT_NONE")
    else:
        true = pure.truth(value)
        jumps = None if true is None else true == ("TRUE" in one.op)
    if jumps is None:
        line.may_raise(way, at)
    if jumps is not False:
        line.edge(way.copy(), at, one.target)
    if jumps is not True:
        line.done(way, at)


def _tested(line: Line, way: Way, at: int) -> Any:
    before = line.code.before(at)
    if before is not None and before.op in ("STORE_FAST", "STORE_DEREF"):
        return way.locals.get(before.name, UNKNOWN)  # of an assignment that is tested
    return way.known_or_not(line.made(way, at))


def _load(line: Line, way: Way, one: Instruction, at: int) -> None:
    names, node = line.source.names, way.node(at)
    value: Any = UNKNOWN
    variable = names.variable(line.code, one.op, one.name)
    in_slot = one.op in ("LOAD_FAST", "LOAD_DEREF")
    if variable in names.functions:
        value = Function(names.functions[variable])
    elif in_slot:
        value = way.locals.get(one.name, UNKNOWN)
    elif one.op == "LOAD_GLOBAL" and names.is_builtin(one.name):
        value = Own(one.name)
    elif variable in names.modules:
        value = Own(names.modules[variable])
    if one.name not in way.locals if in_slot else value is UNKNOWN or not names.all_defined:
        line.may_raise(way, at)
    line.gives(way, at, value if isinstance(node, ast.Name) and node.id == one.name else UNKNOWN)


def _store(line: Line, way: Way, one: Instruction, at: int) -> None:
    way.bind(one.name, _given(line, way, way.node(at)))
    line.done(way, at)


def _given(line: Line, way: Way, target: ast.AST | None) -> Any:
    """What a target is given."""
    if target in line.source.stored:
        return way.known_or_not(line.source.stored[target])
    return way.values.get(target, UNKNOWN) if target is not None else UNKNOWN


def _delete(line: Line, way: Way, one: Instruction, at: int) -> None:
    line.may_raise(way, at)
    way.unbind(one.name)
    line.done(way, at)


_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Set, ast.Dict)


def _operator(line: Line, way: Way, one: Instruction, at: int) -> None:
    """An instruction that ends an expression whose parts are evaluated."""
    node = way.node(at)
    if isinstance(node, ast.AugAssign):
        _augment(line, way, node, at)
        return
    way.values.pop(node, None)  # type: ignore[arg-type]
    try:
        value = way.value(node) if isinstance(node, _OPERATORS) else _compared(line, way, at, node)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        value = UNKNOWN
        line.quiet(way, at)
    line.gives(way, at, value)


def _augment(line: Line, way: Way, node: ast.AugAssign, at: int) -> None:
    way.values.pop(node, None)
    before, by = way.known_or_not(node.target), way.known_or_not(node.value)
    mutable = type(before) in CHANGE or before is UNKNOWN
    try:
        value = way.value(node)
    except Raises:
        if mutable:
            change(way, before)
        line.raises(way, at)
        return
    except Unsure:
        value = UNKNOWN
        if mutable and (by is UNKNOWN or isinstance(by, Iter | Mapped | Generator)):
            line.unknown(way, at)  # it may be read
        else:
            if mutable and type(by) not in (int, float, bool, complex, type(None)):
                change(way, before)
            line.quiet(way, at)
    else:
        if mutable:
            changed(way, node.target, before, value)
    line.gives(way, at, value)


def _format(line: Line, way: Way, one: Instruction, at: int) -> None:
    """A value in an f-string, of which `str` makes a text whatever it is if nothing says how."""
    node = way.node(at)
    simple = not one.arg & 4 and way.known_or_not(line.made(way, at)) is not UNKNOWN
    if not simple and way.known_or_not(node) is UNKNOWN:
        line.quiet(way, at)
    line.done(way, at)


def _compared(line: Line, way: Way, at: int, node: ast.AST | None) -> Any:
    if isinstance(node, ast.ExceptHandler):
        return pure.caught(way.loops.get(-1, UNKNOWN), way.value(line.made(way, at)))
    if not isinstance(node, ast.Compare) or (nth := line.source.compared(line.code.number, at, node)) is None:
        raise Unsure
    left = node.left if nth == 0 else node.comparators[nth - 1]
    return pure.compare(type(node.ops[nth]).__name__, way.value(left), way.value(node.comparators[nth]))


def _attribute(line: Line, way: Way, one: Instruction, at: int) -> None:
    node = way.node(at)
    owner = way.known_or_not(node.value) if isinstance(node, ast.Attribute) else UNKNOWN
    has = None if one.name in line.source.names.stored_attributes else pure.has_attribute(owner, one.name)
    if has is False:
        line.raises(way, at)
        return
    if not has:
        line.quiet(way, at)
    module = has and isinstance(owner, Own)
    line.gives(way, at, Own(f"{owner.name}.{one.name}") if module else UNKNOWN)


def _store_subscript(line: Line, way: Way, one: Instruction, at: int) -> None:
    node = way.node(at)
    target, key_of = (node.value, node.slice) if isinstance(node, ast.Subscript) else (None, None)
    before, key, keeps = way.known_or_not(target), way.known_or_not(key_of), False
    try:
        if one.op == "DELETE_SUBSCR":
            after = pure.deleted(before, key)
        else:
            after = pure.stored(before, key, _given(line, way, node))
            keeps = type(before) is dict and key in before
    except Raises:
        change(way, before)
        line.raises(way, at)
        return
    except Unsure:
        if type(before) in CHANGE and type(key) is not slice:
            change(way, before)
            line.quiet(way, at)
        else:
            line.unknown(way, at)
    else:
        changed(way, target, before, after, keeps)
    line.done(way, at)


def _extend(line: Line, way: Way, one: Instruction, at: int) -> None:
    """What is made of `*` or `**`, or of a long literal."""
    value = way.known_or_not(line.made(way, at))
    sized = {"LIST_EXTEND": (list, tuple, str, bytes, dict, set, frozenset, range, Iter), "DICT_UPDATE": (dict,), "DICT_MERGE": (dict,)}
    if type(value) not in sized.get(one.op, (str, frozenset)):
        line.quiet(way, at) if value is not UNKNOWN and not isinstance(value, Mapped | Generator) else line.unknown(way, at)
    elif one.op == "DICT_MERGE":
        line.may_raise(way, at)
    line.done(way, at)


def _get_iter(line: Line, way: Way, one: Instruction, at: int) -> None:
    node = line.made(way, at)
    try:
        value = way.iterator(node)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        value = UNKNOWN
    if value is UNKNOWN:
        line.quiet(way, at)
    way.loops[at + 1] = value
    line.done(way, at)


def _for(line: Line, way: Way, one: Instruction, at: int) -> None:
    iterator = way.loops.get(at, UNKNOWN)
    way.values = {}
    if isinstance(iterator, Generator):
        if line.effects[at].reads is None:
            raise Lost
        line.resume(way, at, iterator, Reading("for", iterator))
        return
    if isinstance(iterator, Mapped):
        read_on(line, way, at, Reading("for", iterator))
        return
    found: tuple[Any, Any] | None = UNKNOWN, UNKNOWN
    if isinstance(iterator, Iter):
        try:
            found = following(iterator, way.locals)
        except Raises:
            line.raises(way, at)
            return
        except Unsure:
            found = UNKNOWN, iterator._replace(at=iterator.at + 1)
            line.may_raise(way, at)  # its size may have changed
            line.edge(way.copy(), at, one.target)
    else:
        line.unknown(way, at)
        line.edge(way.copy(), at, one.target)
    line.next_item(way, at, found)


def _unpack(line: Line, way: Way, one: Instruction, at: int) -> None:
    target = way.node(at)
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    value, items = _given(line, way, target), [UNKNOWN] * len(parts)
    try:
        if one.op == "UNPACK_SEQUENCE":
            items = pure.unpacked(value, one.arg)
        elif len(pure.listed(value)) < len(parts) - 1:
            raise Raises("ValueError")
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        line.unknown(way, at)
    if len(parts) == len(items):
        way.values.update(zip(parts, items))
    line.done(way, at)


def _add(line: Line, way: Way, one: Instruction, at: int) -> None:
    """A comprehension adds to what it makes."""
    made = line.source.made.get(line.code.number)
    key = made.key if isinstance(made, ast.DictComp) else made.elt if isinstance(made, ast.SetComp) else None
    try:
        pure.attempt(hash, pure.known(way.value(key)))
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        line.quiet(way, at)
    line.done(way, at)


def _handled(line: Line, way: Way, one: Instruction, at: int) -> None:
    if line.code.instructions[at + 1].op != "RERAISE":
        way.loops[-1] = UNKNOWN
    line.done(way, at)


def _pop(line: Line, way: Way, one: Instruction, at: int) -> None:
    if line.effects[at].closes is not None:
        raise Lost
    line.done(way, at)


def _return(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = way.known_or_not(line.made(way, at))
    left = way.frame(at, Point.RUN)._replace(below=None) if one.op == "YIELD_VALUE" else None
    how = Point.RETURNED if left is None else Point.YIELDED
    came = value if isinstance(value, Function) else UNKNOWN  # of others the text tells
    line.leave(way, line.line_of(at), how, came, left, _text(line, way, at))


def _text(line: Line, way: Way, at: int) -> str | None:
    """The text of what an instruction gives back that was just loaded: a constant, or what a variable has kept."""
    last = line.code.before(at)
    if last is None:
        return None
    if last.op == "LOAD_CONST" and last.code is None:
        return last.name or None
    return way.shown.get(last.name) if last.op == "LOAD_FAST" and way.shown and last.name in way.kept else None


def _raise(line: Line, way: Way, one: Instruction, at: int) -> None:
    if one.arg == 0:
        line.unwind(way, at, {at}, UNKNOWN)
    line.raises(way, at)


def _raise_again(line: Line, way: Way, one: Instruction, at: int) -> None:
    places = line.moves.handlers.places(line.code.number, at)
    line.unwind(way, at, places, way.loops.get(-1, UNKNOWN))


def _import(line: Line, way: Way, one: Instruction, at: int) -> None:
    """Modules of Python's own run nothing of the program."""
    line.may_raise(way, at)
    line.done(way, at)


def _build(line: Line, way: Way, one: Instruction, at: int) -> None:
    if one.arg == 0:
        line.done(way, at)
    else:
        _operator(line, way, one, at)


_RUN: dict[str, Callable[[Line, Way, Instruction, int], None]] = {
    **dict.fromkeys(words("LOAD_FAST LOAD_DEREF LOAD_GLOBAL LOAD_NAME LOAD_CLASSDEREF"), _load),
    **dict.fromkeys(words("STORE_FAST STORE_DEREF"), _store),
    **dict.fromkeys(words("DELETE_FAST DELETE_DEREF"), _delete),
    **dict.fromkeys(words("BINARY_OP BINARY_SUBSCR COMPARE_OP IS_OP CONTAINS_OP CHECK_EXC_MATCH"), _operator),
    **dict.fromkeys(words("UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT UNARY_NOT"), _operator),
    **dict.fromkeys(words("BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP"), _build),
    **dict.fromkeys(words("LOAD_ATTR LOAD_METHOD"), _attribute),
    **dict.fromkeys(words("STORE_SUBSCR DELETE_SUBSCR"), _store_subscript),
    **dict.fromkeys(words("LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE"), _extend),
    **dict.fromkeys(words("RETURN_VALUE YIELD_VALUE"), _return),
    **dict.fromkeys(words("IMPORT_NAME IMPORT_FROM"), _import),
    **dict.fromkeys(words("CALL CALL_FUNCTION_EX"), call),
    **dict.fromkeys(words("SET_ADD MAP_ADD"), _add),
    **dict.fromkeys(words("UNPACK_SEQUENCE UNPACK_EX"), _unpack),
    "FORMAT_VALUE": _format,
    "POP_EXCEPT": _handled,
    "GET_ITER": _get_iter,
    "FOR_ITER": _for,
    "POP_TOP": _pop,
    "RAISE_VARARGS": _raise,
    "RERAISE": _raise_again,
}
