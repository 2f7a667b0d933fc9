"""The queue of GPU jobs: all of them rehearse, what fails or is cut off is told apart, and what is done is not done again."""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.queue import JOBS, Cell, run


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_every_job_rehearses(name: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    assert run(name, tmp_path, 9, rehearse=True)
    assert time.monotonic() - begin < 120
    found = lines(tmp_path / f"{name}.jsonl")
    assert [line for line in found if "failed" in line] == []
    assert found[0]["job"] == name
    assert found[-1]["missing"] == []
    measured = {line["cell"] for line in found if "cell" in line and "seconds" not in line}
    assert measured == {line["cell"] for line in found if "seconds" in line and "cell" in line}


def job(monkeypatch: pytest.MonkeyPatch, *cells: Cell) -> list[str]:
    """A job `fake` of these cells. Returns what is measured."""
    measured: list[str] = []

    def measure(name: str, facts: int, wait: float = 0) -> Iterator[dict[str, Any]]:
        measured.append(name)
        for number in range(facts):
            yield {"fact": number}
            time.sleep(wait)

    module = types.ModuleType("benchmarks.gpu.fake", "Does it work?")
    module.__dict__.update(cells=lambda rehearse: list(cells), measure=measure)
    monkeypatch.setitem(sys.modules, "benchmarks.gpu.fake", module)
    return measured


def cell(name: str, facts: int = 1, **given: Any) -> Cell:
    return Cell(name, {"name": name, "facts": facts, **given}, seconds=0.0)


def test_a_cell_that_fails_is_recorded_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dies = Cell("dies", {}, seconds=60.0, apart=True)  # its process knows no job of this name
    job(monkeypatch, cell("a", 2), dies, cell("last"))
    assert run("fake", tmp_path, 9, rehearse=False)
    found = lines(tmp_path / "fake.jsonl")
    assert [line["fact"] for line in found if "fact" in line] == [0, 1, 0]
    (failed,) = (line for line in found if "failed" in line)
    assert failed["cell"] == "dies"
    assert "its process ended with 2" in failed["failed"]
    assert "invalid choice" in failed["failed"]
    assert found[-1] | {"seconds_left": 0} == {"job": "fake", "cells": 3, "missing": [], "seconds_left": 0}


def test_what_the_end_of_the_time_cuts_off_is_measured_anew_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cells = cell("done"), cell("long", 3, wait=0.2), cell("never")
    measured = job(monkeypatch, *cells)
    assert not run("fake", tmp_path, 0.3 / 60, rehearse=False)
    assert lines(tmp_path / "fake.jsonl")[-1]["missing"] == ["long", "never"]
    assert run("fake", tmp_path, 9, rehearse=False)
    assert measured == ["done", "long", "long", "never"]
    facts = [(line["cell"], line["fact"]) for line in lines(tmp_path / "fake.jsonl") if "fact" in line]
    assert facts == [("done", 0), ("long", 0), ("long", 1), ("long", 2), ("never", 0)]
