"""Holds how labels and rates of conditions are said in reports."""

from remedy.eval.report.groups import grouped, table
from remedy.eval.tables.sections import (
    constant,
    in_order,
    mean_of,
    named,
    ordered_labels,
    percent,
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


def test_no_condition_is_lost_in_a_table() -> None:
    conditions, records = together(
        *(
            made(HALF, run=run, labels={"length": length, "forcing": forcing})
            for run in ("a-0", "a-1", "b")
            for length in (4, 8)
            for forcing in ("free", "action_forced")
        ),
        variants={"a-0": "a", "a-1": "a"},
    )
    groups = grouped(conditions, records)
    rows = table(groups, {"Examples": lambda group: str(group.total("examples")), "Nothing": lambda group: "0"})
    assert rows[0] == ["Recipe", "Length", "Forcing", "Examples"]  # a column of zeros is left out
    assert rows[1:] == [
        [name, length, forcing, count]
        for name, count in (("a", "16"), ("b", "8"))
        for length in ("4", "8")
        for forcing in ("free", "action_forced")
    ]
    assert mean_of([run["right"] for run in groups[0].runs]) == "50 %"
    assert mean_of([groups[0].runs[0]["right"]]) == percent(conditions[0]["right"])
    assert mean_of([None]) == ""
