"""Effects of instructions: which functions each may run, and whether it may raise.

A program is *plain* if its objects have built-in types and it reaches functions only by name. In others everything may run and
raise at any moment. In a plain program, a call by a name that is bound once runs that function, and a comprehension its own code.
Functions read as values or without a name, and generators, have *escaped*: any unknown callee or iterable may run them.
"""

from __future__ import annotations

import builtins
import sys
from collections import Counter
from collections.abc import Iterator

from remedy.eval.control_flow.bytecode import UNPLACED, Bytecode, Code, Instruction


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN_MODULES = _words(
    """math cmath re string typing itertools operator heapq bisect random copy datetime hashlib json time fractions
    decimal statistics textwrap collections functools numbers __future__ calendar abc"""
)
"""Modules whose objects run a program's functions only when called or iterated over, except _UNPLAIN_NAMES."""
_UNPLAIN_NAMES = _words(
    """exec eval globals vars locals setattr delattr getattr attrgetter methodcaller get_field get_type_hints ForwardRef
    singledispatch singledispatchmethod tb_frame gi_frame cr_frame ag_frame defaultdict DefaultDict cmp_to_key UserDict
    UserList UserString ChainMap namedtuple cached_property total_ordering NamedTuple TypedDict property ABCMeta
    JSONEncoder JSONDecoder"""
)
"""Names that run text, reach functions other than by name, or make types without a class statement."""
_UNPLAIN = _words("LOAD_BUILD_CLASS STORE_ATTR DELETE_ATTR IMPORT_STAR")
_CONSUMERS = _words("list tuple set frozenset dict sorted sum min max any all .join .extend .update .sort")
"""Callees that have finished with their generator expression or `key` when they return."""
_ENDS_ITERATION = _words("StopIteration next throw send close scan_once")
"""Without these names, no function of a plain program raises what an iteration takes for its end."""
_ITERATE = _words(
    """CALL CALL_FUNCTION_EX FOR_ITER UNPACK_SEQUENCE UNPACK_EX LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE
    CONTAINS_OP BINARY_OP STORE_SUBSCR SEND GET_ANEXT GET_AITER GET_AWAITABLE GET_YIELD_FROM_ITER END_ASYNC_FOR
    BEFORE_WITH BEFORE_ASYNC_WITH WITH_EXCEPT_START"""
)
"""Instructions that call or iterate."""
_NEVER_RAISE = _words(
    """NOP RESUME PUSH_NULL POP_TOP COPY SWAP LOAD_CONST STORE_FAST STORE_DEREF STORE_GLOBAL MAKE_FUNCTION LOAD_CLOSURE
    MAKE_CELL COPY_FREE_VARS BUILD_TUPLE BUILD_LIST BUILD_STRING BUILD_SLICE IS_OP UNARY_NOT KW_NAMES PRECALL
    RETURN_VALUE YIELD_VALUE LIST_APPEND LIST_TO_TUPLE PUSH_EXC_INFO POP_EXCEPT RETURN_GENERATOR ASYNC_GEN_WRAP
    LOAD_ASSERTION_ERROR RERAISE MATCH_MAPPING MATCH_SEQUENCE"""
)
"""Instructions, besides jumps, that never raise in plain programs."""


class Effects:
    """Effects of a program's instructions."""

    def __init__(self, bytecode: Bytecode) -> None:
        codes, self._values = bytecode.codes, frozenset(bytecode.values)
        instructions = [instruction for code in codes for instruction in code.instructions]
        names = {instruction.name for instruction in instructions}
        self.plain = all(map(_is_plain, instructions)) and "type" not in self._values
        self.may_swallow = not self.plain or bool(names & _ENDS_ITERATION)
        """Whether an exception may end in a caller that is not code of the program."""
        ops = [{instruction.op for instruction in code.instructions} for code in codes]
        self._later = {number for number, own_ops in enumerate(ops) if "RETURN_GENERATOR" in own_ops}
        """Generators and coroutines: a call runs none of their code."""
        stores = [instruction for instruction in instructions if instruction.op.startswith(("STORE_", "DELETE_"))]
        self._bound = Counter(instruction.name for instruction in stores)
        self._functions = {
            name: number
            for name, number in _functions(codes)
            if self.plain and self._bound[name] == 1 and name not in self._values and number not in self._later
        }
        """Code of the function that a name always stands for."""
        known_functions = {*self._functions.values(), *(self.certain(instruction) for instruction in instructions)}
        known_functions.update(number for instruction in instructions for number in self.given(instruction))
        self.escaped = frozenset(range(1, len(codes))) - (known_functions if self.plain else set())
        """Functions and generators that anything unknown may run."""

    def certain(self, instruction: Instruction) -> int | None:
        """Return the only function that an instruction runs; None if there are others."""
        if instruction.op != "CALL" or not self.plain:
            return None
        number = self._functions.get(instruction.name, instruction.code)
        return None if number in self._later else number

    def given(self, instruction: Instruction) -> list[int]:
        """Return the functions and generator expressions that only this call may run."""
        name = instruction.name
        return instruction.given if name in _CONSUMERS - self._values and not self._bound[name] else []

    def opens(self, instruction: Instruction) -> bool:
        """Return whether an instruction may run escaped functions, any number of times."""
        makes = instruction.op == "CALL" and instruction.code is not None
        adds = instruction.op == "BINARY_OP" and instruction.name in ("+", "*", "/", "//", "%", "**")
        return instruction.op in _ITERATE and not makes and not adds

    def raises(self, instruction: Instruction) -> bool:
        """Return whether an instruction itself may raise."""
        op, name = instruction.op, instruction.name
        known = op == "LOAD_GLOBAL" and hasattr(builtins, name) and not self._bound[name]
        return not self.plain or not (known or op in _NEVER_RAISE or "JUMP" in op)


def _is_plain(instruction: Instruction) -> bool:
    op, name = instruction.op, instruction.name
    reached = op in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") and name.lstrip("_") in sys.stdlib_module_names
    if op == "IMPORT_NAME" or reached:
        return name.split(".")[0] in _PLAIN_MODULES
    makes_type = name == "type" and op.startswith("CALL") and (op, instruction.arg) != ("CALL", 1)
    hidden = name.startswith("__") and name != "__name__"
    return not (makes_type or hidden or name in _UNPLAIN_NAMES or name == UNPLACED or op in _UNPLAIN)


def _functions(codes: list[Code]) -> Iterator[tuple[str, int]]:
    """Yield names with the functions that are stored in them when made."""
    for code in codes:
        instructions = code.instructions
        targets = {instruction.target for instruction in instructions}
        for index, (loads, makes, stores) in enumerate(zip(instructions, instructions[1:], instructions[2:])):
            is_made = makes.op == "MAKE_FUNCTION" and stores.op.startswith("STORE_") and index + 2 not in targets
            if is_made and loads.code is not None and not hasattr(builtins, stores.name):
                yield stores.name, loads.code
