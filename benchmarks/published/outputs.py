"""Reads a published output, which has lost its special tokens, as a trace again, and has the package's judge score it.

What is lost is told from what is left: a state or a value says where a frame's parts begin. Whether a state belongs to a call or a
line, and a value to a return or an exception, it does not say: there the truth's event is taken where the line is the truth's too, so
that a wrong event of the right line cannot be seen. The repr of an object that has no literal (`<str_iterator object>`) names a type of
the interpreter's and no value of the program's: where the truth has one and the output has another, it is read as the truth's, and
counted.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from benchmarks.published.reports import Failed
from benchmarks.published.truths import LIMIT, Shown, shown
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.cwm import EVENT_TOKENS
from remedy.data_gen.traces.frames import WrittenFrame
from remedy.data_gen.traces.judge import same_frame
from remedy.data_gen.traces.parse import Piece, ReadFrame
from remedy.data_gen.traces.values import same_value
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.records.schema import Score
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.reading import read
from remedy.models.tokenizer import TraceTokenizer

_JSON = json.JSONDecoder()
_ANSWER = re.compile(r"\[ANSWER\]\s*(.*?)\s*\[/ANSWER\]", re.DOTALL)
SLACK = 300
"""Tokens by which the count of an output may be off: what was lost in text that is no frame is not counted."""
REPEATS = 4
"""A text is a loop where what it ends in stands in it so many times."""


class Restored(NamedTuple):
    """An output as pieces of a trace, and as it is spelled. `ended`: whether the trace is followed by other text, `after`; `slips`:
    reprs of objects that are read as the truth's."""

    pieces: list[Piece]
    spelled: list[Piece]
    frames: int
    """Whole frames."""
    ended: bool
    after: str
    slips: int


class Judged(NamedTuple):
    """Judgement of one output.

    `cut`: it has as many tokens as could be written. `place`: of the first frame that is wrong, None if none that was written is; its
    `role`; `wrong`: the first wrong value as it should be, None where it is none, `missed` where `..` stands for a change.
    `trace_right`: the trace is whole and its result is true. `answer_right`: so is the answer block; None without one.
    """

    score: Score
    restored: Restored
    tokens: int
    """Of the whole output, with special tokens where it had them."""
    cut: bool
    role: str
    place: int | None
    wrong: Shown | None
    missed: bool
    trace_right: bool
    answer_right: bool | None
    loops: bool
    result: str
    """What the program that was asked about gives."""


def restore(text: str, truth: Example) -> Restored:
    """The special tokens back in their places, as far as the text reads as frames."""
    start = re.match(r"\{\}def main\(\):[^\n]*\n", text)
    at = start.end() if start else 0
    pieces: list[Piece] = []
    spelled: list[Piece] = []
    count = 0

    def restored(ended: bool, after: str) -> Restored:
        slips = sum(one != other for one, other in zip(pieces, spelled))
        return Restored(pieces, spelled, count, ended, after, slips)

    while at < len(text) and not text.startswith("\n\n", at):
        true = truth.frames[count] if count < len(truth.frames) else None
        frame, end = _frame(text, at, true)
        spelled += frame
        pieces += [_named_as(piece, true) if isinstance(piece, str) else piece for piece in frame]
        if end is None:
            return restored(False, "")
        at, count = end, count + 1
    return restored(at < len(text), text[at:])


def _named_as(piece: str, true: WrittenFrame | None) -> str:
    """A state or value in which objects without a literal have the reprs that they have in truth."""
    if true is None or "<" not in piece or piece[:1] not in '{"':
        return piece
    meant = {"": true.value} if true.locals is None else true.locals
    try:
        said = json.loads(piece)
    except (ValueError, RecursionError):
        return piece
    for name, text in (said if isinstance(said, dict) else {"": said}).items():
        value = meant.get(name)
        if (
            value is not None
            and isinstance(text, str)
            and _opaque(text)
            and _opaque(value.text)
            and not value.is_string
        ):
            piece = piece.replace(json.dumps(text), json.dumps(value.text), 1)
    return piece


def _opaque(text: str) -> bool:
    return text.startswith("<") and text.endswith(">")


def _frame(text: str, at: int, true: WrittenFrame | None) -> tuple[list[Piece], int | None]:
    """The pieces of the frame at a place, and where it ends; None if it has no end."""
    state, end = _read(text, at) if text[at] == "{" else ("", at)
    if text[at] == "{":
        stop = text.find("\n", end) + 1 if end is not None else 0
        source = text[end:stop] if end is not None and stop else ""
        token = EVENT_TOKENS[_event(source, true)]
        if source:
            return [token, state, Special.ACTION_SEP, source, Special.FRAME_SEP], stop
        return [token, *([state, Special.ACTION_SEP, text[end:]] if state else [text[at:]])], None
    raised = true is not None and true.event is Event.EXCEPTION
    token = EVENT_TOKENS[Event.EXCEPTION if raised else Event.RETURN]
    stop = text.find("\n", at) + 1
    if not stop:
        return [token, Special.ACTION_SEP, text[at:]], None
    head: list[Piece] = [token, Special.ACTION_SEP, text[at:stop], Special.ARG_SEP]
    value, end = _read(text, stop)
    return ([*head, value, Special.FRAME_SEP], end) if end is not None else ([*head, text[stop:]], None)


def _event(source: str, true: WrittenFrame | None) -> Event:
    """Call or line: the truth's where the line is the truth's, or was cut; else by what the line looks like."""
    given = true is not None and (source == true.source or not source)
    if given and true is not None and true.event in (Event.CALL, Event.LINE):
        return true.event
    return Event.CALL if source.lstrip().startswith(("def ", "async def ")) else Event.LINE


