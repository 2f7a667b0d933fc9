"""Scorer for traces written as text, frame by frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from remedy.data_gen.examples import Example
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.comparison import same_answer, same_frame
from remedy.data_gen.traces.frames import WrittenFrame
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.traces.values import same_value
from remedy.eval.records.failures import Failure
from remedy.eval.records.schema import Matches, Score
from remedy.eval.scoring.actions import ENDED, wrong_action
from remedy.eval.scoring.common import (
    ANSWER_CHARACTERS,
    DecodedExample,
    count_frames,
    errorless,
    first_error,
    followed_another,
    operation_behind,
    share_right,
    storable,
)
from remedy.eval.scoring.reading import Reading, first_difference, read, read_part
from remedy.models.tokenizer import TraceTokenizer

FAILURE_ROLES: Mapping[Failure, Role] = {
    Failure.WRONG_ACTION: Role.ACTION,
    Failure.WRONG_QUERY: Role.QUERY,
    Failure.WRONG_STATE: Role.STATE,
    Failure.WRONG_RETURN: Role.VALUE,
}
"""Role of the part of a frame that differs. If a frame cannot be read, its first wrong token has the role."""


class _Error(NamedTuple):
    """First frame that differs, by its index among the written ones.

    `role`: None if the first wrong token decides it. `value_type`: of a wrong state.
    """

    frame_index: int
    failure: Failure
    role: Role | None = None
    value_type: str = ""


def score_frames(decoded: DecodedExample, tokenizer: TraceTokenizer) -> Score:
    example, runs = decoded.example, decoded.runs
    spelled = [frame.as_read(decoded.data.string_encoding) for frame in example.frames]
    true = Reading([*spelled], decoded.in_full(spelled), True)
    reading = read(decoded, runs, tokenizer)
    # Where separators are fed, a wrong line in the answer's frame does not spoil the answer.
    answered = read_part(decoded, {Role.STATE, Role.VALUE}, tokenizer) if decoded.structure_fed else reading
    right = (reading.whole or decoded.structure_fed) and same_answer(
        [frame for frame in true.in_full if frame is not None],
        answered.in_full,
        answer_indices(example),
        example.reveal.answer_only,
    )
    error = _first_error(decoded, true, reading)
    truncated = not decoded.structure_fed and not runs[-1].complete
    score: Score = {
        **errorless(decoded, len(true.frames), tokenizer),
        "right": None if decoded.answer_fed else right,
        "valid_format": reading.whole,
        "truncated": truncated,
        "answer": storable(answer_text(example, spelled, answered.frames)[:ANSWER_CHARACTERS]),
        **_matches(decoded, true, reading, tokenizer),
    }
    if error is None:
        return score
    token, role = _locate(decoded, true, reading, error, tokenizer)
    number = example.frames[min(error.frame_index, len(true.frames) - 1)].number
    score = {**score, **first_error(decoded, error.frame_index, number, token, role)}
    written = _written_at(reading, error.frame_index)
    if role is Role.ACTION:
        sources = [frame.source for frame in example.frames]
        score["followed_another"] = followed_another(
            sources, error.frame_index, "" if written is None else written.source
        )
    if role in (Role.EVENT, Role.ACTION):
        score["wrong_action"] = wrong_action(decoded, error.frame_index, written) or ""
    if not right and not decoded.answer_fed:
        # The fed parts may not fit a wrong event: its frame then reads as malformed.
        failure = Failure.WRONG_ACTION if decoded.structure_fed and role is Role.EVENT else error.failure
        score["failure"] = Failure.RUNAWAY if truncated else failure
        score["value_type"] = error.value_type
        score["operation"] = operation_behind(example, number, role)
    return score


def answer_indices(example: Example) -> list[int]:
    """Return the indices, from the end (-1), of the frames that hold the answer.

    These are the last frame and that of the exception that left the program. Without a returned value it is the last
    frame with a state.
    """
    if example.answer_in_state:
        shown = [index for index, frame in enumerate(example.frames) if frame.locals is not None]
        return [shown[-1] - len(example.frames)]
    # After an exception, the last frame is a RETURN of None, which alone would look normal.
    raised = example.trace.exception_frame
    indices = [index - len(example.frames) for index, frame in enumerate(example.frames) if frame.number == raised]
    return [*indices, -1]


def answer_text(example: Example, true: Sequence[ReadFrame], read: Sequence[ReadFrame | None]) -> str:
    """Return the written answer: a value, or `name=value` for each variable; empty if none."""
    index = answer_indices(example)[0]
    frame = read[index] if len(read) >= -index else None
    if frame is None:
        return ""
    if true[index].value is not None:
        return frame.value or ""
    return ",".join(f"{name}={text}" for name, text in (frame.locals or {}).items())


def _written_at(reading: Reading, index: int) -> ReadFrame | None:
    """Return the frame at an index, or the end; None if it cannot be read."""
    if index < len(reading.frames):
        return reading.frames[index]
    return ENDED if reading.whole else None


def _first_error(decoded: DecodedExample, true: Reading, reading: Reading) -> _Error | None:
    """Find the first frame whose meaning differs from the true one."""
    is_session = FORMATS[decoded.data.format].session
    for index, frame in enumerate(true.in_full):
        written = reading.in_full[index] if index < len(reading.frames) else None
        if written is None or frame is None:
            return _Error(index, Failure.MALFORMED)
        if same_frame(written, frame):
            continue
        if written.event is not frame.event:
            return _Error(index, Failure.WRONG_ACTION, Role.EVENT)
        if written.locals != frame.locals:
            if is_session and _differs_in_question(written.locals or {}, frame.locals or {}):
                return _of(index, Failure.WRONG_QUERY)
            kind = _wrong_type(decoded, decoded.example.frames[index], frame, written)
            return _of(index, Failure.WRONG_STATE, kind)
        return _of(index, Failure.WRONG_ACTION if written.source != frame.source else Failure.WRONG_RETURN)
    if len(reading.frames) > len(true.frames):
        return _of(len(true.frames), Failure.WRONG_ACTION)
    return None if reading.whole else _Error(len(true.frames), Failure.MALFORMED)


def _locate(
    decoded: DecodedExample, true: Reading, reading: Reading, error: _Error, tokenizer: TraceTokenizer
) -> tuple[int, Role]:
    """Return the position of the first error in the true sequence, and its role."""
    token = first_difference(decoded, error.frame_index, tokenizer)
    if error.role is None:
        return token, Role(decoded.truth.roles[token])
    if _respelled(true, reading, error.frame_index):  # the first different token still means the same
        frame_and_role = (decoded.example.frames[error.frame_index].number, error.role)
        true_tokens = enumerate(zip(decoded.truth.frames, decoded.truth.roles))
        token = next((position for position, (frame, role) in true_tokens if (frame, role) == frame_and_role), token)
    return token, error.role


def _of(index: int, failure: Failure, value_type: str = "") -> _Error:
    return _Error(index, failure, FAILURE_ROLES[failure], value_type)


def _differs_in_question(read: Mapping[str, str], true: Mapping[str, str]) -> bool:
    """Return whether two states of a session first differ in a question."""
    for (name, text), (true_name, true_text) in zip(read.items(), true.items()):
        if name != true_name or text != true_text:
            return name != true_name
    return len(read) != len(true)


def _wrong_type(decoded: DecodedExample, written: WrittenFrame, frame: ReadFrame, written_frame: ReadFrame) -> str:
    """Return the type of the first wrong variable's true value, or `names`."""
    true_locals = frame.locals
    read_locals = written_frame.locals
    if true_locals is None or read_locals is None:
        return "names"
    if list(true_locals) != list(read_locals) and frame.event is not None:
        return "names"
    wrong = next((name for name, text in true_locals.items() if read_locals.get(name) != text), None)
    state = decoded.example.trace.frames[written.number].locals
    return state[wrong].type if wrong is not None and state is not None else "names"


