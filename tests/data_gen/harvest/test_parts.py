"""Parts of a harvest: arguments as they are written down, duplicates, families, licences, packages."""

import sys
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.harvest import inside
from remedy.data_gen.harvest.closure import Refused, closed
from remedy.data_gen.harvest.duplicates import ProgramIndex, canonical
from remedy.data_gen.harvest.jobs import are_literals
from remedy.data_gen.harvest.modules import Module
from remedy.data_gen.harvest.mutations import mutated
from remedy.data_gen.harvest.sources import find, interpreter, is_licensed
from remedy.settings import UserError

OTHER = object()


def several(a: Any, b: Any = OTHER, *rest: Any, c: Any = 1, **more: Any) -> str:
    return inside.arguments(sys._getframe(), {"b": OTHER, "c": 1})


def positional(a: Any = OTHER, b: Any = OTHER, /, c: Any = 2) -> str:
    return inside.arguments(sys._getframe(), {"a": OTHER, "b": OTHER, "c": 2})


def test_arguments_are_written_as_a_call_would_write_them() -> None:
    assert several(1) == "1"
    assert several([1], "x", (2,), c={3}, d=None) == "[1], 'x', (2,), c={3}, d=None"
    assert several(1, 2, c=1) == "1, 2"
    assert (positional(1, 2, 3), positional(1, c=3)) == ("1, 2, 3", "1, c=3")
    with pytest.raises(ValueError, match="a default before"):
        positional(OTHER, 3)


def test_an_endless_example_is_ended_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = ">>> one(3)\n>>> while True: pass\n>>> one(4)"
    (tmp_path / "endless.py").write_text(f"def one(x):\n    '''{examples}'''\ndef two(x):\n    '''>>> two(5)'''\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(inside, "TEST_SECONDS", 0.1)
    (tmp_path / "leaving.py").write_text("raise SystemExit")
    found = inside.record({"endless": {"1": "one", "5": "two"}}, ["leaving", "endless"], [], "")
    assert found == {"endless": {"one": ["3", "4"], "two": ["5"]}}
    (tmp_path / "stuck.py").write_text("while True: pass")
    assert inside.broken(["stuck", "endless", "not_there"]) == ["stuck", "not_there"]


@pytest.mark.parametrize("value", [object(), [print], float("nan"), 10**400, "x" * 500, range(3), [[1] * 300] * 2])
def test_what_is_no_short_literal_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"no literal|too long"):
        inside.literal(value)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too long"):
        inside.literal(endless)


@pytest.mark.parametrize("text", ["1)(2", "print", "**{}", "*[1]", "x := 1", "f(1)", "1, a=open", "(" * 500])
def test_what_comes_back_from_the_sandbox_is_literals_or_nothing(text: str) -> None:
    assert not are_literals(text)


def test_made_up_arguments_are_a_function_of_those_seen_and_of_the_seed() -> None:
    seen = ["'abc', 3", "'xy', n=[1, 2]", "{'a': (1, 2.5)}, True"]
    made = mutated(seen, 20, "0 f")
    assert made == mutated(seen, 20, "0 f") != mutated(seen, 20, "1 f")
    assert len(made) == len(set(made)) > 10
    assert not set(made) & set(seen)
    assert all(are_literals(text) for text in made)
    assert mutated([""], 5, "0 f") == []


ONE = """def f(words, n=2):
    '''Say it.'''
    found = {w: len(w) for w in words if len(w) > n}
    try:
        return sorted(found.items(), key=lambda pair: pair[1])
    except ValueError as error:
        raise KeyError(str(error))
"""
SAME = """def g(items: list, least: int = 2) -> list:
    table = {i: len(i) for i in items if len(i) > least}  # a table
    try:
        return sorted(table.items(), key=lambda p: p[1])
    except ValueError as e:
        raise KeyError(str(e))
"""


def test_names_of_locals_docstrings_and_annotations_make_no_other_program() -> None:
    known = ProgramIndex()
    known.add("one", canonical(ONE))
    assert known.find(canonical(SAME)) == ("one", 1.0)
    found = known.find(canonical(SAME.replace("p[1]", "p[0]")))
    assert found is not None
    assert 0.8 < found.alike < 1
    assert known.find(canonical("def h(a, b):\n    return [x * b for x in a if x][::-1]\n")) is None


def test_a_statement_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("if True:\n    K = 1\n    return\ndef f(x):\n    return x + K\n")
    module = Module("one", tmp_path / "one.py")
    with pytest.raises(Refused, match="cannot be cut out"):
        closed(tmp_path, module, next(module.functions()))


@pytest.mark.parametrize(
    ("licence", "wanted", "is_one"),
    [
        ("MIT", "MIT", True),
        ("MIT License", "mit", True),
        ("BSD-3-Clause", "BSD", True),
        ("Apache-2.0 OR GPL-3.0-only", "Apache", True),
        ("Apache-2.0 AND GPL-3.0-only", "Apache", False),
        ("LGPL-3.0", "GPL", False),
        ("MIT and GPL-3.0", "MIT", False),
        ("MIT or GPL-3.0", "GPL", True),
        ("unknown", "MIT", False),
    ],
)
def test_a_licence_is_one_of_those_wanted(licence: str, wanted: str, is_one: bool) -> None:
    assert is_licensed(licence, [wanted]) is is_one


def test_packages_are_found_by_distribution_module_folder_and_in_the_library(tmp_path: Path) -> None:
    python = interpreter(None)
    installed = find("typing_extensions", python)
    assert (installed.name, [name for name, _ in installed.modules]) == ("typing_extensions", ["typing_extensions"])
    assert "PSF" in installed.licence
    library = find("json", python)
    assert library.version.startswith("Python 3.")
    assert "json.decoder" in dict(library.modules)
    inner = tmp_path / "top" / "inner"
    inner.mkdir(parents=True)
    for place in (tmp_path / "top", inner):
        (place / "__init__.py").touch()
    part = find(str(inner), python)
    assert (part.name, part.root, part.version) == ("top.inner", tmp_path, "unknown")
    for place, text in ((tmp_path / "top" / "inner.py", ""), (tmp_path / "PKG-INFO", "Name: caf\xe9\n")):
        place.write_bytes(text.encode("latin-1"))
    top = find(str(tmp_path / "top"), python)
    assert (top.name, dict(top.modules)["top.inner"], len(top.modules)) == ("top", inner / "__init__.py", 2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="there is no module in Python"):
        find(str(tmp_path / "empty"), python)
    with pytest.raises(UserError, match="install it, or give its folder"):
        find("no_such_package_anywhere", python)
