"""A second tracer, written apart from the package's own, to compare it with: slow, plain and with its own reading of values."""

from __future__ import annotations

import builtins
import re
import sys
from types import FrameType, ModuleType
from typing import Any

Step = tuple[str, int, str, Any]
"""Event, the line's number and text, and [(name, text, type)] of the locals or (text, type) of the value."""


class Unreadable(Exception):
    """The repr of some value ended the program."""


def steps(code: str) -> list[Step]:
    """What `sys.settrace` reports from the call of `main` to its return, of lines of `code`.

    Raises:
        SyntaxError, Unreadable
    """
    file = "<traced_program>"
    module = ModuleType("traced_program")
    vars(module)["__builtins__"] = builtins
    sys.modules["traced_program"] = module
    compiled = compile(code, file, "exec", dont_inherit=True)
    exec(compiled, vars(module))
    entry = module.main
    while hasattr(entry, "__wrapped__"):
        entry = entry.__wrapped__
    physical = [line + "\n" for line in re.split("\r\n|\r|\n", code)]
    found: list[Step] = []
    root: list[FrameType] = []
    last: dict[FrameType, int] = {}
    over: list[bool] = []
    unreadable: list[bool] = []

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != file or over:
            return None
        if not root:
            if frame.f_code is not entry.__code__:
                return None
            root.append(frame)
        number = last[frame] = frame.f_lineno if frame.f_lineno is not None else last[frame]
        source = physical[number - 1].replace("  # << START_OF_TRACE", "")
        try:
            found.append((event, number, source, state(frame, event, argument)))
        except BaseException:
            unreadable.append(True)
            over.append(True)
        if event == "return":
            del last[frame]
            if frame is root[0]:
                over.append(True)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        module.main()
    except BaseException:
        pass
    finally:
        sys.settrace(before)
        del sys.modules["traced_program"]
    if unreadable:
        raise Unreadable
    return found


def state(frame: FrameType, event: str, argument: Any) -> Any:
    """What a step shows."""
    if event in ("return", "exception"):
        return (written(argument), type(argument).__name__)
    return [
        (name, written(value), type(value).__name__ if isinstance(type(value).__name__, str) else shown(value))
        for name, value in list(frame.f_locals.items())
        if isinstance(name, str) and (name.isidentifier() or re.fullmatch(r"\.\d+", name))
    ]


def written(value: Any) -> str:
    """The repr without addresses and places of modules; where it raises, what a class without one has."""
    try:
        whole = f"{value!r}"
    except Exception as error:
        whole = long(value) if type(error) is ValueError else None
        whole = object.__repr__(value) if whole is None else whole
    text = re.sub(r" (at|@) 0x[0-9a-f]+|(?<=object) owner=[1-9]\d+", "", whole)
    return re.sub(r"<module '([\w.]+)' [^>]*>", r"<module '\1'>", text)


def long(value: Any) -> str | None:
    """The repr of what has a long int in it."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(100_000)
    try:
        return f"{value!r}"
    except Exception:
        return None
    finally:
        sys.set_int_max_str_digits(before)


def shown(value: Any) -> str:
    """The name of a type that hides it."""
    return type.__repr__(type(value)).split(".")[-1].rstrip("'>")
