"""Rewrites keep results, effects and their order, on generated programs, by hand, and on the published benchmarks."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.pool import trace_all
from remedy.data_gen.execution.program import MARKER, Program, ProgramError, Trace
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.rewrites import REWRITES, rewrite_program, rewrite_source, rewrites_of
from remedy.data_gen.rewrites.characters import LOOPS
from remedy.data_gen.tasks.programs import ProgramsTask, load_cases
from remedy.data_gen.traces.values import same_value
from remedy.launch.rewrite import rewritten as rewrite_file
from remedy.settings import ConfigError, build

KINDS = [(kind,) for kind in REWRITES] + [tuple(REWRITES)]


def mostly(leaves: list[str], *others: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A leaf two times of three: with fewer, expressions rarely end."""
    return st.integers(0, 2).flatmap(lambda n: st.sampled_from(leaves) if n else st.one_of(*others))


# Expressions of three types over a, b (numbers), s, t (strings), xs (a list of strings). `say` records that it was called and when,
# `bump` changes a variable that other parts read, and xs.append changes an object that they read.
numbers = st.deferred(
    lambda: mostly(
        ["a", "b", "n", "2", "-1", "len(xs)", "bump()"],
        st.builds("say({})".format, numbers),
        st.builds("({} + {})".format, numbers, numbers),
        st.builds("({} * {} - {})".format, numbers, numbers, numbers),
        st.builds("({} if {} else {})".format, numbers, truths, numbers),
        st.builds("len({})".format, st.one_of(strings, lists)),
        st.builds("{}.count({})".format, strings, strings),
        st.builds("{}.find({})".format, strings, strings),
        st.builds("sum({} for s in {})".format, numbers, lists),
        st.builds("(lambda a: {})({})".format, numbers, numbers),
        st.builds("[{}, {}][{} % 2]".format, numbers, numbers, numbers),
    )
)
truths = st.deferred(
    lambda: st.one_of(
        st.builds("{} < {}".format, numbers, numbers),
        st.builds("{} < {} < {}".format, numbers, numbers, numbers),
        st.builds("({} and {})".format, truths, truths),
        st.builds("not {}".format, numbers),
        st.builds("{}.startswith({})".format, strings, strings),
        st.builds("any({} for a in range(2))".format, truths),
    )
)
strings = st.deferred(
    lambda: mostly(
        ["s", "t", "'ab'", "'a-b'", "''"],
        st.builds("say({})".format, strings),
        st.builds("({} + {})".format, strings, strings),
        st.builds("{}.upper().replace({}, {})".format, strings, strings, strings),
        st.builds("{}.strip({}).lower()".format, strings, strings),
        st.builds("'-'.join({})".format, lists),
        st.builds("'-'.join({} for t in {})".format, strings, lists),
        st.builds(
            "f'{{{}}}:{{{}!r:>4}}'".format,
            st.sampled_from(["a", "say(s)", "bump()", "xs"]),
            st.sampled_from(["b", "t"]),
        ),
        st.builds("{}[{}:]".format, strings, numbers),
    )
)
lists = st.deferred(
    lambda: mostly(
        ["xs", "list(s)", "grow(xs)"],
        st.builds("[{}, {}]".format, strings, strings),
        st.builds("[{} for s in {} if {}]".format, strings, lists, truths),
        st.builds("[{} for s in {} for t in {}]".format, strings, lists, lists),
        st.builds("sorted({{{} for s in {}}})".format, strings, lists),
        st.builds("list({{{}: {} for s in {}}}.values())".format, strings, strings, lists),
        st.builds("sorted({}, key=lambda s: (len(s), s))".format, lists),
        st.builds("{}.split('-')".format, strings),
        st.builds("{}[:{}]".format, lists, numbers),
    )
)
statements = st.one_of(
    st.builds("a = {}".format, numbers),
    st.builds("s = {}".format, strings),
    st.builds("xs = {}".format, lists),
    st.builds("a += {}".format, numbers),
    st.builds(
        "if {}:\n        s = {}\n    elif {}:\n        b = {}\n    else:\n        {}".format,
        truths,
        strings,
        truths,
        numbers,
        numbers,
    ),
    st.builds("for t in {}:\n        s = {}".format, lists, strings),
    st.builds("while b > 0 and {}:\n        b -= 1\n        xs = {}".format, truths, lists),
    st.builds("try:\n        a = {}\n    except Exception:\n        say({})".format, numbers, strings),
    st.builds("xs[{} % len(xs)] = {}".format, numbers, strings),
)
programs = st.builds(
    lambda body, result: (
        "log = []\nn = 0\n"
        "def say(x):\n    log.append(x)\n    return x\n"
        "def grow(xs):\n    if len(xs) < 6:\n        xs.append('g')\n    return xs\n"
        "def bump():\n    global n\n    n += 1\n    return n\n"
        "def f(a, b, s, t, xs):\n    " + "\n    ".join([*body, f"return {result}"]) + "\n"
    ),
    st.lists(statements, min_size=1, max_size=3),
    st.one_of(numbers, strings, lists, truths),
)


