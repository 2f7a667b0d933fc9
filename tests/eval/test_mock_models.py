"""Mock models, wrong where they are told to be, score what they must under every diagnostic, in every format, whatever is fed."""

import pytest

from remedy.data_gen.traces.render import FORMATS
from remedy.eval.diagnostics import DIAGNOSTICS
from tests.mock_models import CASES, FORCINGS, KINDS, Line, matrix, same


@pytest.mark.parametrize("case", ["permutation, symbolic", "permutation, symbolic, a memory of two frames"])
def test_mock_models_score_what_they_must_in_one_format(case: str) -> None:
    check(list(matrix(case, ("free", "action_forced", "teacher_forced"))))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_mock_models_score_what_they_must(case: str) -> None:
    """The cases of a format share the forcings, each every second one."""
    alike = [name for name, other in CASES.items() if other.data["format"] == CASES[case].data["format"]]
    shared = FORCINGS if len(alike) == 1 else FORCINGS[alike.index(case) % 2 :: 2]
    check(list(matrix(case, shared)))


def check(lines: list[Line]) -> None:
    assert [line for line in lines if not same(line)] == []
    assert {line.kind for line in lines} == {kind.name for kind in KINDS}
    for line in lines:
        if line.kind == "right only where it is fed":
            assert not any(line.said.values()), line
        if line.kind == "right everywhere":
            assert set(line.said.values()) <= {None, 1.0}, line
        if line.kind.startswith("wrong in every state"):
            assert not line.said["states"], line


def test_every_diagnostic_and_format_has_its_cases() -> None:
    assert {case.diagnostic["kind"] for case in CASES.values()} == set(DIAGNOSTICS)
    assert {case.data["format"] for case in CASES.values()} == set(FORMATS)
