"""Calls of given rows: those that raise before the function runs are told from functions that raise."""

import pytest

from remedy.data_gen.execution.program import MARKER, Program, ProgramError, Trace
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.tasks.calls import called

DIVIDES = "def f(x):\n    return 1 / x"
CLASS = "class f:\n    def __init__(self, x):\n        self.x = 1 / x"
CACHED = f"import functools\n@functools.lru_cache\n{DIVIDES}"
PARTIAL = "import functools\ndef g(a, b):\n    return a / b\nf = functools.partial(g, 1)"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass f:\n    x: int\n    def __post_init__(self):\n        1 / self.x"
WRAPPED = f"def d(g):\n    return lambda *a: g(*a)\n@d\n{DIVIDES}"
RAISES = f"def g(x):\n    raise ValueError(x)\n{DIVIDES}"
BY_CALL = {
    "no such function": ("def solve(x):\n    return x", "1"),
    "an unquoted string": (DIVIDES, "a"),
    "an argument too few": (DIVIDES, ""),
    "arguments too many": (DIVIDES, "1, 2"),
    "an unknown keyword": (DIVIDES, "y=1"),
    "an input that raises": (DIVIDES, "int('x')"),
    "a comprehension that raises": (DIVIDES, "[a for a in b]"),
    "a helper that raises in the input": (RAISES, "g(1)"),
    "a generator's arguments": ("def f(x):\n    yield x", ""),
    "a coroutine's arguments": ("async def f(x):\n    return x", ""),
    "a function defined under a condition": (f"if True:\n    {DIVIDES.replace('    ', '        ')}", ""),
    "a class's arguments": (CLASS, ""),
    "a dataclass's arguments": (DATACLASS, ""),
    "a cached function's arguments": (CACHED, ""),
    "a cached function's key": (CACHED, "[]"),
    "an input's object beside an argument too few": (
        f"{CLASS.replace('f', 'g', 1)}\ndef f(x, y):\n    return x",
        "g(1)",
    ),
    "a partial function's arguments": (PARTIAL, ""),
    "a builtin's arguments": ("f = len", "1, 2"),
    "no function": ("f = 3", "0"),
}
BY_FUNCTION = {
    "a function": (DIVIDES, "0"),
    "a function's own mistake": ("def g(a):\n    return a\ndef f(x):\n    return g()", "1"),
    "a function that looks for a name": ("def f(x):\n    return y", "1"),
    "the later of two": (f"def f(x):\n    return 1\n{DIVIDES}", "0"),
    "an input that is called": ("def f(x):\n    return x(0)", "lambda a: 1 / a"),
    "a class": (CLASS, "0"),
    "a dataclass": (DATACLASS, "0"),
    "a cached function": (CACHED, "0"),
    "a decorated function": (WRAPPED, "0"),
    "a partial function": (PARTIAL, "0"),
    "a builtin": ("f = int", "'x'"),
    "a builtin's type": ("f = len", "3"),
    "a builtin that calls an input": ("f = sorted", "[1, 0], key=lambda x: 1 / x"),
}


@pytest.mark.parametrize("what", BY_CALL)
def test_a_call_that_raises_before_its_function_runs_is_an_outcome(what: str) -> None:
    found = called(trace(Program.from_call(*BY_CALL[what], "mine.jsonl:3")))
    assert isinstance(found, ProgramError)
    assert found.kind == "call"
    assert str(found).startswith("mine.jsonl:3: the call raised ")


@pytest.mark.parametrize("what", BY_FUNCTION)
def test_a_function_that_raises_has_a_trace(what: str) -> None:
    found = called(trace(Program.from_call(*BY_FUNCTION[what])))
    assert isinstance(found, Trace)
    assert found.raised


def test_a_marked_function_of_ones_own_may_raise_as_it_likes() -> None:
    found = called(trace(Program(f"def main():  {MARKER}\n    return f(1)\n")))
    assert isinstance(found, Trace)


@pytest.mark.parametrize(
    ("code", "entry", "result"),
    [
        ("def main(n):\n    return n * 2\ndef f(x):\n    return main(x)", "main_", "6"),
        ("from math import floor as main\nmain_ = 4\ndef f(x):\n    return main(x + main_)", "main__", "7"),
        ("def f(x):\n    main = x\n    return main", "main", "3"),
    ],
)
def test_a_main_of_the_programs_own_is_not_shadowed(code: str, entry: str, result: str) -> None:
    found = trace(Program.from_call(code, "3"))
    assert found.result is not None
    assert (found.frames[0].source, found.result.text) == (f"def {entry}():\n", result)
