"""Reading of a model's text as frames: all of it, or one part of every frame between the true others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.cursor import Generated
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.places import by_frame
from remedy.models.tokenizer import TraceTokenizer

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
        return _reading(decoded, list(trace.frames), trace.valid)
    groups = by_frame(decoded.truth, runs)
    found: Frames = []
    for frame in decoded.example.frames:
        ids = [token for _, token in groups.get(frame.number, ())]
        trace = form.read([*tokenizer.pieces(ids), Special.END_OF_TEXT], answer_only)
        found.append(trace.frames[0] if trace.valid and len(trace.frames) == 1 else None)
    return _reading(decoded, found, None not in found)


def read_part(decoded: Decoded, roles: Collection[Role], tokenizer: TraceTokenizer) -> Reading:
    """Read some roles' text between fed separators, in every frame with the true tokens of all others.

    Of predictions after true tokens, a part has its end too, if that was predicted: without it the model would have written on.
    """
    if not decoded.parallel:
        return read(decoded, [run for run in decoded.runs if decoded.truth.roles[run.start] in roles], tokenizer)
    truth = decoded.truth.roles
    ends = Role.STRUCTURE
    wanted = [role in roles or (role == ends and truth[at - 1] in roles and at > 0) for at, role in enumerate(truth)]
    tokens = [
        Generated(at, at + 1, run.ids[at - run.start : at - run.start + 1], [], True)
        for run in decoded.runs
        for at in range(run.start, run.stop)
        if wanted[at]
    ]
    return read(decoded, tokens, tokenizer)


def _reading(decoded: Decoded, frames: Frames, whole: bool) -> Reading:
    """The frames, and in full by what the model itself has shown, or by what it was fed."""
    return Reading(frames, decoded.in_full(frames), whole)
