"""Damage to any file of a project is named, or survived with the same result; no command answers it with a traceback.

`REMEDY_DAMAGE` says how many ways to damage are tried (120), `REMEDY_DAMAGE_SEED` where they start, to try others.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.damaged import IRRELEVANT, Project, damage, verdict

COUNT = int(os.environ.get("REMEDY_DAMAGE", "120"))
SEED = int(os.environ.get("REMEDY_DAMAGE_SEED", "0"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_damage_is_named_or_survived(part: int, project: Project) -> None:
    problems = []
    for number in range(SEED + part, SEED + COUNT, 6):
        names, what = damage(project, random.Random(number))
        tops = {name.split("/")[0] for name in names}
        readers = {
            "out": ["rows", "generate"],
            "run": ["load", "resume"],
            "evaluated": ["show", "report", "evaluate"],
            "measured": ["report"],
        }
        if set(names) <= set(IRRELEVANT):
            readers["run"] = ["resume"]
        for command in dict.fromkeys(command for top in sorted(tops) for command in readers[top]):
            try:
                problem = verdict(project, command, names)
            except Exception as error:
                problem = f"{command}: {type(error).__name__}: {error}"
            if problem:
                problems.append(f"{number}: {', '.join(names[:3])} ({what}): {problem}")
        project.restore()
    assert not problems, "\n".join(problems)