def _read(text: str, at: int) -> tuple[str, int | None]:
    """The JSON text at a place, and where it ends; nothing and None if there is none."""
    try:
        _, end = _JSON.raw_decode(text, at)
    except (ValueError, RecursionError):
        return "", None
    return text[at:end], end


def judge(failed: Failed, truth: Example, data: DataConfig, tokenizer: TraceTokenizer) -> Judged:
    """One output against the true trace of the program that was asked about."""
    restored = restore(failed.output, truth)
    encoded = tokenizer.encode(truth.spans)
    start = next((at for at, role in enumerate(encoded.roles) if role != Role.CONTEXT), len(encoded.ids))
    ids = [token for piece in restored.pieces for token in _ids(piece, tokenizer)]
    tokens = (
        sum(len(_ids(piece, tokenizer)) for piece in restored.spelled)
        + len(tokenizer.string_ids(restored.after))
        + _hidden(restored.after)
    )
    cut = tokens >= LIMIT - SLACK
    whole = bool(restored.pieces) and (restored.ended or not cut)
    if whole:
        ids.append(tokenizer.eos_id)
    decoded = Decoded(
        truth, encoded, [Generated(start, len(encoded.ids), ids, [0.0] * len(ids), whole)], fed_roles("free"), data
    )
    score = score_frames(decoded, tokenizer)
    place = _first_wrong(decoded, restored, whole, tokenizer)
    wrong, missed = (None, False) if place is None else _wrong_value(decoded, place, score, tokenizer)
    role = score["first_error_role"] if place is not None else ""
    right = bool(score["right"])
    return Judged(
        score,
        restored,
        tokens,
        cut,
        role,
        place,
        wrong,
        missed,
        right,
        _answer_right(failed, truth),
        _loops(failed.output),
        truth.answer,
    )


def _ids(piece: Piece, tokenizer: TraceTokenizer) -> list[int]:
    return tokenizer.string_ids(piece) if isinstance(piece, str) else [tokenizer.special_ids[piece]]


def _hidden(after: str) -> int:
    """Special tokens that what follows the trace has lost, where it holds traces itself: three for every frame with a state, four for
    one with a value."""
    return 3 * len(re.findall(r"^\{", after, re.MULTILINE)) + 4 * len(re.findall(r'^"', after, re.MULTILINE))


def _first_wrong(decoded: Decoded, restored: Restored, ended: bool, tokenizer: TraceTokenizer) -> int | None:
    """The place of the first written frame that is wrong: the judge's, unless all that was written was right when it was cut."""
    found, true = (
        read(decoded, decoded.runs, tokenizer),
        decoded.in_full(decoded.spelled()[-len(decoded.example.frames) :]),
    )
    for place, frame in enumerate(true):
        if place >= len(found.frames):
            break
        other = found.in_full[place]
        if other is None or frame is None or not same_frame(other, frame):
            return place
    whole = len(found.frames)
    if not restored.pieces:
        return None
    if ended:
        return None if whole == len(true) else min(whole, len(true))
    return None if _starts_right(decoded, restored, whole) else whole


def _starts_right(decoded: Decoded, restored: Restored, place: int) -> bool:
    """Say if the frame that was cut begins as the true one does."""
    if place >= len(decoded.example.frames):
        return False
    tail = restored.pieces[_after_frames(restored) :]
    written = "".join(piece for piece in tail if isinstance(piece, str))
    number = decoded.example.frames[place].number
    spans = [span for span in decoded.example.spans if span.frame == number and span.role is not Role.CONTEXT]
    return "".join(span.piece for span in spans if isinstance(span.piece, str)).startswith(written)


def _after_frames(restored: Restored) -> int:
    ends = [at for at, piece in enumerate(restored.pieces) if piece is Special.FRAME_SEP]
    return ends[-1] + 1 if ends else 0


def _wrong_value(decoded: Decoded, place: int, score: Score, tokenizer: TraceTokenizer) -> tuple[Shown | None, bool]:
    """The first wrong value as it should be, and whether it was written as unchanged."""
    found = read(decoded, decoded.runs, tokenizer)
    if place >= min(len(found.frames), len(decoded.example.frames)):
        return None, False
    other, spelled, frame = found.in_full[place], found.frames[place], decoded.example.frames[place]
    if other is None or spelled is None or score["first_error_role"] not in ("state", "value"):
        return None, False
    if frame.value is not None and score["first_error_role"] == "value":
        return shown(place, "", frame.value, tokenizer, True), False
    state = decoded.example.trace.frames[frame.number].locals or {}
    name = next((name for name, value in state.items() if (other.locals or {}).get(name) != value.text), None)
    if name is None or name not in (other.locals or {}):
        return None, False
    return shown(place, name, state[name], tokenizer, True), _unchanged(spelled, name)


def _unchanged(frame: ReadFrame, name: str) -> bool:
    return (frame.locals or {}).get(name) == ".."


def answer_of(failed: Failed) -> str | None:
    """Read the call's value from the first answer block; None without one."""
    found = _ANSWER.search(failed.output)
    return found[1].removeprefix(f"assert {failed.call} == ") if found else None


def _answer_right(failed: Failed, truth: Example) -> bool | None:
    answer = answer_of(failed)
    return None if answer is None else same_value(answer, truth.answer)


def _loops(text: str) -> bool:
    """Say if a text ends in what it has written over and over."""
    tail = text[-200:]
    return len(tail) == 200 and text.count(tail) >= REPEATS
