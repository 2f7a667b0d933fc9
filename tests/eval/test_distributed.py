"""Several processes evaluate as one does: whichever of them are killed, under torchrun too, and on whatever number it goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.eval import distributed
from remedy.eval.distributed import Rank
from remedy.eval.generators.request_log import Journal
from remedy.eval.records.folder import RECORDS, UNFINISHED
from remedy.processes import Process, this_process
from remedy.settings import UserError
from tests.evaluations import assert_the_same, of_random_weights, unfinished
from tests.launch.in_process import remedy
from tests.train.launching import finished, launched, start

EXAMPLES = 9
DRIVER = str(Path(__file__).with_name("driver.py"))
TORCHRUN = ["torchrun", "--standalone", "--nproc_per_node", "2"]


@given(st.lists(st.integers(1, 1000), max_size=60), st.integers(1, 9))
def test_every_example_is_one_processs_and_parts_are_of_like_lengths(lengths: list[int], size: int) -> None:
    parts = [Rank(Process(rank, rank, size)).part(lengths) for rank in range(size)]
    assert sorted(place for part in parts for place in part) == list(range(len(lengths)))
    sums = [sum(lengths[place] for place in part) for part in parts]
    assert max(sums) - min(sums) <= max(lengths, default=0)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("told", [("1", None, "2"), ("2", "0", "2"), ("one", "0", "2")], ids=str)
def test_an_environment_that_does_not_say_which_process_this_is_is_refused(
    told: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in zip(("RANK", "LOCAL_RANK", "WORLD_SIZE"), told):
        monkeypatch.delenv(key, raising=False)
        if value is not None:
            monkeypatch.setenv(key, value)
    with pytest.raises(UserError, match=rf"^RANK={told[0]} .*WORLD_SIZE=2 in the environment do not say"):
        this_process()


def test_one_that_is_waited_for_has_to_give_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (Rank(Process(number, number, 3)) for number in range(3))
    condition = tmp_path / "a"
    condition.mkdir()
    first.finish(condition)
    third.finish(condition)  # and has left
    assert first.unfinished(condition) == [1]
    second.beat(tmp_path)
    first.listen(tmp_path, [1])
    monkeypatch.setattr(distributed, "SILENCE", -1.0)
    with pytest.raises(UserError, match=r"nothing was heard of process 1 of 3 for .*give the same command again"):
        first.listen(tmp_path, [1])
    os.utime(tmp_path / "1.alive", (0, 0))
    first.listen(tmp_path, [1])
    second.finish(condition)
    assert first.unfinished(condition) == Rank().unfinished(condition) == []
    assert Rank(Process(0, 0, 2)).unfinished(condition) == [
        0,
        1,
    ]  # what is written of other parts says nothing of these
    second.finish(tmp_path / "gone")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An evaluation of random weights in three conditions, without its folder."""
    forcing = ["free", "action_forced", "teacher_forced"]
    diagnostic = {"kind": "permutation", "lengths": [1, 3], "forcing": forcing, "examples": EXAMPLES}
    model, config = of_random_weights(tmp_path_factory.mktemp("inputs"), diagnostic, 60)
    return [str(model), str(config), "--name", "x", "--out"]


@pytest.fixture(scope="module")
def alone(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes of it."""
    folder = tmp_path_factory.mktemp("alone")
    ended = remedy(["evaluate", *command, folder], 120)
    assert ended.status == 0, ended.errors
    return folder


@pytest.mark.slow
def test_two_processes_write_the_records_of_one_and_one_of_them_halves_its_batch(
    command: list[str], alone: Path, tmp_path: Path
) -> None:
    out = finished(start([DRIVER, *command, str(tmp_path)], 2, ROOMLESS="1"))
    assert_the_same(alone, tmp_path)
    assert (tmp_path / "summary.json").read_bytes() == (alone / "summary.json").read_bytes()
    assert not (tmp_path / UNFINISHED).exists()
    assert [line.split()[0] for line in out.splitlines() if "/6 " in line and "%" in line] == [
        f"{n}/6" for n in range(1, 7)
    ]
    assert out.count("summary: ") == 1
    assert out.count("out of memory; 1 examples are written at a time") == 1


@pytest.mark.slow
def test_whatever_ends_it_nothing_is_lost_and_it_goes_on_with_another_number_of_processes(
    command: list[str], alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One alone that is interrupted, a full disk of two under torchrun, SIGKILL of both, of one; then one alone."""
    add, held = Journal.add, []

    def interrupted(journal: Journal, *what: Any) -> None:
        if len(held) == 2:
            raise KeyboardInterrupt
        held.append(add(journal, *what))

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", interrupted)
        assert remedy(["evaluate", *command, tmp_path], 120).status == 130

    words = [DRIVER, *command, str(tmp_path)]

    def ended(broken: tuple[int, str], killed: bool) -> tuple[str, int]:
        status, out = broken
        assert status
        assert ("half a li" in unfinished(tmp_path)) == killed
        done = len(list((tmp_path / RECORDS).glob("*.parquet")))
        return out, EXAMPLES * done + sum(line != "half a li" for line in unfinished(tmp_path))

    out, first = ended(launched([*TORCHRUN, *words], FULL="0 1"), killed=False)
    (line,) = [line for line in out.splitlines() if line.startswith("error: ")]
    assert "No space left on device; make room and give the same command again" in line
    assert "exitcode  : 2" in out
    _, second = ended(start(words, 2, KILLED="0 1").ended(), killed=True)
    _, third = ended(start(words, 2, KILLED="1").ended(), killed=True)
    assert 2 < first < second < third
    whole = remedy(["evaluate", *command, tmp_path], 120)
    assert whole.status == 0, whole.errors
    assert_the_same(alone, tmp_path)
    assert not (tmp_path / UNFINISHED).exists()
