"""What is counted of wrong lines that follow another occurrence of the line before them."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.occurrences import elsewhere, steps, table, written_freely
from remedy.data_gen.examples import examples
from remedy.eval.scoring.occurrences import followed_another
from remedy.eval.view.evaluation import Opened

RUN = Path(__file__).parents[1] / "results" / "study" / "wrong_actions" / "permutation" / "hybrid,seed=3"


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=8), st.data())
def test_elsewhere_holds_what_a_judge_calls_following_another_occurrence(lines: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(lines) - 1))
    assert elsewhere(lines, place) == {line for line in "abcd" if followed_another(lines, place, line)}


@pytest.mark.parametrize(("condition", "doubtful_steps"), [("repertoire=1__", 0), ("repertoire=2__", 1)])
def test_steps_are_those_up_to_the_first_error(condition: str, doubtful_steps: int) -> None:
    opened = Opened(RUN / "evaluation")
    [slug] = [slug for slug in opened.conditions if condition in slug]
    [example] = examples(opened.conditions[slug].data, "test", [0])
    whole = steps(example, len(example.frames), wrong=False, followed=False)
    assert (
        whole["doubtful"] + whole["sure"] == 11
    )  # a call, five values and six commands are lines: eleven come after another
    assert bool(whole["doubtful"]) == bool(doubtful_steps)
    after_three_values = 6  # frames: two calls, the line that calls, and three values
    assert sum(steps(example, after_three_values, wrong=False, followed=False).values()) == 3
    wrong = steps(example, after_three_values, wrong=True, followed=False)
    assert (wrong["sure"], wrong["sure wrong"], wrong["doubtful"]) == (4, 1, 0)


def test_a_run_is_counted_as_its_records_say() -> None:
    opened = Opened(RUN / "evaluation")
    freely = [slug for slug, one in opened.conditions.items() if one.forcing == "free" and "length" in one.own_labels]
    counted = pd.DataFrame(written_freely(RUN)).fillna(0)
    assert counted["followed"].sum() == sum(opened.records(slug)["followed_another"].sum() for slug in freely) > 50
    assert (counted["at random"] <= counted["doubtful wrong"]).all()


def test_what_repetition_foretells_is_the_rate_of_the_other_conditions_of_as_many_commands() -> None:
    none = {"doubtful wrong": 0, "at random": 0.0, "sure": 5, "sure wrong": 0}
    found = [
        {"condition": "6 of 2", "length": 6, "doubtful": 100, "followed": 10, **none},
        {"condition": "6 of 8", "length": 6, "doubtful": 50, "followed": 1, **none},
        {"condition": "9", "length": 9, "doubtful": 50, "followed": 40, **none},
    ]
    expected = [row.split(" | ")[6] for row in table(pd.DataFrame(found))]
    assert expected == ["2.0", "5.0", "-"]
