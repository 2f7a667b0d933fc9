"""Schema of records: one row for every example under every condition.

A file holds one condition. Its columns are those of `Record` and the condition's labels: `COMMON` and those of its diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import pyarrow as pa

from remedy.checksums import read_table, write_table
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.kinds import KINDS
from remedy.data_gen.traces.string_encodings import ENCODINGS
from remedy.eval.records.failures import UNTRACED
from remedy.eval.records.forms import SCALAR, check_rows
from remedy.registry import Registry

if TYPE_CHECKING:
    import pandas as pd

LabelValue = bool | int | float | str
CURE = "evaluate again, which makes it anew"
"""What to do about a damaged file of an evaluation."""


class Label(NamedTuple):
    """Property that distinguishes conditions.

    `order`: its values as reports sort them; empty for natural order. `along`: for a label on the x axis of figures, labels that
    may grow with it along one line. `asked`: only conditions requested with several of its values have it.
    """

    name: str
    meaning: str
    order: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    asked: bool = False

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()


LABELS: Registry[Label] = Registry("label")


def label(name: str, meaning: str, order: Sequence[str] = (), along: Sequence[str] = (), asked: bool = False) -> Label:
    """Declare a label, which means the same in all diagnostics.

    Raises:
        ValueError: the name already has another meaning.
    """
    known = LABELS.get(name)
    declared = Label(name, meaning, tuple(order), tuple(along), asked)
    return known if known == declared else LABELS.register(name)(declared)


COMMON = (
    label("format", "How traces are written down: cwm, repl, symbolic, or one of your own."),
    label("string_encoding", "How string values are written.", tuple(ENCODINGS)),
    label(
        "locals",
        "Which variables a kept state shows, and how.",
        ("full", "diff", "changes", "one_in_turn", "one_at_random"),
    ),
    label("spacing", "The state of every so many frames is kept."),
    label("answer_only", "Whether the model answers at once, without a trace."),
    label(
        "forcing",
        "Which roles the decoder feeds, or what holds the model to some tokens.",
        ("free", "control_flow", "line_forced", "action_forced", "state_forced", "teacher_forced"),
    ),
)
"""Labels of every condition, read from its data and its forcing."""


AT = label(
    "at",
    "Where states are kept beside those of the spacing: at a program's own marks, or at a share of its lines. Of conditions that "
    "mark any.",
    asked=True,
)

PARTS = {
    Role.STATE: ("state_exact", "states"),
    Role.ACTION: ("action_exact", "actions"),
    Role.VALUE: ("value_exact", "returns"),
}
"""By role, the share of a trace's frames that is right, and their number."""
FRAMES = {role.label: part for role, part in PARTS.items()} | {
    "changed_state": ("changed_state_exact", "changed_states")
}
"""The same, by what is counted."""


class FrameCounts(TypedDict):
    """States, actions and values of a true trace, and their kinds (`data_gen.traces.kinds`).

    A share or a number of right ones is null if the model wrote nothing of its kind. Where separators are fed, each part of a frame
    is compared alone. States are compared by meaning, with unchanged values filled in.
    """

    state_exact: float | None
    """Share of the true trace's states that are shown with the same variables and values, in the same order and spelling."""
    action_exact: float | None
    """Share of its frames with an event or a source line in which both are right."""
    value_exact: float | None
    """Share of its returned and raised values that are right, compared by meaning as answers are (1 is 1.0)."""
    states: int
    """States of the true trace, the denominator of `state_exact`."""
    actions: int
    """Frames of the true trace with an event or a source line, the denominator of `action_exact`: the last of a session has none."""
    returns: int
    """Returned and raised values of the true trace, the denominator of `value_exact`."""
    argument_states: int
    """States that a call begins with."""
    argument_states_right: int | None
    unchanged_states: int
    """States equal to the one last shown of their call, which the rule "nothing changed" gets right."""
    unchanged_states_right: int | None
    changed_states: int
    """All other states."""
    changed_states_right: int | None
    lines_below: int
    """Actions on the next line below the last one of their call, which the rule "the line below" gets right."""
    lines_below_right: int | None
    values_repeated: int
    """Values equal to the one before, which the rule "the value before" gets right."""
    values_repeated_right: int | None


