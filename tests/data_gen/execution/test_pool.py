"""Runs of a program beside the traced one: a program that sees the tracer, or one that another left something for."""

import json

import pytest

from remedy.data_gen.execution.pool import trace_all, trace_one
from remedy.data_gen.execution.program import MARKER, Program, ProgramError, Trace
from remedy.data_gen.execution.sandbox import TracerConfig

TOLD = "class A:\n    def __del__(self): log.append('gone')\nlog = []\n"
OBSERVERS = {
    "names that appear in locals()": (
        "return g(1, 2)", "def g(a, b):\n    d = {}\n    for k, v in locals().items():\n        d[k] = v\n    return len(d)\n", "3",
    ),
    "locals() that is held": ("a = 1\nd = locals()\nb = 2\nreturn sorted(d)", "", "['a']"),
    "vars() that grows": ("a = 1\nv = vars()\nb = 2\nreturn len(v)", "", "1"),
    "a cell behind locals()": ("x = 1\nd = locals()\ndef f():\n    nonlocal x\n    x += 1\nf()\nreturn d['x'], x", "", "(1, 2)"),
    "references": ("a = []\nreturn sys.getrefcount(a)", "import sys\n", "2"),
    "a late __del__": ("a = A()\na = None; n = len(log)\nreturn n", TOLD, "1"),
    "a late weak reference": ("a = A()\nr = weakref.ref(a)\ndel a; dead = r() is None\nreturn dead", "import weakref\n" + TOLD, "True"),
    "a __repr__ that counts": (
        "a = A()\nb = 1\nreturn A.n", "class A:\n    n = 0\n    def __repr__(self):\n        A.n += 1\n        return 'A'\n", "0",
    ),
    "gettrace": ("return sys.gettrace() is None", "import sys\n", "True"),
    "a lie on what the run came to": (
        "r = sys._getframe(1).f_locals['recorder']\nlie = type(r.describe(1))('9', 'int')\nr.describe = r._describe = lambda _: lie\n"
        "return 7 if sys.gettrace() is None else 1", "import sys\n", "7",
    ),
    "an exception": (
        "raise KeyError(sys.gettrace() is None)", "import sys\n", "(<class 'KeyError'>, KeyError(True), <traceback object>)",
    ),
}  # fmt: skip
"""What `main` does, what stands before it, and how CPython ends it where nothing traces."""
UNTRACED = "import sys\ndef untraced(): return sys.gettrace() is None\n"
ONLY_UNTRACED = {
    "ends its process": "import os\n    os._exit(0)",
    "runs on": "while True: pass",
    "writes to the pipe": "import os\n    for file in range(3, 64):\n        try: os.write(file, b'{}')\n        except OSError: pass",
    "fills the memory": "x = bytearray(10**10)",
    "starts a process": "import os; os.fork()",
}
SAME = {
    "an exception that is raised again": "try:\n    raise ValueError(1)\nexcept ValueError:\n    raise",
    "an exception after another": "try:\n    raise ValueError(1)\nfinally:\n    try: {}[1]\n    except KeyError: pass",
    "a changed exception": "try:\n    raise ValueError(1)\nexcept ValueError as e:\n    e.args = (2,)\n    raise",
    "a long int": "return 10**5000",
    "a value without a repr": "class A:\n    def __repr__(self): raise KeyError\nreturn A()",
    "a generator": "return (i for i in 'ab')",
    "builtins replaced": "import builtins\nbuiltins.type = builtins.len = builtins.repr = None\nraise KeyError",
}


def program(inside: str, before: str = "") -> Program:
    lines = "".join(f"    {line}\n" for line in inside.splitlines())
    return Program(f"{before}\ndef main():  {MARKER}\n{lines}", "given.py")


def kind(outcome: Trace | ProgramError) -> str:
    return outcome.kind if isinstance(outcome, ProgramError) else "ok"


@pytest.mark.parametrize("isolation", ["auto", "trusted"])
def test_a_program_that_sees_the_tracer_has_an_outcome_of_its_own(isolation: str) -> None:
    given = [program(inside, before) for inside, before, _ in OBSERVERS.values()]
    for end, outcome in zip(
        OBSERVERS.values(), trace_all(given, TracerConfig.model_validate({"isolation": isolation}))
    ):
        assert isinstance(outcome, ProgramError)
        assert outcome.kind == "observed"
        assert f"without tracing it ends in {end[2]}, not in " in str(outcome)
    same = [program(inside) for inside in SAME.values()]
    same.append(program("return 1", "def hidden(f): return lambda: f() and 2\n\n@hidden"))
    if isolation == "auto":
        assert [kind(outcome) for outcome in trace_all(same, TracerConfig())] == ["ok"] * len(same)


def test_a_program_traced_while_others_run_has_its_own_trace() -> None:
    config = TracerConfig(isolation="none")
    programs = [program(f"return {number}") for number in range(30)]
    for traced, outcome in zip(programs, trace_all(programs, config)):
        assert trace_one(traced, config) == outcome


def test_a_run_without_tracing_meets_the_same_walls_and_harms_no_other_program() -> None:
    liars = [program(f"if untraced():\n    {what}\nreturn 1", UNTRACED) for what in ONLY_UNTRACED.values()]
    good = [program(f"x = {number}\nreturn x") for number in range(len(liars))]
    mixed = [one for pair in zip(liars, good) for one in pair]
    outcomes = list(trace_all(mixed, TracerConfig(timeout_seconds=1)))
    assert [kind(outcome) for outcome in outcomes[::2]] == ["observed", "time", "observed", "memory", "observed"]
    assert all("without tracing it had no result: given.py: " in str(outcome) for outcome in outcomes[:9:4])
    ends = [outcome.end for outcome in outcomes[1::2] if isinstance(outcome, Trace)]
    assert [end and end.text for end in ends] == [str(number) for number in range(len(good))]


@pytest.mark.parametrize(
    ("leave", "read", "before", "result"),
    [
        ("decimal.getcontext().prec = 5", "return len(str(decimal.Decimal(1) / 3))", "import decimal\n", "30"),
        ("sys.setrecursionlimit(60)", "return sys.getrecursionlimit() > 60", "import sys\n", "True"),
    ],
)
def test_a_trusted_program_leaves_nothing_of_python_for_the_next(
    leave: str, read: str, before: str, result: str
) -> None:
    def end(config: TracerConfig) -> str:
        *_, outcome = trace_all([program(leave, before), program(read, before)], config)
        assert isinstance(outcome, Trace)
        assert outcome.end is not None
        return outcome.end.text

    assert end(TracerConfig(isolation="trusted")) == end(TracerConfig()) == result


def test_code_that_a_source_does_not_have_is_an_outcome_but_not_what_an_earlier_program_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json, "dumps", json.dumps)  # put back after the test
    changed = "def g():\n    a = 1\n    return a\ng.__code__ = g.__code__.replace(co_consts=(None, 2))\n"
    left = program("json.dumps = lambda value: 'left'", "import json\n")
    given = [program("return g()", changed), left, program("return json.dumps(1)", "import json\n")]
    assert [kind(outcome) for outcome in trace_all(given, TracerConfig(isolation="trusted"))] == ["forged", "ok", "ok"]
