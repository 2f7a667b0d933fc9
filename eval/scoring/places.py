"""Frames of written tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from remedy.data_gen.roles import Role
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.cursor import Generated
from remedy.eval.records.generations import TokenPlace
from remedy.eval.scoring.common import Decoded
from remedy.models.tokenizer import Encoded, TraceTokenizer


def by_frame(truth: Encoded, runs: Sequence[Generated]) -> dict[int, list[tuple[int, int]]]:
    """The tokens of each frame, by its number, with the positions in the true sequence that they stand for.

    Runs take the place of true tokens: one of the same length token by token, another one, which lies in one frame, all at its
    start. Tokens of the context are left out.
    """
    groups: dict[int, list[tuple[int, int]]] = {}
    for at, token in _aligned(truth, runs):
        if truth.roles[at] != Role.CONTEXT:
            groups.setdefault(int(truth.frames[at]), []).append((at, token))
    return groups


def _aligned(truth: Encoded, runs: Sequence[Generated]) -> Iterator[tuple[int, int]]:
    end = 0
    for run in runs:
        yield from ((at, int(truth.ids[at])) for at in range(end, run.start))
        whole = len(run.ids) == run.stop - run.start
        yield from ((run.start + (offset if whole else 0), token) for offset, token in enumerate(run.ids))
        end = run.stop
    yield from ((at, int(truth.ids[at])) for at in range(end, len(truth.ids)))


def places_written(decoded: Decoded, ids: Sequence[int], tokenizer: TraceTokenizer) -> list[TokenPlace]:
    """Find the frames of a freely written trace's tokens."""
    reader = FORMATS[decoded.data.format].reader(decoded.data.reveal.answer_only)
    found = []
    for token in ids:
        for piece in tokenizer.pieces([token]):
            reader.feed(piece)
        found.append((reader.place, len(reader.roles)))
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