class Matches(FrameCounts):
    """Matches of a true trace, frame by frame and variable by variable."""

    key_match: float | None
    """Share of the variables in its states that are shown."""
    key_value_match: float | None
    """Share of these that are shown with their values."""
    respelled: int
    """States that mean the true one but are spelled differently: in full in place of a diff, or the reverse."""


class ErrorDenominators(TypedDict):
    """Denominators of first-error rates: tokens by role, up to the first error.

    They count tokens that the model wrote or predicted, and certain ones.
    """

    out_of_structure: int
    out_of_event: int
    out_of_action: int
    out_of_query: int
    out_of_state: int
    out_of_value: int


class ConstraintEffect(TypedDict):
    """Effect of a constraint on the output; all 0 without one."""

    certain_tokens: int
    """Tokens that were the only allowed ones: they were fed, and the model did not write them."""
    masked_tokens: int
    """Tokens that the model chose among several that the constraint allowed."""
    cut_mass: float
    """Probability that the model gave to all other tokens there, summed; NaN if a server chose, which does not tell."""
    changed_tokens: int | None
    """Tokens written in place of the model's likeliest one, which was not allowed; null if a server chose."""


class Score(Matches, ErrorDenominators, ConstraintEffect):
    """Score of one example. A field means the same for both scorers."""

    right: bool | None
    """Whether the answer is right: the returned value, the exception of a program that raised, or all of a session's final state; a
    trace must also end properly. Null where states or values are fed, since the answer is read from them."""
    valid_format: bool
    """Whether the output reads as a whole trace."""
    truncated: bool
    """Whether a limit on tokens cut the output, or prevented it."""
    written_tokens: int
    """Tokens that the model wrote, without certain ones."""
    read_tokens: int
    """Tokens that it had to read with its memory, without drafts: those seen at its last token, fed and certain ones included, and
    those seen wherever a frame was forgotten before, after which all are read again."""
    frames: int
    """Frames of the true trace that are written, without a seeded first one."""
    frames_right: int
    """Number of these before the first error, which is its index among the written frames, from 0."""
    first_error_frame: int
    """The number in the trace of the first frame that differs from the truth; -1 if none does."""
    first_error_token: int
    """Position in the true sequence of the first token that differs; -1 if none does."""
    first_error_role: str
    """The role that is wrong at the first error; empty if there is none."""
    first_error_in_string: bool
    """Whether the first token that differs belongs, in the truth, to the text of a string value."""
    failure: str
    """Class of a wrong answer (`failures`); `untraced` without a truth; empty if the answer is right, or was fed."""
    followed_another: bool
    """Whether the first error is a line that follows another occurrence of the line before it: the model lost its place among equal
    lines."""
    wrong_action: str
    """For a first error in an event or a source line, its `failures.WrongAction`; empty for other errors, or if control flow cannot
    tell."""
    value_type: str
    """For a failure by a wrong state, the type of the first wrong variable's true value, or `names`; else empty."""
    operation: str
    """Operation of the line that a failure is attributed to; empty if there is none."""
    answer: str
    """Answer as written in the condition's string encoding, at most 500 characters; empty if none was."""
    true_answer: str
    """The true answer, at most 500 characters, under the `plain` encoding."""


class Record(Score):
    """One example under one condition."""

    run: str
    """The name that the evaluation gives the checkpoint."""
    diagnostic: str
    """The kind of diagnostic that the condition belongs to."""
    condition: str
    """The condition: the name, without suffix, of its files in `records` and `generations`."""
    example: str
    """Hash of the program, however it is written down: pairs examples of different conditions."""
    cluster: str
    """Hash of what examples are drawn together by, such as the function that several execute; else of the program."""
    index: int
    """Index of the example in its split; with `condition` it leads to the generation."""
    split: str
    """The split that the example was drawn from."""
    source: str
    """The name of a program that was read from a benchmark or file; empty for generated ones."""
    functions: str
    """The functions that a composed program calls, separated by spaces; else empty."""
    held_out_pairs: int
    """How many of the held-out pairs of commands or functions the program has."""
    outcome: str
    """`ok`, or why the program could not be traced or written."""
    chance: float
    """Probability that a guess among the possible answers is right; NaN if the task does not know them."""
    start_right: float
    """1 if answering with the program's input or initial state is right, else 0; NaN if it has neither."""
    python: str
    """The interpreter that ran the program."""
    isolation: str
    """Isolation that it ran under."""
    tokens_context: int
    tokens_structure: int
    tokens_event: int
    tokens_action: int
    tokens_query: int
    tokens_state: int
    tokens_value: int
    """Tokens of the true sequence by role. Context is what is given: the program and the seeded first frame; structure, separators;
    event, what a frame is; action, source lines or commands; query, questions for a state; value, returned or raised values."""


