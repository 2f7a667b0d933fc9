"""A simulation as a view, for a page."""

from __future__ import annotations

import math
from dataclasses import replace

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.eval.records.model_frames import ModelFrame
from remedy.eval.simulate import Prepared, Simulation, first_written
from remedy.eval.view.model import Block, Part, Run, View, beside, frame_at, tokens_of
from remedy.eval.view.simulation import UNKNOWN, changes, cut_mass, frame_tokens, least, marks
from remedy.models.tokenizer import TraceTokenizer


def simulation_view(
    found: Simulation, program: Prepared, data: DataConfig, tokenizer: TraceTokenizer, title: str, facts: dict[str, str]
) -> View:
    """The whole as a page shows it: beside the truth, where that is known."""
    first = first_written(data)
    example, encoded = program.example, program.truth
    if program.known:
        end = len(example.trace.frames)
        numbers = [*(frame.number for frame in example.frames), end]
        truth = tokens_of(tokenizer, encoded, [True] * len(encoded.ids))
        written = [
            token._replace(frame=frame_at(numbers, frame.number))
            for frame in found.frames
            for token in frame_tokens(frame, tokenizer)
        ]
        start = encoded.roles.count(Role.CONTEXT)
        blocks = list(beside(truth, [Run(start, len(truth), written)] if written else [], {end: "end"}))
    else:
        numbers = [first + frame.number for frame in found.frames]
        given = tokens_of(tokenizer, encoded, [False] * len(encoded.ids))
        blocks = [Block(-1, "context", tuple(token for token in given if token.role is Role.CONTEXT))]
        for frame in found.frames:
            number = first + frame.number
            label = "end" if frame.is_end else f"frame {number}"
            blocks.append(Block(number, label, tuple(frame_tokens(frame, tokenizer))))
    said = {frame_at(numbers, frame.number): frame for frame in found.frames}
    shown = [_with(block, said[block.frame], tokenizer) if block.frame in said else block for block in blocks]
    return View(title, (Part("", tuple(shown)),), facts, "written")


def _with(block: Block, frame: ModelFrame, tokenizer: TraceTokenizer) -> Block:
    """A block with what is said of its frame."""
    known = not math.isnan(frame.probability)
    said = ["" if known else f"probability {UNKNOWN}", least(frame, tokenizer), cut_mass(frame)]
    note = ", ".join(filter(None, said)) or "certain"
    problem = [f"no frame: {frame.problem}"] if frame.problem else []
    return replace(
        block,
        note=note,
        first_error=frame.wrong,
        probability=frame.probability if frame.asked and known else None,
        shows=changes(frame),
        marks=(*problem, *marks(frame)),
    )
