"""Records: one row for every example under every condition. What each column means, and how they are stored and summarised.

A file of records holds one condition. Its columns are those of `Record` and the condition's labels, which tell it from every
other condition: those that all conditions have (`COMMON`), and those that its diagnostic declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pandas as pd
import pyarrow as pa

from remedy.checksums import read_table, write_table
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.kinds import KINDS
from remedy.data_gen.traces.string_encodings import ENCODINGS
from remedy.eval.records.failures import UNTRACED
from remedy.eval.records.forms import SCALAR, check_rows
from remedy.registry import Registry

LabelValue = bool | int | float | str
CURE = "evaluate again, which makes it anew"
"""What to do about a damaged file of an evaluation."""


class Label(NamedTuple):
    """A property that tells conditions apart. `order`: its values as reports sort them; empty if they sort by themselves. `along`: of
    one that figures have on their x axis, labels whose values a line runs through where they grow with it; all others tell lines apart.
    `asked`: only conditions that were asked for with several of its values have it; any other's is its checkpoint's own.
    """

    name: str
    meaning: str
    order: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    asked: bool = False

    @property
    def title(self) -> str:
        """The head of a column of a table."""
        return self.name.replace("_", " ").capitalize()


LABELS: Registry[Label] = Registry("label")


def label(name: str, meaning: str, order: Sequence[str] = (), along: Sequence[str] = (), asked: bool = False) -> Label:
    """Declare a label; two diagnostics that use one name must mean the same.

    Raises:
        ValueError: the name has another meaning already.
    """
    found = LABELS.get(name)
    made = Label(name, meaning, tuple(order), tuple(along), asked)
    return found if found == made else LABELS.register(name)(made)


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
"""The labels of every condition, read from its data and its forcing."""


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
"""The same by what is counted."""


class Counted(TypedDict):
    """States, actions and values of a true trace, before and after a first error, and their kinds (`data_gen.traces.kinds`).

    A share, and a number of right ones, is null where the model wrote nothing of its kind, since all of it was fed or there is none.
    Where separators are fed, a part of a frame is right or wrong by itself. States mean the same whether a value is repeated or said to
    be unchanged.
    """

    state_exact: float | None
    """Share of the true trace's states that are shown with the same variables and values, in the same order and spelling."""
    action_exact: float | None
    """Share of its frames with an event or a source line that have the same ones."""
    value_exact: float | None
    """Share of its returned and raised values that are right, compared by what they mean as answers are (1 is 1.0)."""
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
    """States equal to the one last shown of their call: what "nothing changed" has right."""
    unchanged_states_right: int | None
    changed_states: int
    """All other states."""
    changed_states_right: int | None
    lines_below: int
    """Actions that are the next line below the last one of their call: what "the line below" has right."""
    lines_below_right: int | None
    values_repeated: int
    """Values equal to the one before: what "the value before" has right."""
    values_repeated_right: int | None


class Matches(Counted):
    """Matches of a true trace, frame by frame and variable by variable."""

    key_match: float | None
    """Share of the variables shown by its states that are shown."""
    key_value_match: float | None
    """Share of these that are shown with their values."""
    respelled: int
    """States that mean the true one and are spelled otherwise: in full where that is a diff, or the reverse."""


class OutOf(TypedDict):
    """Denominators of first-error rates, by role: tokens that the model wrote, or predicted, up to its first error or to the end. Under
    a constraint those are counted too that were certain."""

    out_of_structure: int
    out_of_event: int
    out_of_action: int
    out_of_query: int
    out_of_state: int
    out_of_value: int


class Constrained(TypedDict):
    """Effect of a constraint on what the model wrote; all 0 without one."""

    certain_tokens: int
    """Tokens that could not be others: they were fed, and are none that the model wrote."""
    masked_tokens: int
    """Tokens that the model chose among several that the constraint allowed."""
    cut_mass: float
    """The probability that the model gave to all others there, summed over these tokens; NaN where a server chose, which does
    not tell."""
    changed_tokens: int | None
    """Tokens that the model wrote in place of its likeliest, which the constraint did not allow there; null where a server chose."""


