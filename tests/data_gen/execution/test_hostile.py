"""Hostile programs stay behind the walls under every isolation that works here, as root and as another user, and harm no later one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.execution.isolation import PROBLEMS
from tests.data_gen.execution.hostile import FAMILIES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NOBODY = 65534
QUICK = ["writes", "reads", "signals", "network"]
NAMED = ["processes", "network", "native"]


@cache
def another_users_interpreter() -> str:
    """An interpreter that another user can start, with this one's packages; an empty string where there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        asked = [python, "-c", "import sys, psutil, pydantic; print(*sys.version_info[:2])"]
        try:
            done = subprocess.run(asked, capture_output=True, text=True, timeout=60, user=NOBODY, env=surroundings())
        except (OSError, subprocess.SubprocessError):
            continue
        if done.stdout.split() == [str(part) for part in sys.version_info[:2]]:
            return python
    return ""


def surroundings() -> dict[str, str]:
    packages = [path for path in sys.path if path.endswith("site-packages")]
    path = os.pathsep.join([str(ROOT), str(HERE), *packages])
    return {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}


def attempts(isolation: str, another_user: bool, tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    """What became of the programs, run in a process of their own."""
    python = sys.executable
    if another_user:
        if os.geteuid() != 0:
            pytest.skip("only root can run them as another user")
        python = another_users_interpreter()
        if not python:
            pytest.skip("no interpreter of this version that another user can start")
    top = Path("/tmp") / f"remedy-hostile-{os.getpid()}-{tmp_path.name}"  # a folder that another user reaches
    top.mkdir()
    if another_user:
        os.chown(top, NOBODY, NOBODY)
    try:
        command = [python, str(HERE / "hostile_driver.py"), isolation, str(top), *arguments]
        identity: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if another_user else {}
        done = subprocess.run(
            command, capture_output=True, text=True, env=surroundings(), cwd="/", timeout=500, **identity
        )
    finally:
        subprocess.run(["rm", "-rf", str(top)], check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    assert done.returncode == 0, done.stderr
    if problem := lines[0].get("problem"):
        pytest.skip(problem)
    if "seccomp" not in lines[0]["isolation"] or "no seccomp" in lines[0]["isolation"]:
        pytest.skip(f"no list of system calls here: {lines[0]['isolation']}")
    return lines[1:]


def assert_held(rows: list[dict[str, Any]], families: list[str], limit: float = 8) -> None:
    assert len(rows) == sum(len(FAMILIES[family]) for family in families)
    assert not [row for row in rows if row["escape"]]
    assert not [row for row in rows if row["after"] or row["outcome"] == "traceback"]
    assert not [row for row in rows if row["seconds"] > limit]


def test_there_are_as_many_programs_as_were_ever_tried() -> None:
    assert sum(map(len, FAMILIES.values())) >= 350


def test_hostile_programs_stay_behind_landlock(tmp_path: Path) -> None:
    assert_held(attempts("landlock", False, tmp_path, "--blind", *QUICK), QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("isolation", "another_user", "blind"),
    [("landlock", False, True), ("landlock", True, False), ("bubblewrap", False, False), ("bubblewrap", True, True)],
)
def test_hostile_programs_stay_behind_every_isolation(
    isolation: str, another_user: bool, blind: bool, tmp_path: Path
) -> None:
    """Each isolation as either user, with and without the hook that names what they try."""
    families = [family for family in FAMILIES if not (blind and family == "bombs")]
    rows = attempts(isolation, another_user, tmp_path, *(["--blind"] if blind else []), *families)
    assert_held(rows, families)
    if not blind:
        named = {row["outcome"] for row in rows if row["family"] in NAMED}
        assert {"process", "thread", "network", "native"} <= named


@pytest.mark.slow
def test_the_same_programs_have_the_same_outcomes_in_both(tmp_path: Path) -> None:
    """But for what they see of the files outside: absent in bubblewrap, closed behind Landlock."""
    kinds = []
    for isolation in PROBLEMS:
        (tmp_path / isolation).mkdir()
        rows = attempts(isolation, False, tmp_path / isolation, *NAMED)
        kinds.append({row["name"]: row["outcome"] for row in rows if row["outcome"].isalpha()})
    assert kinds[0] == kinds[1]
