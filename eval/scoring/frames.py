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
    counted,
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

    place: int
    failure: Failure
    role: Role | None = None
    value_type: str = ""


def score_frames(decoded: DecodedExample, tokenizer: TraceTokenizer) -> Score:
    """Score one example frame by frame."""
    example, runs = decoded.example, decoded.runs
    spelled = [frame.as_read(decoded.data.string_encoding) for frame in example.frames]
    true = Reading([*spelled], decoded.in_full(spelled), True)
    found = read(decoded, runs, tokenizer)
    answered = read_part(decoded, {Role.STATE, Role.VALUE}, tokenizer) if decoded.structure_fed else found
    right = (found.whole or decoded.structure_fed) and same_answer(
        [frame for frame in true.in_full if frame is not None],
        answered.in_full,
        answer_places(example),
        example.reveal.answer_only,
    )
    error = _first_error(decoded, true, found)
    truncated = not decoded.structure_fed and not runs[-1].complete
    score: Score = {
        **errorless(decoded, len(true.frames), tokenizer),
        "right": None if decoded.answer_fed else right,
        "valid_format": found.whole,
        "truncated": truncated,
        "answer": storable(answer_text(example, spelled, answered.frames)[:ANSWER_CHARACTERS]),
        **_matches(decoded, true, found, tokenizer),
    }
    if error is None:
        return score
    token, role = _stands(decoded, true, found, error, tokenizer)
    number = example.frames[min(error.place, len(true.frames) - 1)].number
    score = {**score, **first_error(decoded, error.place, number, token, role)}
    if role is Role.ACTION:
        written = found.frames[error.place] if error.place < len(found.frames) else None
        sources = [frame.source for frame in example.frames]
        score["followed_another"] = followed_another(sources, error.place, "" if written is None else written.source)
    if role in (Role.EVENT, Role.ACTION):
        score["wrong_action"] = wrong_action(decoded, error.place, _written_at(found, error.place)) or ""
    if not right and not decoded.answer_fed:
        failure = Failure.WRONG_ACTION if decoded.structure_fed and role is Role.EVENT else error.failure
        score["failure"] = Failure.RUNAWAY if truncated else failure
        score["value_type"] = error.value_type
        score["operation"] = operation_behind(example, number, role)
    return score


def answer_places(example: Example) -> list[int]:
    """Return the indices, from the end (-1), of the frames that hold the answer.

    These are the last frame and, before it, that of the exception that left the program, whose RETURN of None alone would look
    normal. Without a returned value it is the last frame with a state.
    """
    if example.answer_in_state:
        shown = [place for place, frame in enumerate(example.frames) if frame.locals is not None]
        return [shown[-1] - len(example.frames)]
    raised = example.trace.exception_frame
    found = [place - len(example.frames) for place, frame in enumerate(example.frames) if frame.number == raised]
    return [*found, -1]


def answer_text(example: Example, true: Sequence[ReadFrame], read: Sequence[ReadFrame | None]) -> str:
    """Return the written answer: a value, or `name=value` for each variable; empty if none."""
    place = answer_places(example)[0]
    found = read[place] if len(read) >= -place else None
    if found is None:
        return ""
    if true[place].value is not None:
        return found.value or ""
    return ",".join(f"{name}={text}" for name, text in (found.locals or {}).items())


def _written_at(found: Reading, place: int) -> ReadFrame | None:
    """Return the frame at an index, or the end; None if it cannot be read."""
    if place < len(found.frames):
        return found.frames[place]
    return ENDED if found.whole else None


def _first_error(decoded: DecodedExample, true: Reading, found: Reading) -> _Error | None:
    """Find the first frame whose meaning differs from the true one."""
    asks = FORMATS[decoded.data.format].session
    for place, frame in enumerate(true.in_full):
        other = found.in_full[place] if place < len(found.frames) else None
        if other is None or frame is None:
            return _Error(place, Failure.MALFORMED)
        if same_frame(other, frame):
            continue
        if other.event is not frame.event:
            return _Error(place, Failure.WRONG_ACTION, Role.EVENT)
        if other.locals != frame.locals:
            if asks and _asks_otherwise(other.locals or {}, frame.locals or {}):
                return _of(place, Failure.WRONG_QUERY)
            kind = _wrong_type(decoded, decoded.example.frames[place], frame, other)
            return _of(place, Failure.WRONG_STATE, kind)
        return _of(place, Failure.WRONG_ACTION if other.source != frame.source else Failure.WRONG_RETURN)
    if len(found.frames) > len(true.frames):
        return _of(len(true.frames), Failure.WRONG_ACTION)
    return None if found.whole else _Error(len(true.frames), Failure.MALFORMED)


