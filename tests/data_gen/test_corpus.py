"""Everything that is promised of a trace, on a program for each construct of the language."""

import dis
import re
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

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
