"""Fixtures of several files."""

import pytest

from tests.eval.constrained_runs import Prepared, branching


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return branching(tmp_path_factory.mktemp("loops"))
