"""Everything that is promised of a trace, on a program for each construct of the language."""

import re
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


@pytest.mark.parametrize("program", programs("language.txt"), ids=lambda program: program.name)
def test_a_true_trace_is_never_refused(program: Program) -> None:
    found = check(program)
    assert found.outcome in ("ok", "raised")
    assert found.problems == []
