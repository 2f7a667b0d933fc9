"""Holds how labels and rates of conditions are said in reports."""

from remedy.eval.tables.sections import (
    constant,
    folded,
    grouped,
    in_order,
    mean_of,
    named,
    ordered_labels,
    percent,
    table,
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
    conditions, _ = together(
        *(
            made(HALF, run=run, labels={"length": length, "forcing": forcing})
            for run in ("a-0", "a-1", "b")
            for length in (4, 8)
            for forcing in ("free", "action_forced")
        ),
        variants={"a-0": "a", "a-1": "a"},
    )
    groups = grouped(conditions)
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


def test_rows_that_differ_in_one_number_become_one() -> None:
    rows = [["Recipe", "Steps", "Seed"], *(["a", "600 steps\n1,200 tokens", str(seed)] for seed in range(6))]
    rows += [["b", "600 steps\n900 tokens", "0"], ["b", "600 steps\n950 tokens", "1"]]
    assert folded(rows) == (
        [
            ["Recipe", "Steps", "Seed"],
            ["a", "600 steps\n1,200 tokens", "0 to 5"],
            ["b", "600 steps\n900, 950 tokens", "0, 1"],
        ],
        "",
    )
    three = [["Recipe", "Model", "Seed"], ["a", "gru", "0"], ["b", "gru", "1"]]
    assert folded(three) == ([["Recipe", "Seed"], ["a", "0"], ["b", "1"]], "All rows: model gru.")
    two = [["Recipe", "Model"], ["a", "gru"], ["b", "gru"]]
    assert folded(two) == (two, "")  # else nothing would be left
    assert folded([["Recipe", "Model"], ["a", "x"], ["a", "y"]])[0][1:] == [["a", "x / y"]]
