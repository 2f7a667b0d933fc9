"""Holds how labels and rates of conditions are said in reports."""

from remedy.eval.tables.sections import constant, in_order, ordered_labels, telling, varying
from tests.eval.made_records import made, together

HALF = [True, False] * 4


def test_labels_that_tell_conditions_apart_are_found_and_the_others_said_once() -> None:
    conditions, _ = together(
        made(HALF, run="a", labels={"length": 4}),
        made(HALF, run="a", labels={"length": 8}),
        made(HALF, run="b", labels={"length": 4, "spacing": 2.0}),
    )
    assert ordered_labels(conditions)[0] == "length"  # a diagnostic's own labels come before those of all conditions
    assert varying(conditions) == ["length", "spacing"]
    assert telling(conditions) == ["length"]  # a run's name says its spacing
    assert constant(conditions) == (
        "All with format cwm, string_encoding plain, locals full, answer_only false, forcing free."
    )


def test_conditions_are_in_the_order_of_their_labels_values() -> None:
    labels = [{"length": 16}, {"length": 4, "forcing": "teacher_forced"}, {"length": 4}]
    conditions, _ = together(*(made(HALF, labels=one) for one in labels))
    assert [(one["labels"]["length"], one["labels"]["forcing"]) for one in in_order(conditions)] == [
        (4, "free"),
        (4, "teacher_forced"),
        (16, "free"),
    ]
