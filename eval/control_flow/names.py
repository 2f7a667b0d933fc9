"""Variables that stand for one function of the program whenever they are bound, and what the program's names tell of it."""

from __future__ import annotations

import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from remedy.eval.control_flow.bytecode import Bytecode, Code, Instruction
from remedy.eval.control_flow.known import (
    DROP_MODULES,
    DROP_NAMES,
    DYNAMIC_MODULES,
    DYNAMIC_NAMES,
    ENDS_ITERATION,
    PLAIN_MODULES,
    QUIET_MODULES,
    RUN_TEXT,
    UNFOLLOWED_NAMES,
    UNPLAIN_NAMES,
)

Variable = tuple[int, str]
"""The code object whose variable it is (the module's: GLOBAL) and its name."""
GLOBAL = 0


class Names:
    """A program's variables. `functions`: the code of the function that a variable always stands for."""

    def __init__(self, bytecode: Bytecode) -> None:
        self.codes = bytecode.codes
        instructions = [one for code in self.codes for one in code.instructions]
        self._used = {one.name for one in instructions if not one.op.startswith(("BINARY", "KW_NAMES", "LOAD_CONST"))}
        said = {
            word for one in instructions if one.op == "LOAD_CONST" for word in re.findall(r"\b_\w+|\w+_\w+", one.name)
        }
        modules = _modules(instructions)
        self.unfollowed = bool(
            modules - PLAIN_MODULES - QUIET_MODULES - DROP_MODULES - DYNAMIC_MODULES
            or (self._used | said) & UNFOLLOWED_NAMES
            or any(one.name in RUN_TEXT and not one.op.endswith(("ATTR", "METHOD")) for one in instructions)
        )
        """Whether anything may run at any time, and raise, since the program imports or runs what is not known here."""
        star = any(one.op == "IMPORT_STAR" for one in instructions)
        reached = self._used & DYNAMIC_NAMES or said & {name for name in DYNAMIC_NAMES if "_" in name}
        self.dynamic = self.unfollowed or star or bool(reached or modules & DYNAMIC_MODULES)
        """Whether functions can be reached and replaced in ways that their names do not show."""
        unplain = self._used & UNPLAIN_NAMES - ({"type"} if _asks_types(instructions) else set())
        classes = any(
            one.op == "LOAD_BUILD_CLASS" or (one.op == "STORE_ATTR" and one.name.startswith("_"))
            for one in instructions
        )
        self.plain = not (self.dynamic or classes or modules - PLAIN_MODULES or unplain)
        """Whether all objects are of Python's own types, whose operators run nothing of the program's."""
        self.stored_attributes = {one.name for one in instructions if one.op in ("STORE_ATTR", "DELETE_ATTR")}
        """Attributes that the program gives objects, functions among them."""
        drops = modules & DROP_MODULES or self._used & DROP_NAMES or self.stored_attributes & {"stderr"}
        self.at_any_time = self.unfollowed or bool(drops or any(_finalizes(code, self.codes) for code in self.codes))
        """Whether functions may run when an object is dropped, or by themselves."""
        self.may_swallow = not self.plain or bool(self._used & ENDS_ITERATION)
        """Whether an exception of a function may end in what called it, if that is no code of the program."""
        self.raises_again = any(one.op == "RAISE_VARARGS" and one.arg == 0 for one in instructions)
        """Whether an exception may leave a place without being shown there."""
        self.returning = {code.number for code in self.codes if _returns_values(code)}
        """Codes that may return something else than None."""
        bound = Counter(variable for code in self.codes for variable in self._bound(code))
        self._globals = {name for owner, name in bound if owner == GLOBAL}
        self.functions = {
            variable: number
            for variable, number in self._defined()
            if bound[variable] == 1
            and not self.dynamic
            and not (
                variable[0] == GLOBAL and (hasattr(builtins, variable[1]) or variable[1] in self.stored_attributes)
            )
        }

    def variable(self, code: Code, op: str, name: str) -> Variable | None:
        """Return what an instruction names; None: a variable of a class body, or no variable."""
        kind = op.partition("_")[2]
        if kind == "GLOBAL" or (kind == "NAME" and code.number == GLOBAL):
            return GLOBAL, name
        if kind == "FAST":
            return code.number, name
        if kind in ("DEREF", "CLASSDEREF"):
            owner: Code | None = code
            while owner is not None and name not in owner.cells:
                owner = None if owner.parent is None else self.codes[owner.parent]
            return (owner.number, name) if owner else None
        return None

    def is_builtin(self, name: str) -> bool:
        """Say if a global name can only be Python's own."""
        return hasattr(builtins, name) and name not in self._globals and not self.dynamic

    def _bound(self, code: Code) -> Iterator[Variable]:
        """The variables that a code object binds or deletes, once for each place where it does."""
        for name in code.parameters:
            yield code.number, name
        for one in code.instructions:
            if one.op.startswith(("STORE_", "DELETE_")) and (variable := self.variable(code, one.op, one.name)):
                yield variable

    def _defined(self) -> Iterator[tuple[Variable, int]]:
        """The variables that a function is stored in as soon as it is made."""
        for code in self.codes:
            for at, stores in enumerate(code.instructions[2:], start=2):
                loads, makes = code.instructions[at - 2 : at]
                made = loads.code is not None and makes.op == "MAKE_FUNCTION" and stores.op.startswith("STORE_")
                if made and code.before(at) is makes:
                    variable = self.variable(code, stores.op, stores.name)
                    if variable is not None and loads.code is not None:
                        yield variable, loads.code


def _modules(instructions: list[Instruction]) -> set[str]:
    """The modules that are imported, and those that are reached through these."""
    found = {one.name.split(".")[0] for one in instructions if one.op == "IMPORT_NAME"}
    names = {stores.name for one, stores in pairwise(instructions) if one.op == "IMPORT_NAME"}
    for owner, one in pairwise(instructions):
        if one.op == "IMPORT_FROM" or (one.op in ("LOAD_ATTR", "LOAD_METHOD") and owner.name in names):
            found |= {one.name.lstrip("_")} & sys.stdlib_module_names
    return {name if name == "__future__" else name.lstrip("_") for name in found}


def _finalizes(code: Code, codes: list[Code]) -> bool:
    """Say if something is named `__del__` besides a function that says so itself."""
    for at, one in enumerate(code.instructions):
        if "__del__" in one.name and one.op == "STORE_NAME":
            loads, makes = code.instructions[at - 2 : at]
            made = makes.op == "MAKE_FUNCTION" and code.before(at) is makes and loads.code is not None
            if not made or codes[loads.code or 0].name != "__del__":
                return True
        elif one.op in ("STORE_ATTR", "KW_NAMES", "LOAD_CONST") and re.search(r"(?<![^\W_])del(?![^\W_])", one.name):
            return True  # also where the name is put together
    return False


def _asks_types(instructions: list[Instruction]) -> bool:
    """Say if `type` is only called with one argument, which makes no type."""
    calls = zip(instructions, instructions[2:])
    return all(two.op == "PRECALL" and two.arg == 1 for one, two in calls if one.name == "type" and "LOAD" in one.op)


def _returns_values(code: Code) -> bool:
    given = [code.before(at) for at, one in enumerate(code.instructions) if one.op == "RETURN_VALUE"]
    return any(last is None or (last.op, last.name) != ("LOAD_CONST", "None") for last in given)
