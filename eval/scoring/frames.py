"""Score traces written as text, frame by frame: what was right on the way, and where and why does it first differ?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.frames import WrittenFrame
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding import TEACHER_FORCED, Generated
from remedy.eval.failures import Failure
from remedy.eval.records import Matches, Score
from remedy.eval.scoring.answers import answer_text, same_answer
from remedy.eval.scoring.common import ANSWER_CHARACTERS, Decoded, operation_behind, share, storable
from remedy.eval.scoring.places import by_frame, first_difference
from remedy.models.tokenizer import TraceTokenizer

FAILURE_ROLES: Mapping[Failure, Role] = {
    Failure.WRONG_ACTION: Role.ACTION,
    Failure.WRONG_QUERY: Role.QUERY,
    Failure.WRONG_STATE: Role.STATE,
    Failure.WRONG_RETURN: Role.VALUE,
}
"""The role of the part of a frame that differs; where a frame cannot be read, its first wrong token says it."""
_ANSWERS = frozenset({Role.STATE, Role.VALUE})


class _Read(NamedTuple):
    """The frames that were read, None for one that cannot be, and whether all of it reads as a trace."""

    frames: list[ReadFrame | None]
    whole: bool


class _Error(NamedTuple):
    """The first frame that differs: its place among the written frames, what differs, and for states the type of value."""

    place: int
    failure: Failure
    value_type: str = ""


def score_frames(decoded: Decoded, tokenizer: TraceTokenizer) -> Score:
    """One example's score: is the answer right, what was right on the way, and where and why did it first differ?"""
    example, runs, encoding = decoded.example, decoded.runs, decoded.data.string_encoding
    true = [frame.as_read(encoding) for frame in example.frames]
    read = _read(decoded, runs, tokenizer)
    # Predicted after true tokens, a wrong line or separator changed nothing of what followed.
    told = _read(decoded, _answers_of(decoded), tokenizer) if decoded.fed == TEACHER_FORCED else read
    right = (read.whole or decoded.structure_fed) and same_answer(example, true, told.frames)
    error = _first_error(decoded, true, read)
    cut = not decoded.structure_fed and not runs[-1].complete
    score: Score = {
        "right": right,
        "valid_format": read.whole,
        "truncated": cut,
        "written_tokens": sum(len(run.ids) for run in runs),
        "frames": len(true),
        "frames_right": len(true),
        "first_error_frame": -1,
        "first_error_token": -1,
        "first_error_role": "",
        "first_error_in_string": False,
        "failure": "",
        "value_type": "",
        "operation": "",
        "answer": storable(answer_text(example, true, told.frames)[:ANSWER_CHARACTERS]),
        "true_answer": example.answer[:ANSWER_CHARACTERS],
        **_matches(true, read.frames),
    }
    if error is None:
        return score
    number = example.frames[min(error.place, len(true) - 1)].number
    token = first_difference(decoded, error.place, tokenizer)
    role = FAILURE_ROLES.get(error.failure, Role(decoded.truth.roles[token]))
    score["frames_right"] = error.place
    score["first_error_frame"] = number
    score["first_error_token"] = token
    score["first_error_role"] = role.label
    score["first_error_in_string"] = bool(decoded.truth.strings[token])
    if not right:
        score["failure"] = Failure.RUNAWAY if cut else error.failure
        score["value_type"] = error.value_type
        score["operation"] = operation_behind(example, number, role)
    return score


def _read(decoded: Decoded, runs: Sequence[Generated], tokenizer: TraceTokenizer) -> _Read:
    """What was written. Where the structure was fed, a frame that cannot be read does not keep others from being read."""
    form, answer_only = FORMATS[decoded.data.format], decoded.data.reveal.answer_only
    if not decoded.structure_fed:
        trace = form.read(tokenizer.pieces(decoded.written(runs)), answer_only)
        return _Read(list(trace.frames), trace.valid)
    groups = by_frame(decoded.truth, runs)
    found: list[ReadFrame | None] = []
    for frame in decoded.example.frames:
        ids = [token for _, token in groups.get(frame.number, ())]
        trace = form.read([*tokenizer.pieces(ids), Special.END_OF_TEXT], answer_only)
        found.append(trace.frames[0] if trace.valid and len(trace.frames) == 1 else None)
    return _Read(found, None not in found)


def _answers_of(decoded: Decoded) -> list[Generated]:
    """The tokens of states and values alone, each a run; of runs as long as what they stand for."""
    return [
        Generated(at, at + 1, run.ids[at - run.start : at - run.start + 1], [], True)
        for run in decoded.runs
        for at in range(run.start, run.stop)
        if Role(decoded.truth.roles[at]) in _ANSWERS
    ]


def _first_error(decoded: Decoded, true: Sequence[ReadFrame], read: _Read) -> _Error | None:
    """Where what was read first differs from the true frames."""
    asks = FORMATS[decoded.data.format].session
    for place, frame in enumerate(true):
        found = read.frames[place] if place < len(read.frames) else None
        if found is None:
            return _Error(place, Failure.MALFORMED)
        if found == frame:
            continue
        if found.event is not frame.event:
            return _Error(place, Failure.WRONG_ACTION)
        if found.locals != frame.locals:
            if asks and _asks_otherwise(found.locals or {}, frame.locals or {}):
                return _Error(place, Failure.WRONG_QUERY)
            return _Error(place, Failure.WRONG_STATE, _wrong_type(decoded, decoded.example.frames[place], found))
        return _Error(place, Failure.WRONG_ACTION if found.source != frame.source else Failure.WRONG_RETURN)
    if len(read.frames) > len(true):
        return _Error(len(true), Failure.WRONG_ACTION)
    return None if read.whole else _Error(len(true), Failure.MALFORMED)


def _asks_otherwise(read: Mapping[str, str], true: Mapping[str, str]) -> bool:
    """Whether two states of a session first differ in what is asked for, and not in an answer."""
    for (name, text), (true_name, true_text) in zip(read.items(), true.items()):
        if name != true_name or text != true_text:
            return name != true_name
    return len(read) != len(true)


def _wrong_type(decoded: Decoded, frame: WrittenFrame, found: ReadFrame) -> str:
    """The type of the first wrong variable's true value, or `names`."""
    shown = frame.as_read(decoded.data.string_encoding).locals
    if shown is None or found.locals is None or (list(shown) != list(found.locals) and frame.event is not None):
        return "names"
    wrong = next((name for name, text in shown.items() if found.locals.get(name) != text), None)
    state = decoded.example.trace.frames[frame.number].locals
    return state[wrong].type if wrong is not None and state is not None else "names"


def _matches(true: Sequence[ReadFrame], found: Sequence[ReadFrame | None]) -> Matches:
    """Shares of one trace's frames: exact states, exact actions, variables named, variables with their values.

    Frames are compared at their place in the trace; a missing one matches nothing.
    """
    states = actions = exact = named = valued = variables = 0
    for place, frame in enumerate(true):
        other = found[place] if place < len(found) else None
        actions += other is not None and other.event is frame.event and other.source == frame.source
        if frame.locals is None:
            continue
        states += 1
        shown = (other.locals if other is not None else None) or {}
        exact += (
            other is not None and other.locals is not None and list(other.locals.items()) == list(frame.locals.items())
        )
        variables += len(frame.locals)
        named += sum(name in shown for name in frame.locals)
        valued += sum(shown.get(name) == value for name, value in frame.locals.items())
    return {
        "state_exact": share(exact, states),
        "action_exact": share(actions, len(true)),
        "key_match": share(named, variables),
        "key_value_match": share(valued, variables),
        "states": states,
        "actions": len(true),
    }
