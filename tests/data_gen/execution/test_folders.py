"""A program's folder is emptied and counted whatever is in it: too deep, closed, linked, or under the names that we use."""

from __future__ import annotations

import os
from pathlib import Path

from remedy.data_gen.execution.folders import remove, too_much


def test_any_folder_can_be_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    inside = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 40, dir_fd=inside)
        below = os.open("d" * 40, os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = below
    os.close(inside)
    (top / "shut" / "inner").mkdir(parents=True)
    os.chmod(top / "shut" / "inner", 0)
    os.chmod(top / "shut", 0)
    (tmp_path / "kept").mkdir()
    (top / "link").symlink_to(tmp_path / "kept")
    (top / "dangling").symlink_to("nowhere")
    assert too_much(str(top))  # too deep to be counted
    remove(str(top))
    assert not top.exists()
    assert (tmp_path / "kept").exists()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove(str(tmp_path / "link"))
    assert os.listdir(tmp_path) == ["kept"]
    remove(str(tmp_path / "never"))


def test_a_program_cannot_take_the_names_by_which_its_folder_is_emptied(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in (*(f"remedy-{number}-{os.getpid()}" for number in range(1, 4)), "a/b/c", "a/b/d"):
        (top / name / "inner").mkdir(parents=True)
        (top / name / "inner" / "file").touch()
    remove(str(top))
    assert not top.exists()