def run(code: str) -> tuple[Any, Any, Any]:
    """Result or kind of exception, what was said, and the list as it was left."""
    space: dict[str, Any] = {}
    exec(compile(code, "<generated>", "exec"), space)
    xs = ["b", "a"]
    try:
        result = space["f"](3, 2, "a-Bc", "b", xs)
    except Exception as error:
        result = type(error)
    return result, space["log"], xs


@given(programs, st.sampled_from(KINDS))
@settings(max_examples=200)
def test_generated_programs_do_the_same_in_the_same_order(code: str, kinds: tuple[str, ...]) -> None:
    rewritten = rewrite_source(code, kinds)
    assert run(rewritten) == run(code), rewritten


def body(code: str, kind: str) -> str:
    return (
        rewrite_source(f"def f(s, x, d):\n    {code}\n", [kind])
        .split("def f(s, x, d):\n")[1]
        .replace("    ", "")
        .rstrip()
    )


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("temporaries", "return len(s.strip()) + 1", "step1 = s.strip()\nstep2 = len(step1)\nreturn step2 + 1"),
        ("temporaries", "return x and len(s[1:])", "return x and len(s[1:])"),
        ("temporaries", "while len(s[1:]): s = s[1:]", "while len(s[1:]): s = s[1:]"),
        ("temporaries", "d[s[0]] += len(s[1:])", "d[s[0]] += len(s[1:])"),
        (
            "chains",
            "return s.strip().lower().title()",
            "step1 = s.strip()\nstep2 = step1.lower()\nreturn step2.title()",
        ),
        (
            "chains",
            "return len(s) + s.strip().count('a')",
            "step1 = len(s)\nstep2 = s.strip()\nreturn step1 + step2.count('a')",
        ),
        ("comprehensions", "return [c for c in s]", "items1 = []\nfor c in s:\nitems1.append(c)\nreturn items1"),
        (
            "comprehensions",
            "x = {x for x in s if x}",
            "items1 = set()\nfor x1 in s:\nif x1:\nitems1.add(x1)\nx = items1",
        ),
        ("comprehensions", "return any(c for c in s)", "return any(c for c in s)"),
        ("comprehensions", "return [lambda: c for c in s]", "return [lambda: c for c in s]"),
        ("characters", "return s.lower()", "return lower_by_character(s)"),
        ("characters", "return s.split()", "return s.split()"),
    ],
)
def test_each_rewrite_does_what_it_is_named_for_and_leaves_the_rest(kind: str, before: str, after: str) -> None:
    assert body(before, kind) == after


def character_loop(method: tuple[str, int]) -> Any:
    name, source = LOOPS[method]
    space: dict[str, Any] = {}
    exec(source, space)
    return space[name]