def _respelled(true: Reading, reading: Reading, index: int) -> bool:
    """Return whether a state means the true one but is spelled differently."""
    if index >= min(len(true.frames), len(reading.frames)):
        return False
    texts = [frame.locals if frame is not None else None for frame in (true.frames[index], reading.frames[index])]
    meant = [frame.locals if frame is not None else None for frame in (true.in_full[index], reading.in_full[index])]
    return texts[0] != texts[1] and meant[0] == meant[1]


def _matches(decoded: DecodedExample, true: Reading, reading: Reading, tokenizer: TraceTokenizer) -> Matches:
    """Count the right parts of one trace, frame by frame; if the structure was fed, each part alone."""

    def read_roles(*roles: Role) -> Reading:
        return read_part(decoded, set(roles), tokenizer) if decoded.structure_fed else reading

    def padded(reading: Reading) -> Sequence[ReadFrame | None]:
        return [*reading.in_full, *[None] * (len(true.frames) - len(reading.frames))]

    states = read_roles(Role.STATE)

    rights: dict[Role, dict[int, bool]] = {Role.STATE: {}, Role.ACTION: {}, Role.VALUE: {}}
    named = valued = variables = 0
    parts = zip(
        (frame.number for frame in decoded.example.frames),
        true.in_full,
        padded(read_roles(Role.EVENT, Role.ACTION)),
        padded(states),
        padded(read_roles(Role.QUERY, Role.STATE)),
        padded(read_roles(Role.VALUE)),
    )
    for number, frame, action, state, query, value in parts:
        assert frame is not None
        if frame.event is not None or frame.source:  # a session may end with a state alone
            rights[Role.ACTION][number] = (
                action is not None and action.event is frame.event and action.source == frame.source
            )
        if frame.value is not None:
            is_right = value is not None and value.event is frame.event and same_value(value.value or "", frame.value)
            rights[Role.VALUE][number] = is_right
        if frame.locals is None:
            continue
        written_locals = (state.locals if state is not None else None) or {}
        exact = (
            state is not None
            and state.locals is not None
            and list(written_locals.items()) == list(frame.locals.items())
        )
        rights[Role.STATE][number] = exact
        variables += len(frame.locals)
        shown = (query.locals if query is not None else None) or {}
        named += sum(name in shown for name in frame.locals)
        valued += sum(written_locals.get(name) == value for name, value in frame.locals.items())
    names = Role.QUERY if FORMATS[decoded.data.format].session else Role.STATE
    return {
        **count_frames(decoded.wrote, rights, decoded.example),
        "key_match": share_right(decoded, {names}, named, variables),
        "key_value_match": share_right(decoded, {Role.STATE}, valued, variables),
        "respelled": sum(_respelled(true, states, index) for index in range(len(true.frames))),
    }
