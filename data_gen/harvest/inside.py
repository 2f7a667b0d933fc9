"""Runs of a package's examples, tests and calls in the sandbox.

`jobs` puts this text at the start of a program, so it imports the standard library alone. The package runs in the same
process: results are untrusted.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import itertools
import os
import random
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 400
"""Length of a call's arguments or result as text, at most."""
MOST_ITEMS = 64
"""Items of a returned iterator, at most."""
MOST_CALLS = 64
"""Different calls of a function that are recorded, at most."""
RECORD_SECONDS, TEST_SECONDS = 10.0, 5.0
"""CPU seconds of a run of examples or tests, and of one test; what was recorded is kept."""
MOST_LINES = 100_000
"""Trace events of a tried call, at most."""
MOST_SECONDS = 2.0
"""CPU seconds of a tried call, at most; then the process is killed, since one C function may never end."""
_clock = time.process_time  # a busy machine ends nothing early
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class TooLong(BaseException):
    """End of a call or test that runs too long.

    A BaseException, so that most code does not catch it.
    """


def literal(value: Any) -> str:
    """Write a value that is made of literals.

    Raises:
        ValueError: it holds something else, or is too long.
    """
    # Looked through before `repr`, which could run the package's code or write gigabytes.
    left, waiting = MOST_CHARACTERS, [value]
    while waiting:
        part = waiting.pop()
        exact_type, left = type(part), left - 1
        if (
            left < 0
            or (exact_type is int and part.bit_length() > 1000)
            or (exact_type in (str, bytes) and len(part) > left)
        ):
            raise ValueError("too long")
        if exact_type is dict:
            waiting += itertools.chain.from_iterable(itertools.islice(part.items(), left + 1))
        elif exact_type in (list, tuple, set):
            waiting += itertools.islice(part, left + 1)
        elif exact_type not in _PLAIN or (exact_type in (float, complex) and not abs(part) < float("inf")):
            raise ValueError("no literal")
    text = repr(value)
    if len(text) > MOST_CHARACTERS:
        raise ValueError("too long")
    return text


def values(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Read the positional and keyword arguments of a call from text.

    Raises:
        ValueError, SyntaxError, TypeError, RecursionError, MemoryError: they are no literals.
    """
    call = ast.parse(f"f({text})", mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or None in [n.arg for n in call.keywords]:
        raise ValueError("no arguments")
    given = [ast.literal_eval(argument) for argument in call.args]
    return given, {str(argument.arg): ast.literal_eval(argument.value) for argument in call.keywords}


def arguments(frame: types.FrameType, defaults: dict[str, Any]) -> str:
    """Write the arguments of a call at its start, without defaults.

    Raises:
        ValueError: some are no literals.
    """
    code, locals_ = frame.f_code, frame.f_locals
    names, count, keyword_only = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    star_names = iter(names[count + keyword_only :])
    rest = locals_[next(star_names)] if code.co_flags & 4 else ()
    named = locals_[next(star_names)] if code.co_flags & 8 else {}
    words: list[str] = []
    left_out = False
    for position, name in enumerate(names[: count + keyword_only]):
        value = locals_[name]
        if not (rest and position < count) and name in defaults and value is defaults[name]:
            left_out = True
        elif position >= count or left_out:
            if position < code.co_posonlyargcount:
                raise ValueError("a default before a positional argument")
            words.append(f"{name}={literal(value)}")
        else:
            words.append(literal(value))
        if position == count - 1:
            words += map(literal, rest)
    if not count:
        words[:0] = map(literal, rest)
    words += [f"{name}={literal(value)}" for name, value in named.items() if name.isidentifier()]
    if len(text := ", ".join(words)) > MOST_CHARACTERS:
        raise ValueError("too long")
    return text


class Recorder:
    """Profiler that records calls of `wanted` functions (module, first line, name)."""

    def __init__(self, wanted: dict[str, dict[str, str]]) -> None:
        self._wanted = wanted
        self._end = _clock() + RECORD_SECONDS
        self._known: dict[int, tuple[list[str] | None, dict[str, Any], types.CodeType]] = {}
        self._begins: dict[int, int] = {}
        self.calls: dict[str, dict[str, list[str]]] = {module: {} for module in wanted}
        """Calls of each module's functions; an empty list: called, but never with literals alone."""

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        known = self._known.get(id(code)) or self._look_up(frame)
        noted, defaults, _ = known
        if noted is None or len(noted) >= MOST_CALLS:
            return
        if code.co_flags & 0x20 and frame.f_lasti > self._begins.setdefault(id(code), frame.f_lasti):
            return  # a generator that goes on
        try:
            text = arguments(frame, defaults)
        except Exception:
            return
        if text not in noted:
            noted.append(text)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record calls; raise `TooLong` at each time limit, KeyboardInterrupt at the end."""

        def stop(*_: object) -> None:
            raise TooLong if _clock() < self._end else KeyboardInterrupt

        if (left := self._end - _clock()) <= 0:
            raise KeyboardInterrupt
        signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, min(left, TEST_SECONDS), TEST_SECONDS)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _look_up(self, frame: types.FrameType) -> tuple[list[str] | None, dict[str, Any], types.CodeType]:
        code, module = frame.f_code, frame.f_globals.get("__name__")
        names = self._wanted.get(module) if type(module) is str else None
        name = (names or {}).get(str(code.co_firstlineno))
        noted, defaults = None, {}
        if name == code.co_name and module is not None:
            noted = self.calls[module].setdefault(name, [])
            function = frame.f_globals.get(name)
            while function is not None and getattr(function, "__code__", None) is not code:
                function = getattr(function, "__wrapped__", None)
            given = getattr(function, "__defaults__", None) or ()
            defaults = dict(zip(code.co_varnames[code.co_argcount - len(given) : code.co_argcount], given))
            defaults.update(getattr(function, "__kwdefaults__", None) or {})
        self._known[id(code)] = entry = (noted, defaults, code)
        return entry


def record(wanted: dict[str, dict[str, str]], modules: list[str], files: list[str], folder: str) -> Any:
    """Record the calls that modules' examples and files of tests or examples make."""
    recorder = Recorder(wanted)
    tests = [file for file in files if file.endswith(".py")]
    with contextlib.suppress(BaseException):
        _run_examples(modules, [file for file in files if file not in tests], recorder)
        if tests:
            _run_tests(tests, recorder, folder)
    return recorder.calls


def broken(modules: list[str]) -> Any:
    """List the modules that cannot be imported in time."""

    def stop(*_: object) -> None:
        raise TooLong

    failed = []
    signal.signal(signal.SIGPROF, stop)
    for name in modules:
        signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS)
        failed += [name] if _namespace(name) is None else []
    signal.setitimer(signal.ITIMER_PROF, 0)
    return failed


