"""What is counted of wrong lines that follow another occurrence of the line before them."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.occurrences import elsewhere, steps, table, times, written_freely
from remedy.data_gen.examples import examples
from remedy.eval.scoring.occurrences import followed_another
from remedy.eval.view.evaluation import Opened

RUNS = Path(__file__).parents[1] / "results" / "study" / "wrong_actions" / "permutation"
RUN = RUNS / "hybrid,seed=3"


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=8), st.data())
def test_elsewhere_holds_what_a_judge_calls_following_another_occurrence(lines: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(lines) - 1))
    assert elsewhere(lines, place) == {line for line in "abcd" if followed_another(lines, place, line)}


@pytest.mark.parametrize(("condition", "doubtful"), [("repertoire=1__", False), ("repertoire=2__", True)])
def test_steps_are_commands_after_commands_up_to_the_first_error(condition: str, doubtful: bool) -> None:
    opened = Opened(RUN / "evaluation")
    [slug] = [slug for slug in opened.conditions if condition in slug]
    [example] = examples(opened.conditions[slug].data, "test", [0])
    whole = list(steps(example.frames, 6, len(example.frames), wrong=False, followed=False))
    assert [step["place"] for step in whole] == [1, 2, 3, 4, 5]
    assert any(step["doubtful"] for step in whole) == doubtful
    assert not any(step["wrong"] for step in whole)
    first = 8  # frames before the first command: two calls, the line that calls, five values
    assert not list(steps(example.frames, 6, first, wrong=True, followed=False))  # it follows no command
    third = list(steps(example.frames, 6, first + 2, wrong=True, followed=False))
    assert [(step["place"], step["wrong"]) for step in third] == [(1, False), (2, True)]
    ends_there = list(steps(example.frames, 6, first + 2, wrong=False, followed=False))  # by a wrong event, or a state
    assert len(ends_there) == 1


def test_a_run_is_counted_as_its_records_say() -> None:
    opened = Opened(RUN / "evaluation")
    freely = [slug for slug, one in opened.conditions.items() if one.forcing == "free" and "length" in one.own_labels]
    counted = pd.DataFrame(written_freely(RUN))
    assert counted["followed"].sum() == sum(opened.records(slug)["followed_another"].sum() for slug in freely) > 50
    assert (counted["at random"] <= counted["wrong"]).all()


def test_a_run_without_doubtful_steps_has_a_table() -> None:
    [row, *_] = table(pd.DataFrame(written_freely(RUNS / "hybrid-numbered,seed=3")))
    assert row.split(" | ")[1:4] == ["0", "0", "-"]


def test_steps_are_compared_with_others_of_their_run_and_place() -> None:
    def some(place: int, doubtful: bool, wrong: int, of: int) -> list[dict[str, object]]:
        return [{"run": "one", "place": place, "doubtful": doubtful, "wrong": number < wrong} for number in range(of)]

    # Late steps go wrong ten times as often and are mostly doubtful ones; at each place doubtful steps go wrong twice as often.
    early = some(1, True, 2, 100) + some(1, False, 9, 900)
    late = some(5, True, 180, 900) + some(5, False, 10, 100)
    assert times(pd.DataFrame(early + late)) == pytest.approx(2.0)
    assert pd.isna(times(pd.DataFrame(some(1, True, 3, 10) + some(1, False, 0, 10))))
