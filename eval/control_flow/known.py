"""Facts of Python's own operations: which can run a program's functions, and which cannot raise."""

from __future__ import annotations

import builtins

from remedy.eval.control_flow.bytecode import Instruction


def words(text: str) -> frozenset[str]:
    """The words of a text, which is how names are listed here."""
    return frozenset(text.split())


_TYPES = (str, bytes, bytearray, list, tuple, dict, set, frozenset, int, float, complex, bool, range)
_READ_THEIR_ARGUMENTS = words(
    """join extend update sort union intersection difference symmetric_difference issubset issuperset isdisjoint
    intersection_update difference_update symmetric_difference_update fromkeys from_bytes"""
)

QUIET_METHODS = (
    frozenset(name for kind in _TYPES for name in dir(kind) if not name.startswith("_")) - _READ_THEIR_ARGUMENTS
)
"""Methods of builtin types that run nothing of a program that has no classes, whatever they are given."""

QUIET_BUILTINS = words(
    """abs ascii bin bool callable chr complex divmod enumerate filter float format hasattr hash hex id input
    int isinstance issubclass iter len map object oct ord pow print range repr reversed round slice str zip"""
) | {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
"""Builtins that run nothing of a program that has no classes when they are called."""

KEYED = words("sorted min max sort")
"""Functions that are done with their `key` when they return."""

READERS = {"list": False, "tuple": False, "set": False, "frozenset": False, "sorted": False, "dict": False, "sum": False, "min": False,
           "max": False, "any": True, "all": True}  # fmt: skip
"""Builtins that read one iterable and no more, and whether they may stop before its end."""

RUN_TEXT = words("exec eval compile __import__")
UNFOLLOWED_NAMES = words("__builtins__ __self__ __code__ f_code gi_code cr_code ag_code co_consts f_builtins modules")
"""With these a program can run code that is not its own, or its own with other variables: anything may happen then."""

DYNAMIC_NAMES = words(
    """globals setattr delattr vars locals __dict__ __globals__ f_globals _getframe __closure__ cell_contents
    __defaults__ __kwdefaults__ settrace setprofile getattr attrgetter methodcaller get_type_hints ForwardRef
    singledispatch singledispatchmethod dictConfig fileConfig"""
)
"""Names with which a program can reach and change its functions behind their names, or run what is written in a string."""

DYNAMIC_MODULES = words("traced_program inspect types pickle copyreg unittest pkgutil")

PLAIN_MODULES = words(
    """math cmath re string typing itertools operator heapq bisect random copy datetime hashlib json time fractions
    decimal statistics textwrap collections functools numbers __future__ calendar abc"""
)
"""Modules whose objects run a program's functions only where they are called or iterated over, but for UNPLAIN_NAMES."""

UNPLAIN_NAMES = words(
    """defaultdict DefaultDict cmp_to_key type UserDict UserList UserString ChainMap namedtuple cached_property
    singledispatch total_ordering __build_class__ __missing__ __class__ NamedTuple TypedDict property ABCMeta
    JSONEncoder JSONDecoder"""
)
"""What gives objects behaviour of a program's making without a class statement."""

DROP_MODULES = words(
    "weakref gc threading atexit sched asyncio concurrent multiprocessing io tempfile queue subprocess"
)
"""Modules that may run a program's functions when an object is dropped, or at any moment."""

DROP_NAMES = words("set_asyncgen_hooks unraisablehook showwarning formatwarning captureWarnings redirect_stderr")

QUIET_MODULES = words(
    """argparse array ast base64 binascii codecs colorsys configparser contextlib contextvars csv dataclasses difflib
    dis email enum errno fnmatch getopt getpass glob graphlib html ipaddress keyword linecache locale logging
    mimetypes numpy opcode os pathlib platform posixpath pprint reprlib secrets shlex shutil stat stringprep struct
    symtable sys sysconfig token tokenize tomllib traceback unicodedata urllib uuid warnings zlib zoneinfo"""
)
"""Other modules that run a program's functions only while one of their own is called, or by an object's operators."""

ENDS_ITERATION = words("StopIteration next throw send close __next__ scan_once")
"""Names without which no function of a program without classes raises what an iteration takes for its end."""

NEVER_RUN = words(
    """NOP RESUME PUSH_NULL POP_TOP COPY SWAP LOAD_CONST LOAD_FAST STORE_FAST DELETE_FAST LOAD_DEREF STORE_DEREF
    DELETE_DEREF LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL MAKE_FUNCTION LOAD_CLOSURE MAKE_CELL COPY_FREE_VARS
    BUILD_TUPLE BUILD_LIST BUILD_STRING BUILD_SLICE IS_OP KW_NAMES PRECALL RETURN_VALUE YIELD_VALUE LIST_APPEND
    LIST_TO_TUPLE PUSH_EXC_INFO POP_EXCEPT RETURN_GENERATOR LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS JUMP_FORWARD
    JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT RERAISE ASYNC_GEN_WRAP CHECK_EXC_MATCH POP_JUMP_FORWARD_IF_NONE
    POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE MATCH_MAPPING
    MATCH_SEQUENCE"""
)
"""Instructions that run no function of a program, whatever its objects are, but for UNFOLLOWED_NAMES."""

ITERATE = words(
    """CALL CALL_FUNCTION_EX FOR_ITER UNPACK_SEQUENCE UNPACK_EX LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE
    CONTAINS_OP BINARY_OP STORE_SUBSCR SEND GET_ANEXT GET_AITER GET_AWAITABLE GET_YIELD_FROM_ITER END_ASYNC_FOR
    BEFORE_WITH BEFORE_ASYNC_WITH WITH_EXCEPT_START IMPORT_STAR"""
)
"""Instructions that may run functions even if no object has any of the program's own making: they call or iterate."""

NEVER_RAISE = NEVER_RUN - words(
    "LOAD_FAST LOAD_DEREF LOAD_GLOBAL DELETE_FAST DELETE_DEREF DELETE_GLOBAL CHECK_EXC_MATCH"
)
"""Instructions that raise nothing of their own. RERAISE shows no exception that was not shown before."""

_PUSH_NOTHING = words(
    """NOP RESUME MAKE_CELL COPY_FREE_VARS SETUP_ANNOTATIONS LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE
    DICT_UPDATE DICT_MERGE PRINT_EXPR IMPORT_STAR END_ASYNC_FOR RETURN_VALUE RAISE_VARARGS RERAISE"""
)


def iterates(one: Instruction) -> bool:
    """Say if an instruction calls or iterates, whatever its objects are."""
    return one.op in ITERATE and (one.op != "BINARY_OP" or one.name not in ("+", "*", "/", "//", "%", "**", "<<", ">>"))


def pushed(one: Instruction) -> int:
    """Return how many values an instruction leaves on the stack."""
    if one.op == "UNPACK_SEQUENCE":
        return one.arg
    if one.op == "UNPACK_EX":
        return (one.arg & 0xFF) + 1 + (one.arg >> 8)
    if one.op in ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "CHECK_EG_MATCH"):
        return 2
    nothing = ("STORE_", "DELETE_", "POP_", "JUMP_")
    return 0 if one.op.startswith(nothing) or one.op in _PUSH_NOTHING else 1