class Score(Matches, OutOf, Constrained):
    """Score of one example. A field means the same whichever scorer wrote it."""

    right: bool | None
    """Whether the answer is right: the returned value, the exception of a program that raised, or of a session all of its final
    state; a trace must end well too. Null where states or values are fed, from which the answer is read: then it is not the model's."""
    valid_format: bool
    """Whether what was written reads as a whole trace."""
    truncated: bool
    """Whether a limit on tokens cut what the model wrote, or kept it from writing at all."""
    written_tokens: int
    """Tokens that the model wrote; under a constraint without those that were certain."""
    read_tokens: int
    """Tokens that it had to read for that with its memory, without guesses: those in sight at its last token, what is fed and certain
    included, and those in sight wherever a frame was forgotten before, after which reading begins anew."""
    frames: int
    """Frames of the true trace that are written, without the seeded first one."""
    frames_right: int
    """How many of these come before the first error, which is its place among the written frames, counted from 0 as generations do."""
    first_error_frame: int
    """The number in the trace of the first frame that differs from the truth; -1 if none does."""
    first_error_token: int
    """The place in the true sequence of the first token that differs; -1 if none does."""
    first_error_role: str
    """The role that is wrong at the first error; empty if there is none."""
    first_error_in_string: bool
    """Whether the first token that differs belongs, in the truth, to the text of a string value."""
    failure: str
    """The class of a wrong answer (`failures`); `untraced` where there is no truth; empty if the answer is right, or is not the
    model's."""
    followed_another: bool
    """Whether the first error is a line that does follow the line before it, but where that one stands another time: a place was
    lost among lines of one text."""
    wrong_action: str
    """Of a first error that is an event or a source line, which of `failures.WrongAction` it is; empty where it is none, or its
    program's control flow cannot be told."""
    value_type: str
    """Of a failure by a wrong state: the type of the first wrong variable's true value, or `names`; else empty."""
    operation: str
    """What the line does to which a failure is attributed; empty if the answer is right, or no line is to blame."""
    answer: str
    """The answer as written under the condition's string encoding, at most 500 characters; empty if none was."""
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
    """A hash of the program, the same however it is written down: pairs examples of different conditions."""
    cluster: str
    """A hash of what examples are drawn together by, as the executions of one function are; else of the program alone."""
    index: int
    """The example's index in its split: with `condition`, leads to what the model wrote."""
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
    """The probability that a guess among the answers that are possible is right; NaN where the task does not know them."""
    start_right: float
    """1 if answering with what the program starts from, its input or the initial state, is right, else 0; NaN where it starts from
    nothing."""
    python: str
    """The interpreter that ran the program."""
    isolation: str
    """The isolation it ran under."""
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
"""The column that counts the tokens of a role."""
OUT_OF = {role: f"out_of_{role.label}" for role in Role if role is not Role.CONTEXT}
"""The column that first errors of a role are out of."""
TRACE_COLUMNS = [column for role, column in ROLE_COLUMNS.items() if role is not Role.CONTEXT]
"""The columns that count the tokens of a trace, without what is given."""


NULLABLE = {
    "right": "boolean",
    **dict.fromkeys(("changed_tokens", *(f"{name}_right" for names in KINDS.values() for name in names)), "Int64"),
    **dict.fromkeys(("state_exact", "action_exact", "value_exact", "key_match", "key_value_match"), float),
}
"""The types of columns that may have nulls, of which no row has to have another value."""


def token_counts(roles: Sequence[int]) -> dict[str, int]:
    """The columns that count tokens by role."""
    return {column: list(roles).count(role) for role, column in ROLE_COLUMNS.items()}


def write_records(
    path: Path, run: str, rows: Iterable[Mapping[str, Any]], labels: Mapping[str, LabelValue], evaluation: str
) -> None:
    """Write one condition's records, the whole file or none of it. `evaluation`: which they are a part of, by its digest."""
    found = [{"run": run, **row} for row in rows]
    table = pd.DataFrame(found, columns=list(Record.__annotations__)).assign(**labels).astype(NULLABLE)
    write_table(path, pa.Table.from_pandas(table), evaluation)


def read_records(path: Path, evaluation: str | None = None) -> pd.DataFrame:
    """One condition's records: the columns of `Record`, and its labels. Its pages are checked.

    Raises:
        DamagedFile: the file is missing or damaged, or a part of another evaluation than `evaluation`, if that is given.
    """
    found: pd.DataFrame = check_rows(path, CURE, read_table(path, CURE, evaluation), _Labelled, SCALAR).to_pandas()
    # Where it is null, the column keeps its nullable type: whatever asks for it as a truth value fails.
    return found if found["right"].isna().any() else found.astype({"right": bool})


def label_columns(records: pd.DataFrame) -> list[str]:
    """The labels that the records have, in the order of their declaration; a report's own columns are none."""
    own = (*Record.__annotations__, "variant", "changed_state_exact")
    found = [str(column) for column in records.columns if column not in own]
    places = {name: place for place, name in enumerate(LABELS)}
    return sorted(found, key=lambda name: places.get(name, len(places)))


def rank(name: str, value: Any) -> Any:
    """Sorts the values of a label: in its declared order where it has one, unknown ones last."""
    order = LABELS[name].order if name in LABELS else ()
    if not order:
        return value
    return (order.index(value), ()) if value in order else (len(order), _natural(str(value)))


def _natural(text: str) -> tuple[str | int, ...]:
    return tuple(int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", text)))


def with_changed(records: pd.DataFrame) -> pd.DataFrame:
    """Return the records with the share of `changed_states` that is right, unless they were made before these were counted."""
    if "changed_states" not in records:
        return records
    share = records["changed_states_right"].astype(float) / records["changed_states"].clip(lower=1)
    return records.assign(changed_state_exact=share)


def answered(records: pd.DataFrame) -> pd.DataFrame:
    """The records whose answers are the model's, to be right or wrong: those of forcings that feed neither states nor values."""
    return records[records["right"].notna()]


def traced_only(records: pd.DataFrame) -> pd.DataFrame:
    """The records without those of programs that could not be run, at which no model can be right or wrong."""
    return records[records["failure"] != UNTRACED]
