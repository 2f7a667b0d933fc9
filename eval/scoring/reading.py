"""Reading of what a model wrote: which frame each token is of, and all of it, or one part of every frame, as frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.cursor import Generated
from remedy.eval.records.generations import TokenPlace
from remedy.eval.scoring.common import Decoded
from remedy.models.tokenizer import Encoded, TraceTokenizer

Frames = list[ReadFrame | None]


class Reading(NamedTuple):
    """Frames as they are spelled (None for one that cannot be read), the same with all `..` spelled out, and whether all of it
    reads as a trace."""

    frames: Frames
    in_full: Frames
    whole: bool


def read(decoded: Decoded, runs: Sequence[Generated], tokenizer: TraceTokenizer) -> Reading:
    """Read the text. Where the structure was fed, a frame that cannot be read does not keep others from being read."""
    form, answer_only = FORMATS[decoded.data.format], decoded.data.reveal.answer_only
    if not decoded.structure_fed:
        trace = form.read(tokenizer.pieces(decoded.written(runs)), answer_only)
        return Reading([*trace.frames], decoded.in_full(trace.frames), trace.valid)
    groups = by_frame(decoded.truth, runs)
    found: Frames = []
    for frame in decoded.example.frames:
        ids = [token for _, token in groups.get(frame.number, ())]
        trace = form.read([*tokenizer.pieces(ids), Special.END_OF_TEXT], answer_only)
        found.append(trace.frames[0] if trace.valid and len(trace.frames) == 1 else None)
    return Reading(found, decoded.in_full(found), None not in found)


def read_part(decoded: Decoded, roles: Collection[Role], tokenizer: TraceTokenizer) -> Reading:
    """Read some roles' text between true separators, in every frame with the true tokens of all others.

    After true tokens, a part is judged by its own: that the model would have ended it there is a matter of the separator that follows.
    """
    if not decoded.parallel:
        return read(decoded, [run for run in decoded.runs if decoded.truth.roles[run.start] in roles], tokenizer)
    tokens = [
        Generated(at, at + 1, run.ids[at - run.start : at - run.start + 1], [], True)
        for run in decoded.runs
        for at in range(run.start, run.stop)
        if decoded.truth.roles[at] in roles
    ]
    return read(decoded, tokens, tokenizer)


def by_frame(truth: Encoded, runs: Sequence[Generated]) -> dict[int, list[tuple[int, int]]]:
    """The tokens of each frame, by its number, with the positions in the true sequence that they stand for.

    Runs take the place of true tokens: one of the same length token by token, another one, which lies in one frame, all at its
    start. Tokens of the context are left out.
    """
    aligned: list[tuple[int, int]] = []
    end = 0
    for run in runs:
        whole = len(run.ids) == run.stop - run.start
        aligned += zip(range(end, run.start), truth.ids[end : run.start])
        aligned += ((run.start + offset * whole, token) for offset, token in enumerate(run.ids))
        end = run.stop
    aligned += zip(range(end, len(truth.ids)), truth.ids[end:])
    groups: dict[int, list[tuple[int, int]]] = {}
    for at, token in aligned:
        if truth.roles[at] != Role.CONTEXT:
            groups.setdefault(truth.frames[at], []).append((at, token))
    return groups


def places_written(decoded: Decoded, ids: Sequence[int], tokenizer: TraceTokenizer) -> list[TokenPlace]:
    """Find the frames of a freely written trace's tokens."""
    reader = FORMATS[decoded.data.format].reader(decoded.data.reveal.answer_only)
    found = []
    for token in ids:
        for piece in tokenizer.pieces([token]):
            reader.feed(piece)
        found.append((reader.frame_number, len(reader.roles)))
    # The role of a piece may be known only once what follows it is read.
    return [TokenPlace(place, reader.roles[pieces - 1] if pieces else Role.STRUCTURE) for place, pieces in found]


def first_difference(decoded: Decoded, place: int, tokenizer: TraceTokenizer) -> int:
    """The position in the true sequence of the first token that differs in the frame at a place, which is known to differ."""
    truth, frames = decoded.truth, decoded.example.frames
    if place >= len(frames):
        return len(truth.ids) - 1
    number = frames[place].number
    positions = [at for at, of in enumerate(truth.frames) if of == number and truth.roles[at] != Role.CONTEXT]
    if decoded.structure_fed:
        written = [token for _, token in by_frame(truth, decoded.runs).get(number, ())]
    else:
        ids = decoded.written(decoded.runs)
        written = [token for token, at in zip(ids, places_written(decoded, ids, tokenizer)) if at.frame >= place]
    for position, token in zip(positions, written):
        if truth.ids[position] != token:
            return position
    return positions[min(len(written), len(positions) - 1)]


def generated_places(decoded: Decoded, tokenizer: TraceTokenizer) -> list[TokenPlace]:
    """Find the frames of all runs' tokens; the frame of the end follows the last one."""
    one_token = FORMATS[decoded.data.format].one_token
    if not one_token and not decoded.structure_fed:
        ids = decoded.written(decoded.runs)
        return places_written(decoded, ids, tokenizer)[: sum(len(run.ids) for run in decoded.runs)]
    places = {frame.number: place for place, frame in enumerate(decoded.example.frames)}
    truth, found = decoded.truth, []
    for run in decoded.runs:
        aligned = one_token or len(run.ids) == run.stop - run.start
        for offset in range(len(run.ids)):
            at = min(run.start + offset, run.stop - 1) if aligned else run.start
            found.append(TokenPlace(places.get(int(truth.frames[at]), len(places)), Role(truth.roles[at])))
    return found
