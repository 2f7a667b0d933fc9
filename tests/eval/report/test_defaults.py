"""Holds what a report compares if it is not told."""

from remedy.eval.report.defaults import between_variants, default_comparisons, diagnoses, within_variants
from remedy.eval.report.verdicts import compute_verdicts
from remedy.eval.stats import VerdictWord
from tests.eval.made_records import made, together

WORSE, BETTER = [False] * 99 + [True], [True] * 100


def test_every_variant_is_compared_with_the_baseline_under_each_condition_that_both_have() -> None:
    conditions, records = together(
        *(made(WORSE, run="a", labels={"length": n}) for n in (3, 6, 9)),
        *(made(BETTER, run="b", labels={"length": n}) for n in (3, 6, 12)),
    )
    found = between_variants(conditions)
    assert [(c.baseline.run, c.treatment.run, c.treatment.where["length"]) for c in found] == [
        ("a", "b", 3),
        ("a", "b", 6),
    ]
    assert {one.word for one in compute_verdicts(default_comparisons(conditions), records)} == {VerdictWord.FIXED}
    declared = between_variants(conditions, ["b"])
    assert [(c.baseline.run, c.treatment.run) for c in declared] == [("b", "a")] * 2


TRACED = [
    {"forcing": f, "locals": shown, "spacing": 4.0} for f in ("action_forced", "free") for shown in ("diff", "full")
]
CONDITIONS, RECORDS = together(
    *(made(WORSE, labels={"benchmark": "own", **one}) for one in ({"answer_only": True}, *TRACED))
)


def test_conditions_of_a_variant_are_compared_that_differ_in_one_label() -> None:
    found = within_variants(CONDITIONS, ("spacing", "locals", "answer_only"))
    assert {(one.mitigation, one.failure) for one in found} == {
        ("run, forcing action_forced: locals diff in place of full", "token budget"),
        ("run, forcing free: locals diff in place of full", "token budget"),
        ("run, forcing free: answer_only", "token budget"),
    }
    assert {one.difference.examples for one in compute_verdicts(found, RECORDS)} == {100}
    assert within_variants(CONDITIONS, ()) == []


def test_what_is_fed_is_diagnosed_and_not_judged() -> None:
    found = diagnoses(CONDITIONS)
    assert {one.mitigation for one in found} == {
        "run, locals full: forcing action_forced in place of free",
        "run, locals diff: forcing action_forced in place of free",
    }
    assert {one.word for one in compute_verdicts(found, RECORDS)} == {None}


def test_a_constraint_feeds_no_truth_and_is_judged() -> None:
    conditions, records = together(
        made(WORSE), *(made(BETTER, labels={"forcing": name}) for name in ("control_flow", "action_forced"))
    )
    found = diagnoses(conditions)
    assert [(one.mitigation, one.failure) for one in found] == [
        ("forcing control_flow in place of free", "wrong action"),
        ("forcing action_forced in place of free", "any"),
    ]
    assert [one.word for one in compute_verdicts(found, records)] == [VerdictWord.FIXED, None]