def _namespace(module: str) -> dict[str, Any] | None:
    try:
        return importlib.import_module(module).__dict__
    except BaseException:
        return None


def _run_tests(files: list[str], recorder: Recorder, folder: str) -> None:
    import pytest

    if any("hypothesis" in Path(file).read_text(encoding="utf-8", errors="replace") for file in files):
        import hypothesis

        hypothesis.settings.register_profile("harvest", derandomize=True, deadline=None, database=None)
        hypothesis.settings.load_profile("harvest")

    class Plugin:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_call(self) -> Iterator[None]:
            with recorder.recording():
                yield

    options = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-c", os.devnull]
    pytest.main([*options, f"--rootdir={folder}", f"--confcutdir={folder}", *files], [Plugin()])


def _run_examples(modules: list[str], files: list[str], recorder: Recorder) -> None:
    import doctest

    runner = doctest.DocTestRunner(verbose=False)
    tests: list[Any] = []
    for name in modules:
        with contextlib.suppress(BaseException), recorder.recording():
            tests += doctest.DocTestFinder().find(importlib.import_module(name), name)
    for file in files:
        with contextlib.suppress(Exception), open(file, encoding="utf-8") as text:
            tests.append(doctest.DocTestParser().get_doctest(text.read(), {}, file, file, 0))
    for test in tests:
        with contextlib.suppress(BaseException), recorder.recording():
            runner.run(test, out=lambda _: None)


def evaluate(module: str, calls: dict[str, list[str]]) -> Any:
    """Return each call's outcome: a word, the result's text, and whether it lists items.

    `literal`: the result is none; `unstable`: another result the second time.
    """
    namespace = _namespace(module)
    if namespace is None:
        return {name: [("import", "", False)] * len(given) for name, given in calls.items()}
    return {name: [_twice(namespace.get(name), text) for text in given] for name, given in calls.items()}


def _twice(function: Any, text: str) -> tuple[str, str, bool]:
    first = _result(function, text)
    return first if first[0] != "ok" or _result(function, text) == first else ("unstable", "", False)


def _result(function: Any, text: str) -> tuple[str, str, bool]:
    given, named = values(text)
    try:
        with _bounded():
            value = function(*given, **named)
            iterates = hasattr(type(value), "__next__")
            if iterates:
                value = list(itertools.islice(value, MOST_ITEMS + 1))
                if len(value) > MOST_ITEMS:
                    return ("long", "", False)
    except TooLong:
        return ("long", "", False)
    except BaseException:
        return ("raises", "", False)
    try:
        return ("ok", literal(value), iterates)
    except ValueError:
        return ("literal", "", False)


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Raise `TooLong` after MOST_LINES events, which every run counts alike."""
    count = itertools.count()

    def step(frame: types.FrameType, event: str, arg: Any) -> Any:
        if next(count) > MOST_LINES:
            raise TooLong
        return step

    random.seed(0)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0)


def _refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("not while it is harvested")


def _soften() -> None:
    """Raise before the sandbox would kill the process and end all tests."""
    import _thread
    import socket
    import subprocess

    _thread.start_new_thread = threading._start_new_thread = _refuse  # type: ignore[attr-defined]
    subprocess.Popen.__init__ = _refuse  # type: ignore[method-assign]
    os.fork = os.kill = os.system = _refuse
    socket.socket.__new__ = socket.getaddrinfo = socket.gethostbyname = socket.gethostname = _refuse  # type: ignore
    time.sleep = lambda _: None


def run(job: dict[str, Any]) -> str:
    """Do a job; return its result as JSON."""
    import json

    _soften()
    sys.path += job.pop("path")
    alone = job.pop("alone")  # in folders that cannot be listed, where a search path would not find them
    find = lambda name, *_: importlib.util.spec_from_file_location(name, alone.get(name))  # noqa: E731
    sys.meta_path.insert(0, types.SimpleNamespace(find_spec=find))
    jobs: dict[str, Callable[..., Any]] = {"record": record, "broken": broken, "evaluate": evaluate}
    return json.dumps(jobs[job.pop("kind")](**job))
