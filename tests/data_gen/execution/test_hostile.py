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
# What a program may do to itself; every other family is refused under a name, or by an exception of its own.
HARMLESS = {"ok"}


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


def attempts(isolation: str, another_user: bool, tmp_path: Path, *arguments: str) -> tuple[str, list[dict[str, Any]]]:
    """What became of the programs, run in a process of their own, and under which walls."""
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
    return lines[0]["isolation"], lines[1:]


def assert_held(rows: list[dict[str, Any]], families: list[str], limit: float = 8) -> None:
    assert len(rows) == sum(len(FAMILIES[family]) for family in families)
    assert not [row for row in rows if row["escape"]]
    assert not [row for row in rows if row["after"] or row["outcome"] == "traceback"]
    assert not [row for row in rows if row["seconds"] > limit]


def test_there_are_as_many_programs_as_were_ever_tried() -> None:
    assert sum(map(len, FAMILIES.values())) >= 350


def test_hostile_programs_stay_behind_landlock(tmp_path: Path) -> None:
    _, rows = attempts("landlock", False, tmp_path, "--blind", *QUICK)
    assert_held(rows, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("blind", [False, True], ids=["hook", "no hook"])
@pytest.mark.parametrize("another_user", [False, True], ids=["own user", "another user"])
@pytest.mark.parametrize("isolation", list(PROBLEMS))
def test_hostile_programs_stay_behind_every_isolation(
    isolation: str, another_user: bool, blind: bool, tmp_path: Path
) -> None:
    families = [family for family in FAMILIES if not (blind and family == "bombs")]
    _, rows = attempts(isolation, another_user, tmp_path, *(["--blind"] if blind else []), *families)
    assert_held(rows, families)
    if not blind:
        named = {row["outcome"] for row in rows if row["family"] in ("processes", "network", "native")}
        assert {"process", "thread", "network", "native"} <= named


@pytest.mark.slow
def test_the_same_programs_have_the_same_outcomes_in_both(tmp_path: Path) -> None:
    """But for what they see of the files outside: absent in bubblewrap, closed behind Landlock."""
    families = ["processes", "network", "native"]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _, behind = attempts("landlock", False, tmp_path / "a", *families)
    _, inside = attempts("bubblewrap", False, tmp_path / "b", *families)
    kinds = [{row["name"]: row["outcome"] for row in rows if row["outcome"].isalpha()} for rows in (behind, inside)]
    assert kinds[0] == kinds[1]
