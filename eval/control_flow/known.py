"""What is known of Python's own operations: which can run a program's functions, and which cannot raise."""

from __future__ import annotations

import builtins

from remedy.eval.control_flow.bytecode import Instruction


def words(text: str) -> frozenset[str]:
    """The words of a text, which is how names are listed here."""
    return frozenset(text.split())


_TYPES = (str, bytes, bytearray, list, tuple, dict, set, frozenset, int, float, complex, bool, range)
_READ_THEIR_ARGUMENTS = words(
    """
    join extend update sort union intersection difference symmetric_difference issubset issuperset isdisjoint
    intersection_update difference_update symmetric_difference_update fromkeys from_bytes
    """
)

QUIET_METHODS = (
    frozenset(name for kind in _TYPES for name in dir(kind) if not name.startswith("_")) - _READ_THEIR_ARGUMENTS
)
"""Methods of builtin types that run nothing of a program that has no classes, whatever they are given."""

QUIET_BUILTINS = words(
    """
    abs ascii bin bool callable chr complex divmod enumerate filter float format hasattr hash hex id input
    int isinstance issubclass iter len map object oct ord pow print range repr reversed round slice str zip
    """
) | {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
"""Builtins that run nothing of a program that has no classes when they are called."""

KEEP_NOTHING = words("sorted min max sum any all list tuple set frozenset dict")
"""Builtins that are done with their arguments when they return."""

READERS = {"list": False, "tuple": False, "set": False, "frozenset": False, "sorted": False, "dict": False, "sum": False, "min": False,
           "max": False, "any": True, "all": True}  # fmt: skip
"""Builtins that read one iterable and no more, and whether they may stop before its end."""

DYNAMIC_NAMES = words(
    """
    globals exec eval setattr delattr vars locals compile __import__ __dict__ __globals__ __code__ __builtins__
    modules _getframe __closure__ __defaults__ __kwdefaults__ settrace setprofile getattr attrgetter
    methodcaller
    """
)
"""Names with which a program can reach and change its functions behind their names."""

DYNAMIC_MODULES = words(
    """
    traced_program __main__ importlib inspect gc ctypes builtins types pickle copyreg runpy unittest doctest imp
    pkgutil
    """
)

PLAIN_MODULES = words(
    """
    math cmath re string typing itertools operator heapq bisect random copy datetime hashlib json time fractions
    decimal statistics textwrap collections functools numbers __future__ calendar
    """
)
"""Modules whose objects run a program's functions only where they are called or iterated over, but for UNPLAIN_NAMES."""

UNPLAIN_NAMES = words(
    """
    defaultdict cmp_to_key type UserDict UserList UserString ChainMap namedtuple cached_property singledispatch
    total_ordering __build_class__ __missing__ __class__ NamedTuple TypedDict
    """
)
"""What gives objects behaviour of a program's making without a class statement."""

DROP_MODULES = words("weakref gc signal threading atexit sched asyncio concurrent multiprocessing")
"""Modules that may run a program's functions at any moment."""

ENDS_ITERATION = frozenset({"StopIteration", "next", "throw", "send", "close", "__next__"})
"""Names without which no function of a program without classes raises what an iteration takes for its end."""

NEVER_RUN = words(
    """
    NOP RESUME PUSH_NULL POP_TOP COPY SWAP LOAD_CONST LOAD_FAST STORE_FAST DELETE_FAST LOAD_DEREF STORE_DEREF
    DELETE_DEREF LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL MAKE_FUNCTION LOAD_CLOSURE MAKE_CELL COPY_FREE_VARS
    BUILD_TUPLE BUILD_LIST BUILD_STRING BUILD_SLICE IS_OP KW_NAMES PRECALL RETURN_VALUE YIELD_VALUE LIST_APPEND
    LIST_TO_TUPLE PUSH_EXC_INFO POP_EXCEPT RETURN_GENERATOR LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS JUMP_FORWARD
    JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT RERAISE PREP_RERAISE_STAR ASYNC_GEN_WRAP SETUP_ANNOTATIONS
    CHECK_EXC_MATCH POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE
    POP_JUMP_BACKWARD_IF_NOT_NONE MATCH_MAPPING MATCH_SEQUENCE
    """
)
"""Instructions that run no function of a program, whatever its objects are."""

ITERATE = words(
    """
    CALL CALL_FUNCTION_EX FOR_ITER UNPACK_SEQUENCE UNPACK_EX LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE
    CONTAINS_OP BINARY_OP STORE_SUBSCR SEND GET_ANEXT GET_AITER GET_AWAITABLE GET_YIELD_FROM_ITER END_ASYNC_FOR
    BEFORE_WITH BEFORE_ASYNC_WITH WITH_EXCEPT_START IMPORT_STAR
    """
)
"""Instructions that may run functions even if no object has any of the program's own making: they call or iterate."""

NEVER_RAISE = NEVER_RUN - {
    "LOAD_FAST",
    "LOAD_DEREF",
    "LOAD_GLOBAL",
    "DELETE_FAST",
    "DELETE_DEREF",
    "DELETE_GLOBAL",
    "CHECK_EXC_MATCH",
}
"""Instructions that raise nothing of their own. RERAISE shows no exception that was not shown before."""

TESTS = words(
    """
    POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE
    JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP UNARY_NOT
    """
)
"""Tests of truth, which only objects of a program's making can fail."""

_PUSH_NOTHING = words(
    """
    NOP RESUME MAKE_CELL COPY_FREE_VARS SETUP_ANNOTATIONS LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE
    DICT_UPDATE DICT_MERGE PRINT_EXPR IMPORT_STAR END_ASYNC_FOR RETURN_VALUE RAISE_VARARGS RERAISE
    """
)


def iterates(one: Instruction) -> bool:
    """Whether an instruction calls or iterates, whatever its objects are."""
    return one.op in ITERATE and (one.op != "BINARY_OP" or one.name not in ("+", "*", "/", "//", "%", "**", "<<", ">>"))


def pushed(one: Instruction) -> int:
    """How many values an instruction leaves on the stack."""
    if one.op == "UNPACK_SEQUENCE":
        return one.arg
    if one.op == "UNPACK_EX":
        return (one.arg & 0xFF) + 1 + (one.arg >> 8)
    if one.op in ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "CHECK_EG_MATCH"):
        return 2
    nothing = ("STORE_", "DELETE_", "POP_", "JUMP_")
    return 0 if one.op.startswith(nothing) or one.op in _PUSH_NOTHING else 1