class _Labelled(Record):
    answer_only: bool
    forcing: str


ROLE_COLUMNS = {role: role.column for role in Role}
"""Column that counts the tokens of a role."""
OUT_OF = {role: f"out_of_{role.label}" for role in Role if role is not Role.CONTEXT}
"""Column with the denominator of a role's first errors."""
TRACE_COLUMNS = [column for role, column in ROLE_COLUMNS.items() if role is not Role.CONTEXT]
"""Columns that count the tokens of a trace, without the context."""


NULLABLE = {
    "right": "boolean",
    **dict.fromkeys(("changed_tokens", *(f"{name}_right" for names in KINDS.values() for name in names)), "Int64"),
    **dict.fromkeys(("state_exact", "action_exact", "value_exact", "key_match", "key_value_match"), float),
}
"""Types of columns that may hold only nulls."""


def token_counts(roles: Sequence[int]) -> dict[str, int]:
    return {column: list(roles).count(role) for role, column in ROLE_COLUMNS.items()}


def write_records(
    path: Path, run: str, rows: Iterable[Mapping[str, Any]], labels: Mapping[str, LabelValue], evaluation: str
) -> None:
    """Write one condition's records atomically. `evaluation`: its digest."""
    import pandas as pd  # here, since settings are read without it

    numbered_rows = [{"run": run, **row} for row in rows]
    table = pd.DataFrame(numbered_rows, columns=list(Record.__annotations__)).assign(**labels).astype(NULLABLE)
    write_table(path, pa.Table.from_pandas(table), evaluation)


def read_records(path: Path, evaluation: str | None = None) -> pd.DataFrame:
    """Read one condition's records and check the file.

    Raises:
        DamagedFile: the file is missing or damaged, or of another evaluation.
    """
    records: pd.DataFrame = check_rows(path, CURE, read_table(path, CURE, evaluation), _Labelled, SCALAR).to_pandas()
    # With nulls the column keeps its nullable type, so that its use as a boolean mask fails.
    return records if records["right"].isna().any() else records.astype({"right": bool})


def label_columns(records: pd.DataFrame) -> list[str]:
    """Return the labels of the records in their declared order."""
    other_columns = (*Record.__annotations__, "variant", "changed_state_exact")
    labels = [str(column) for column in records.columns if column not in other_columns]
    order = {name: position for position, name in enumerate(LABELS)}
    return sorted(labels, key=lambda name: order.get(name, len(order)))


def rank(name: str, value: Any) -> Any:
    """Return a label value's sort key: declared order, then unknown values."""
    order = LABELS[name].order if name in LABELS else ()
    if not order:
        return value
    return (order.index(value), ()) if value in order else (len(order), _natural(str(value)))


def _natural(text: str) -> tuple[str | int, ...]:
    return tuple(int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", text)))


def with_changed(records: pd.DataFrame) -> pd.DataFrame:
    """Add the share of right `changed_states`, if the records count them."""
    if "changed_states" not in records:
        return records
    share = records["changed_states_right"].astype(float) / records["changed_states"].clip(lower=1)
    return records.assign(changed_state_exact=share)


def answered(records: pd.DataFrame) -> pd.DataFrame:
    """Return records whose answers are the model's, not fed."""
    return records[records["right"].notna()]


def traced_only(records: pd.DataFrame) -> pd.DataFrame:
    """Return the records of programs that could be run."""
    return records[records["failure"] != UNTRACED]
