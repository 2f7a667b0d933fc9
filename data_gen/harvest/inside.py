"""Run a package's examples, tests and calls, inside the sandbox: its text is the beginning of a program, see `jobs`.

So it uses the standard library alone, and what it finds is data: the package runs in the same process and may have changed it.
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
"""Of the literals of a call's arguments, and of its result."""
MOST_ITEMS = 64
"""Of an iterator that a call returns."""
MOST_CALLS = 64
"""Different ones that are noted of a function."""
RECORD_SECONDS, TEST_SECONDS = 10.0, 5.0
"""CPU seconds after which a run of examples or tests is ended, and one of them; what they have shown is kept."""
MOST_LINES = 100_000
"""Events of a call that is tried."""
MOST_SECONDS = 2.0
"""CPU seconds of such a call, which can be one C function that never ends: then the process does."""
_clock = time.process_time  # a busy machine ends nothing early
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class TooLong(BaseException):
    """Ends a call or a test that runs too long. Not an Exception, so that most code lets it pass."""


def literal(value: Any) -> str:
    """The text of a value that is made of literals alone.

    Raises:
        ValueError: it is not, or is too long.
    """
    left, waiting = MOST_CHARACTERS, [value]
    while waiting:
        one = waiting.pop()
        kind, left = type(one), left - 1
        if left < 0 or (kind is int and one.bit_length() > 1000) or (kind in (str, bytes) and len(one) > left):
            raise ValueError("too long")
        if kind is dict:
            waiting += itertools.chain.from_iterable(itertools.islice(one.items(), left + 1))
        elif kind in (list, tuple, set):
            waiting += itertools.islice(one, left + 1)
        elif kind not in _PLAIN or (kind in (float, complex) and not abs(one) < float("inf")):
            raise ValueError("no literal")
    text = repr(value)
    if len(text) > MOST_CHARACTERS:
        raise ValueError("too long")
    return text


def values(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that a text writes, by place and by name.

    Raises:
        ValueError, SyntaxError, TypeError, RecursionError, MemoryError: they are no literals.
    """
    call = ast.parse(f"f({text})", mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or None in [n.arg for n in call.keywords]:
        raise ValueError("no arguments")
    given = [ast.literal_eval(one) for one in call.args]
    return given, {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}


def arguments(frame: types.FrameType, defaults: dict[str, Any]) -> str:
    """The arguments of a call that begins, as it would be written; those that are the default are left out.

    Raises:
        ValueError: some are no literals.
    """
    code, known = frame.f_code, frame.f_locals
    names, count, only = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    places = iter(names[count + only :])
    rest = known[next(places)] if code.co_flags & 4 else ()
    named = known[next(places)] if code.co_flags & 8 else {}
    words: list[str] = []
    left_out = False
    for at, name in enumerate(names[: count + only]):
        value = known[name]
        if not (rest and at < count) and name in defaults and value is defaults[name]:
            left_out = True
        elif at >= count or left_out:
            if at < code.co_posonlyargcount:
                raise ValueError("a default before a positional argument")
            words.append(f"{name}={literal(value)}")
        else:
            words.append(literal(value))
        if at == count - 1:
            words += map(literal, rest)
    if not count:
        words[:0] = map(literal, rest)
    words += [f"{name}={literal(value)}" for name, value in named.items() if name.isidentifier()]
    if len(text := ", ".join(words)) > MOST_CHARACTERS:
        raise ValueError("too long")
    return text


class Recorder:
    """Notes the calls of functions. `wanted`: by module, the first line of each function and its name."""

    def __init__(self, wanted: dict[str, dict[str, str]]) -> None:
        self._wanted = wanted
        self._end = _clock() + RECORD_SECONDS
        self._known: dict[int, tuple[list[str] | None, dict[str, Any], types.CodeType]] = {}
        self._begins: dict[int, int] = {}
        self.calls: dict[str, dict[str, list[str]]] = {module: {} for module in wanted}
        """The calls of each function of each module; an empty list: none with literals alone."""

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
        """Note what is called meanwhile. Every TEST_SECONDS a `TooLong` is raised, and in the end what ends all tests."""

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
        self._known[id(code)] = found = (noted, defaults, code)
        return found


def record(wanted: dict[str, dict[str, str]], modules: list[str], files: list[str], folder: str) -> Any:
    """The calls that are made while examples of modules, and files of tests or of text with examples, are run. `folder`: where settings
    of the tests may lie."""
    recorder = Recorder(wanted)
    tests = [file for file in files if file.endswith(".py")]
    with contextlib.suppress(BaseException):
        _run_examples(modules, [file for file in files if file not in tests], recorder)
        if tests:
            _run_tests(tests, recorder, folder)
    return recorder.calls


def broken(modules: list[str]) -> Any:
    """Those of the modules that cannot be imported, or not in TEST_SECONDS each."""

    def stop(*_: object) -> None:
        raise TooLong

    found = []
    signal.signal(signal.SIGPROF, stop)
    for name in modules:
        signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS)
        found += [name] if _namespace(name) is None else []
    signal.setitimer(signal.ITIMER_PROF, 0)
    return found


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
    """The result of every call of a module's functions: a word, the result's text, and whether it was an iterator's items.

    The words: `ok`, `raises`, `literal` (the result is none), `long`, `unstable` (another result the second time), `import`.
    """
    known = _namespace(module)
    if known is None:
        return {name: [("import", "", False)] * len(given) for name, given in calls.items()}
    return {name: [_twice(known.get(name), text) for text in given] for name, given in calls.items()}


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
    """Ends what runs more than MOST_LINES; counted, since a clock would say something else in every run."""
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
    """Have what the sandbox forbids raise first, so that one test that tries it does not end all others."""
    import _thread
    import socket
    import subprocess

    _thread.start_new_thread = threading._start_new_thread = _refuse  # type: ignore[attr-defined]
    subprocess.Popen.__init__ = _refuse  # type: ignore[method-assign]
    os.fork = os.kill = os.system = _refuse
    socket.socket.__new__ = socket.getaddrinfo = socket.gethostbyname = socket.gethostname = _refuse  # type: ignore
    time.sleep = lambda _: None


def run(job: dict[str, Any]) -> str:
    """Do a job; its result is JSON."""
    import json

    _soften()
    sys.path += job.pop("path")
    alone = job.pop("alone")  # in folders that cannot be listed, where a search path would not find them
    find = lambda name, *_: importlib.util.spec_from_file_location(name, alone.get(name))  # noqa: E731
    sys.meta_path.insert(0, types.SimpleNamespace(find_spec=find))
    jobs: dict[str, Callable[..., Any]] = {"record": record, "broken": broken, "evaluate": evaluate}
    return json.dumps(jobs[job.pop("kind")](**job))
