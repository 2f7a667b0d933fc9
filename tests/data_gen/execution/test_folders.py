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


def test_what_cannot_be_counted_is_too_much(tmp_path: Path) -> None:
    place = tmp_path
    for _ in range(3):
        place = place / ("d" * 250)
    place.mkdir(parents=True)
    assert not too_much(str(tmp_path))
    inside = os.open(place, os.O_RDONLY)
    for _ in range(16):
        os.mkdir("d" * 250, dir_fd=inside)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = below
    os.close(inside)
    assert too_much(str(tmp_path))
    remove(str(tmp_path / ("d" * 250)))
    assert not os.listdir(tmp_path)


def test_a_program_cannot_take_the_names_by_which_its_folder_is_emptied(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in (*(f"remedy-{number}-{os.getpid()}" for number in range(1, 4)), "a/b/c", "a/b/d"):
        (top / name / "inner").mkdir(parents=True)
        (top / name / "inner" / "file").touch()
    remove(str(top))
    assert not top.exists()
