"""Conditions of a diagnostic carry the labels that it declares (tests/test_plugins.py evaluates and reports one from outside)."""

import pytest

from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.settings import ConfigError, build
from tests.eval.test_evaluate import PERMUTATION


def test_conditions_carry_the_labels_that_are_declared() -> None:
    with pytest.raises(ValueError, match="declares the labels"):
        DIAGNOSTICS["two_by_two"].model_validate({}).condition(PERMUTATION, "free", 1, "test", length=3)
    with pytest.raises(ConfigError, match="did you mean 'two_by_two'"):
        build(EvalConfig, {"diagnostics": [{"kind": "two_by_to"}]}, "x")
