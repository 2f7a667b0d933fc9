"""Holds that a mitigation is compared with its baseline on the same examples, and what is said of it."""

import math
from typing import Any

import pytest

from remedy.data_gen.settings import ConfigError
from remedy.eval.report.verdicts import Comparison, between_runs, decide, default_comparisons, within_runs
from remedy.eval.stats import VerdictWord
from tests.eval.made_records import made, together

WORSE, BETTER = [False] * 19 + [True], [True] * 20


def comparison(baseline: dict[str, Any], treatment: dict[str, Any]) -> Comparison:
    return Comparison.model_validate({"mitigation": "m", "baseline": baseline, "treatment": treatment})


def test_the_verdict_of_a_pair_known_by_hand() -> None:
    _, records = together(made(WORSE, run="a", tokens_state=100), made(BETTER, run="b", tokens_state=42))
    found = decide(comparison({"run": "a"}, {"run": "b"}), records)
    assert found.word is VerdictWord.FIXED
    assert (found.result.gained, found.result.lost, found.result.examples) == (19, 0, 20)
    assert found.result.p_value == pytest.approx(2 * 0.5**19)
    assert found.token_ratio == pytest.approx((42 + 15) / (100 + 15))
    assert decide(comparison({"run": "b"}, {"run": "a"}), records).word is VerdictWord.WORSE
    assert decide(comparison({"run": "a"}, {"run": "a"}), records).word is VerdictWord.NO_EVIDENCE


def test_examples_are_paired_and_those_not_written_cost_nothing() -> None:
    before = made([False, False, True], run="a")
    after = made([True, True], run="b", example=["0002", "0001"], index=[2, 1], tokens_state=[8, 0]).assign(
        tokens_structure=0, tokens_action=[1, 0], tokens_value=0
    )
    _, records = together(before, after)
    found = decide(comparison({"run": "a"}, {"run": "b"}), records)
    assert (found.result.examples, found.result.gained) == (2, 1)
    assert found.token_ratio == pytest.approx(9 / 23)
    assert math.isnan(
        decide(
            comparison({"run": "a"}, {"run": "b"}),
            records.assign(
                **dict.fromkeys(
                    ("tokens_structure", "tokens_action", "tokens_query", "tokens_state", "tokens_value"), 0
                )
            ),
        ).token_ratio
    )


def test_what_a_comparison_lacks_is_said() -> None:
    _, records = together(
        *(
            made(WORSE, run="first", labels={"length": n, "forcing": f})
            for n in (3, 6)
            for f in ("free", "action_forced")
        )
    )
    full = {"length": 3, "forcing": "free"}
    for where, run, says in (
        (full, "frist", "did you mean 'first'"),
        ({**full, "lenght": 3}, "first", "did you mean 'length'"),
        ({**full, "every": 1}, "first", "'every' is now 'spacing'"),
        ({"length": 7}, "first", "has no records"),
        ({"length": 3}, "first", r"leaves several conditions .* also fix \['forcing'\]"),
    ):
        with pytest.raises(ConfigError, match=says):
            decide(comparison({"run": run, "where": where}, {"run": "first", "where": where}), records)
    other = made(WORSE, run="other", example=[f"x{n}" for n in range(20)])
    _, records = together(made(WORSE, run="first"), other)
    with pytest.raises(ConfigError, match="share no example"):
        decide(comparison({"run": "first"}, {"run": "other"}), records)


def test_every_run_is_compared_with_the_first_under_each_condition_that_both_have() -> None:
    conditions, records = together(
        *(made(WORSE, run="a", labels={"length": n}) for n in (3, 6, 9)),
        *(made(BETTER, run="b", labels={"length": n}) for n in (3, 6, 12)),
    )
    found = between_runs(conditions)
    assert [(c.baseline.run, c.treatment.run, c.treatment.where["length"]) for c in found] == [
        ("a", "b", 3),
        ("a", "b", 6),
    ]
    assert {decide(one, records).word for one in default_comparisons(conditions)} == {VerdictWord.FIXED}


def test_in_a_run_conditions_are_compared_that_differ_in_one_label() -> None:
    traced = [{"forcing": f, "locals": shown} for f in ("action_forced", "free") for shown in ("diff", "full")]
    traced = [{**labels, "spacing": 4.0} for labels in traced]
    at_once = {"answer_only": True}
    conditions, records = together(*(made(WORSE, labels={"benchmark": "own", **one}) for one in (at_once, *traced)))
    found = within_runs(conditions, ("spacing", "locals", "answer_only", "forcing"))
    assert {(one.mitigation, one.failure) for one in found} == {
        ("forcing action_forced in place of free", "long horizon"),
        ("locals diff in place of full", "token budget"),
        ("answer_only", "token budget"),
    }
    for one in found:
        assert {name: one.baseline.where[name] for name in ("answer_only", "forcing", "locals")} == {
            "answer_only": False,
            "forcing": "free",
            "locals": "full",
        }
        assert decide(one, records).result.examples == 20
    assert within_runs(conditions, ()) == []
