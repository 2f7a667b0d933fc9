"""Reading of model output as frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.cursor import Generated
from remedy.eval.records.generations import TokenPlace
from remedy.eval.scoring.common import DecodedExample
from remedy.models.tokenizer import Encoded, TraceTokenizer

Frames = list[ReadFrame | None]


class Reading(NamedTuple):
    """Frames as spelled (None if unreadable) and with every `..` replaced.

    `whole`: whether all of the text reads as a trace.
    """

    frames: Frames
    in_full: Frames
    whole: bool


def read(decoded: DecodedExample, runs: Sequence[Generated], tokenizer: TraceTokenizer) -> Reading:
    """Read the output as frames.

    If the structure was fed, each frame is read alone.
    """
    form, answer_only = FORMATS[decoded.data.format], decoded.data.reveal.answer_only
    if not decoded.structure_fed:
        trace = form.read(tokenizer.pieces(decoded.written(runs)), answer_only)
        return Reading([*trace.frames], decoded.in_full(trace.frames), trace.valid)
    groups = tokens_by_frame(decoded.truth, runs)
    frames: Frames = []
    for frame in decoded.example.frames:
        ids = [token for _, token in groups.get(frame.number, ())]
        trace = form.read([*tokenizer.pieces(ids), Special.END_OF_TEXT], answer_only)
        frames.append(trace.frames[0] if trace.valid and len(trace.frames) == 1 else None)
    return Reading(frames, decoded.in_full(frames), None not in frames)


def read_part(decoded: DecodedExample, roles: Collection[Role], tokenizer: TraceTokenizer) -> Reading:
    """Read only tokens of some roles, with true tokens in place of all others.

    Under teacher forcing, whether the model would end the part is not judged.
    """
    if not decoded.parallel:
        return read(decoded, [run for run in decoded.runs if decoded.truth.roles[run.start] in roles], tokenizer)
    tokens = [
        Generated(position, position + 1, run.ids[position - run.start : position - run.start + 1], [], True)
        for run in decoded.runs
        for position in range(run.start, run.stop)
        if decoded.truth.roles[position] in roles
    ]
    return read(decoded, tokens, tokenizer)


def tokens_by_frame(truth: Encoded, runs: Sequence[Generated]) -> dict[int, list[tuple[int, int]]]:
    """Group tokens by frame number, as (true position, token).

    True tokens stand where no run does. A run of the true length is aligned token by token. All tokens of any other run
    get its start. The context is left out.
    """
    aligned: list[tuple[int, int]] = []
    end = 0
    for run in runs:
        is_aligned = len(run.ids) == run.stop - run.start
        aligned += zip(range(end, run.start), truth.ids[end : run.start])
        aligned += ((run.start + offset * is_aligned, token) for offset, token in enumerate(run.ids))
        end = run.stop
    aligned += zip(range(end, len(truth.ids)), truth.ids[end:])
    groups: dict[int, list[tuple[int, int]]] = {}
    for position, token in aligned:
        if truth.roles[position] != Role.CONTEXT:
            groups.setdefault(truth.frames[position], []).append((position, token))
    return groups


def written_places(decoded: DecodedExample, ids: Sequence[int], tokenizer: TraceTokenizer) -> list[TokenPlace]:
    """Return frame index and role of each token of a freely written trace."""
    reader = FORMATS[decoded.data.format].reader(decoded.data.reveal.answer_only)
    read_so_far = []
    for token in ids:
        for piece in tokenizer.pieces([token]):
            reader.feed(piece)
        read_so_far.append((reader.frame_number, len(reader.roles)))
    # A piece's role may only be known after the next piece.
    return [TokenPlace(place, reader.roles[pieces - 1] if pieces else Role.STRUCTURE) for place, pieces in read_so_far]


def first_difference(decoded: DecodedExample, index: int, tokenizer: TraceTokenizer) -> int:
    """Return the true position of the first different token in the frame at `index`.

    The frame must differ.
    """
    truth, frames = decoded.truth, decoded.example.frames
    if index >= len(frames):
        return len(truth.ids) - 1
    number = frames[index].number
    positions = [
        position
        for position, (frame, role) in enumerate(zip(truth.frames, truth.roles))
        if frame == number and role != Role.CONTEXT
    ]
    if decoded.structure_fed:
        written = [token for _, token in tokens_by_frame(truth, decoded.runs).get(number, ())]
    else:
        ids = decoded.written(decoded.runs)
        written = [token for token, place in zip(ids, written_places(decoded, ids, tokenizer)) if place.frame >= index]
    for position, token in zip(positions, written):
        if truth.ids[position] != token:
            return position
    return positions[min(len(written), len(positions) - 1)]


def generated_places(decoded: DecodedExample, tokenizer: TraceTokenizer) -> list[TokenPlace]:
    """Return frame index and role of each token of all runs."""
    one_token = FORMATS[decoded.data.format].one_token
    if not one_token and not decoded.structure_fed:
        ids = decoded.written(decoded.runs)
        # Without the true tokens after the last run.
        return written_places(decoded, ids, tokenizer)[: sum(len(run.ids) for run in decoded.runs)]
    frame_indices = {frame.number: index for index, frame in enumerate(decoded.example.frames)}
    truth, places = decoded.truth, []
    for run in decoded.runs:
        aligned = one_token or len(run.ids) == run.stop - run.start
        for offset in range(len(run.ids)):
            position = min(run.start + offset, run.stop - 1) if aligned else run.start
            places.append(
                TokenPlace(
                    frame_indices.get(int(truth.frames[position]), len(frame_indices)), Role(truth.roles[position])
                )
            )
    return places