@given(
    st.sampled_from(sorted(LOOPS)),
    st.one_of(
        st.text(alphabet="aAbβΣς \t\x1c-é1²", max_size=8),
        st.binary(max_size=3),
        st.lists(st.text(max_size=2), max_size=3),
    ),
    st.lists(st.one_of(st.text(alphabet="aAb -", max_size=2), st.none(), st.integers(0, 1)), min_size=2, max_size=2),
)
@settings(max_examples=500)
def test_every_character_loop_equals_its_method_for_any_arguments(
    method: tuple[str, int], receiver: Any, extra: list[Any]
) -> None:
    name, arity = method

    def outcome(call: Any) -> Any:
        try:
            return call()
        except Exception as error:
            return type(error)

    arguments = extra[:arity]
    loop = character_loop(method)
    assert outcome(lambda: loop(receiver, *arguments)) == outcome(lambda: getattr(receiver, name)(*arguments))


@given(st.text(alphabet="ab-", max_size=3), st.lists(st.one_of(st.text(max_size=3), st.integers()), max_size=4))
def test_join_by_character_equals_join(separator: str, parts: list[Any]) -> None:
    def outcome(join: Any) -> Any:
        try:
            return join(separator, iter(parts))
        except TypeError:
            return TypeError

    assert outcome(character_loop(("join", 1))) == outcome(str.join)


def test_the_entry_point_stays_as_it_is_and_stays_marked() -> None:
    program = Program.from_call("import re\ndef f(s):\n    return len(s.strip().upper())", "'a'.lower()")
    rewritten = rewrite_program(program, list(REWRITES))
    assert rewritten.code.endswith(f"def main():  {MARKER}\n    return f('a'.lower())\n")
    assert trace(rewritten).result == trace(program).result
    plain = Program.from_call("def f(s):\n    return s  # a comment", "1")
    assert rewrite_program(plain, list(REWRITES)) is plain
    broken = Program("def f(:  # << START_OF_TRACE")
    assert rewrite_program(broken, list(REWRITES)) is broken
    deep = Program.from_call(f"def f(s):\n    return s{'.strip()' * 500}", "'a'")
    assert rewrite_program(deep, list(REWRITES)) is deep
    for code, says in (("def f(:", "one.py: does not compile"), (deep.code, "one.py: is nested too deeply")):
        with pytest.raises(ProgramError, match=says):
            rewrite_source(code, list(REWRITES), "one.py")


def test_data_and_files_are_rewritten(tmp_path: Path) -> None:
    path, code = tmp_path / "own.jsonl", "def f(s):\n    return len(s.strip())"
    path.write_text(json.dumps({"code": code, "input": "' a'"}) + "\n")
    task = {"kind": "programs", "path": str(path), "tracer": {"isolation": "trusted"}}
    data = build(DataConfig, {"task": {**task, "rewrites": ["temporaries"]}}, "test")
    example = examples(data, "all", [0])[0]
    (tmp_path / "source.py").write_text(code)
    for rewritten in (example.program, rewrite_file(tmp_path / "source.py", ["temporaries"])):
        assert "step1 = s.strip()" in rewritten
    assert example.answer == "1"
    assert (rewrites_of("none"), rewrites_of("all")) == ((), tuple(REWRITES))
    with pytest.raises(ConfigError, match="unknown rewrite 'chain'; did you mean 'chains'"):
        build(DataConfig, {"task": {**task, "rewrites": ["chain"]}}, "test")


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.weekly)])
@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_published_programs_keep_their_results(shared: Path, kinds: tuple[str, ...], every: int) -> None:
    changed = 0
    for benchmark in ("cruxeval", "humaneval"):
        path = str(shared / f"{benchmark}.jsonl")
        before = load_cases(ProgramsTask(benchmark=benchmark, path=path))[::every]
        after = load_cases(ProgramsTask(benchmark=benchmark, path=path, rewrites=kinds))[::every]
        outcomes = trace_all([case.program for case in after], TracerConfig(), workers=2, depth=0)
        for old, new, outcome in zip(before, after, outcomes):
            assert isinstance(outcome, Trace), f"{new.id}: {outcome}"
            assert outcome.result is not None
            assert new.expected is not None
            assert same_value(outcome.result.text, new.expected), new.program.code
            assert old.identity == new.identity
            changed += old.program.code != new.program.code
    least = {"comprehensions": 200, "characters": 400, "chains": 30}.get("+".join(kinds), 1000)
    assert changed >= least // (2 * every) if every > 1 else changed >= least
