"""Everything that is promised of a trace, on a program for each construct of the language."""

import dis
import re
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.packages.__main__ import main
from benchmarks.packages.checks import check
from remedy.data_gen.execution.program import MARKER, Program

CORPUS = Path(__file__).resolve().parents[1] / "corpus"


def programs(name: str) -> Iterator[Program]:
    """The programs of a file of the corpus."""
    _, *sections = (CORPUS / name).read_text(encoding="utf-8").split("\n### ")
    for section in sections:
        title, _, code = section.partition("\n")
        yield Program(
            re.sub(r"(?m)^def main\(\):", f"def main():  {MARKER}", code.strip("\n")) + "\n", title.split(" | ")[0]
        )


@pytest.mark.parametrize(
    "program", [*programs("language.txt"), *programs("rare.txt")], ids=lambda program: program.name
)
def test_a_true_trace_is_never_refused(program: Program) -> None:
    found = check(program)
    assert found.outcome in ("ok", "raised")
    assert found.problems == []


def test_every_instruction_of_the_compiler_is_in_it() -> None:
    found: set[str] = set()
    codes = [compile(program.code, program.name, "exec") for program in programs("language.txt")]
    for code in codes:
        found |= {one.opname for one in dis.get_instructions(code)}
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    assert set(dis.opmap) - found == {"CACHE", "PRINT_EXPR"}  # what follows instructions, and what a prompt prints with


def test_a_packages_examples_are_tried_and_what_is_not_so_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second example sees who traces it, which no two tracers can agree on."""
    folder = tmp_path / "own_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text("def twice(x):\n    return x * 2\n")
    (folder / "outer.py").write_text(
        'from .inner import twice\n\n\ndef four(x):\n    """\n    >>> from own_package.outer import four\n    >>> four(2)\n    8\n'
        '    >>> four(None)\n    Traceback (most recent call last):\n    TypeError: no\n    """\n    return twice(twice(x))\n\n\n'
        'def unused():\n    """\n    >>> import sys\n    >>> who = sys.gettrace()\n    >>> who = 0\n    """\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["own_package"]) == 1
    out, err = capfd.readouterr()
    assert "| own_package | 2 | 2 | " in out
    assert out.endswith(" | 1 |\nOutcomes: ok 2.\n")
    assert err.startswith("  own_package.outer:unused: tracer: frame ")
    with pytest.raises(SystemExit):
        main(["no_such_package"])
    assert "there is no module no_such_package" in capfd.readouterr().err
