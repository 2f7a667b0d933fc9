"""Holds what a report says of constraints, and of wrong actions by control flow."""

from remedy.eval.report.constrained import constraint_sections
from tests.eval.made_records import made, together


def test_what_was_certain_and_what_was_cut_is_shown_of_constrained_conditions_alone() -> None:
    held = {"written_tokens": 60, "certain_tokens": 40, "masked_tokens": 10, "cut_mass": 2.0, "changed_tokens": 3}
    conditions, _ = together(made([True] * 4), made([True] * 4, labels={"forcing": "control_flow"}, **held))
    assert conditions[0]["constraint"] is None
    (section,) = constraint_sections("Programs", conditions)
    assert section.title == "Programs: what constraints cut"
    assert section.rows is not None
    head, row = section.rows
    assert head == ["Run", "Forcing", "Written", "Certain", "Choices", "Cut", "Changed"]
    assert [cell.split("\n")[0] for cell in row] == ["run", "control_flow", "240", "40 %", "40", "20 %", "5 %"]


def test_wrong_actions_are_told_apart() -> None:
    errors = {"first_error_role": "action", "first_error_frame": 2, "frames_right": 1}
    kinds = ["outside the control flow", *["allowed by the control flow"] * 2, "against the written state", ""]
    conditions, _ = together(made([False] * 5, wrong_action=kinds, **errors))
    (section,) = constraint_sections("Programs", conditions)
    assert section.rows == [
        [
            "Run",
            "Forcing",
            "Examples",
            "Outside the control flow",
            "Allowed by the control flow",
            "Against the written state",
        ],
        ["run", "free", "5", "1", "2", "1"],
    ]


def test_nothing_is_said_where_nothing_was_constrained_or_wrong() -> None:
    conditions, _ = together(made([True] * 3), made([False] * 3, labels={"forcing": "action_forced"}))
    assert constraint_sections("Programs", conditions) == []
