"""Holds how labels and rates of conditions are said in reports."""

from remedy.eval.tables.sections import (
    constant,
    in_order,
    named,
    ordered_labels,
    percent,
    rate_table,
    telling,
    text,
    varying,
)
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


def test_values_are_said_as_configurations_write_them() -> None:
    assert [text(value) for value in (True, 4.0, float("inf"), 3, "diff")] == ["true", "4", "inf", "3", "diff"]
    assert named({"spacing": 4.0, "answer_only": True, "form": "", "locals": "diff"}, ["spacing", "locals"]) == (
        "spacing 4, locals diff"
    )
    assert named({"answer_only": True}, ["answer_only"]) == "answer_only"
    assert named({"answer_only": False}, ["answer_only"]) == ""


def test_conditions_are_in_the_order_of_their_labels_values() -> None:
    labels = [{"length": 16}, {"length": 4, "forcing": "teacher_forced"}, {"length": 4}]
    conditions, _ = together(*(made(HALF, labels=one) for one in labels))
    assert [(one["labels"]["length"], one["labels"]["forcing"]) for one in in_order(conditions)] == [
        (4, "free"),
        (4, "teacher_forced"),
        (16, "free"),
    ]


def test_no_condition_is_lost_in_a_table_of_rates() -> None:
    conditions, _ = together(
        *(
            made([right] * 8, run=run, labels={"length": length, "forcing": forcing})
            for run, right in (("a", True), ("b", False))
            for length in (4, 8)
            for forcing in ("free", "action_forced")
        )
    )
    head, *rows = rate_table(conditions, "length")
    assert head == ["Run", "Forcing", "Length 4", "Length 8"]
    assert [row[:2] for row in rows] == [[run, forcing] for run in "ab" for forcing in ("free", "action_forced")]
    assert rows[0][2] == "100 %\n68 to 100 %; 23 tokens\nceiling: all right"
    assert rows[3][3] == "0 %\n0 to 32 %; 23 tokens\nfloor: none right"
    head, *rows = rate_table(conditions, "run")
    assert head == ["Length", "Forcing", "a", "b"]
    assert len(rows) == 4


def test_a_condition_without_an_example_has_no_rate() -> None:
    conditions, _ = together(made([False], failure="untraced", outcome="network"))
    assert percent(conditions[0]["right"]) == ""