def _stands(
    decoded: DecodedExample, true: Reading, found: Reading, error: _Error, tokenizer: TraceTokenizer
) -> tuple[int, Role]:
    """Return the position of the first error in the true sequence, and its role."""
    token = first_difference(decoded, error.place, tokenizer)
    if error.role is None:
        return token, Role(decoded.truth.roles[token])
    if _respelled(true, found, error.place):  # the first token that differs means the same
        here = (decoded.example.frames[error.place].number, error.role)
        places = enumerate(zip(decoded.truth.frames, decoded.truth.roles))
        token = next((at for at, (frame, role) in places if (frame, role) == here), token)
    return token, error.role


def _of(place: int, failure: Failure, value_type: str = "") -> _Error:
    return _Error(place, failure, FAILURE_ROLES[failure], value_type)


def _asks_otherwise(read: Mapping[str, str], true: Mapping[str, str]) -> bool:
    """Return whether two states of a session first differ in a question."""
    for (name, text), (true_name, true_text) in zip(read.items(), true.items()):
        if name != true_name or text != true_text:
            return name != true_name
    return len(read) != len(true)


def _wrong_type(decoded: DecodedExample, written: WrittenFrame, frame: ReadFrame, found: ReadFrame) -> str:
    """Return the type of the first wrong variable's true value, or `names`."""
    shown = frame.locals
    if shown is None or found.locals is None or (list(shown) != list(found.locals) and frame.event is not None):
        return "names"
    wrong = next((name for name, text in shown.items() if found.locals.get(name) != text), None)
    state = decoded.example.trace.frames[written.number].locals
    return state[wrong].type if wrong is not None and state is not None else "names"


def _respelled(true: Reading, found: Reading, place: int) -> bool:
    """Return whether a state means the true one but is spelled differently."""
    if place >= min(len(true.frames), len(found.frames)):
        return False
    texts = [frame.locals if frame is not None else None for frame in (true.frames[place], found.frames[place])]
    meant = [frame.locals if frame is not None else None for frame in (true.in_full[place], found.in_full[place])]
    return texts[0] != texts[1] and meant[0] == meant[1]


def _matches(decoded: DecodedExample, true: Reading, found: Reading, tokenizer: TraceTokenizer) -> Matches:
    """Count the right states, actions, variables and values of one trace.

    Frames are compared by index. If the structure was fed, each part is compared alone.
    """

    def alone(*roles: Role) -> Reading:
        return read_part(decoded, set(roles), tokenizer) if decoded.structure_fed else found

    def part(reading: Reading) -> Sequence[ReadFrame | None]:
        return [*reading.in_full, *[None] * (len(true.frames) - len(reading.frames))]

    states = alone(Role.STATE)

    rights: dict[Role, dict[int, bool]] = {Role.STATE: {}, Role.ACTION: {}, Role.VALUE: {}}
    named = valued = variables = 0
    parts = zip(
        (frame.number for frame in decoded.example.frames),
        true.in_full,
        part(alone(Role.EVENT, Role.ACTION)),
        part(states),
        part(alone(Role.QUERY, Role.STATE)),
        part(alone(Role.VALUE)),
    )
    for number, frame, act, state, asked, said in parts:
        assert frame is not None
        if frame.event is not None or frame.source:  # a session may end with a state alone
            rights[Role.ACTION][number] = act is not None and act.event is frame.event and act.source == frame.source
        if frame.value is not None:
            same = said is not None and said.event is frame.event and same_value(said.value or "", frame.value)
            rights[Role.VALUE][number] = same
        if frame.locals is None:
            continue
        own = (state.locals if state is not None else None) or {}
        exact = state is not None and state.locals is not None and list(own.items()) == list(frame.locals.items())
        rights[Role.STATE][number] = exact
        variables += len(frame.locals)
        shown = (asked.locals if asked is not None else None) or {}
        named += sum(name in shown for name in frame.locals)
        valued += sum(own.get(name) == value for name, value in frame.locals.items())
    names = Role.QUERY if FORMATS[decoded.data.format].session else Role.STATE
    return {
        **counted(decoded.wrote, rights, decoded.example),
        "key_match": share_right(decoded, {names}, named, variables),
        "key_value_match": share_right(decoded, {Role.STATE}, valued, variables),
        "respelled": sum(_respelled(true, states, place) for place in range(len(true.frames))),
    }
