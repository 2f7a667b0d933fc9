"""A simulation to look at: a block of every frame as it is written, all of them beside the truth, and what is said of the whole."""

from __future__ import annotations

import math

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.parse import ReadFrame
from remedy.eval.records.schema import Score
from remedy.eval.view.frames import LONGEST, ModelFrame
from remedy.eval.view.model import Run, View, beside, blocks_of, frame_at, tokens_of, visible
from remedy.eval.view.simulate import Prepared, Simulation, contradictions, first_written
from remedy.eval.view.terminal import Terminal
from remedy.messages import cut
from remedy.models.tokenizer import TraceTokenizer


def show_frame(terminal: Terminal, frame: ModelFrame, number: int) -> None:
    """Print a frame as soon as it is written: its tokens in colours, or else its line, its state and what is said of it. `number`: its
    own in the trace."""
    block = frame.block(number)
    if terminal.coloured:
        terminal.block(block)
        return
    known = block.probability
    sure = "certain" if known is None else "unknown" if math.isnan(known) else f"{known:.3g}"
    source = frame.read.source.rstrip("\n") if frame.read is not None else ""
    terminal.say(f"{block.frame:>4}  {frame.label:<9}  {sure:<7}  {_short(source)}".rstrip())
    value = frame.read.value if frame.read is not None else None
    text = "".join(token.text for token in block.tokens) if frame.problem else ""
    for line in (block.shows, "" if value is None else f"-> {_short(value)}", block.note, _short(text)):
        if line:
            terminal.say(f"{' ' * 26}{visible(line)}")
    for mark in block.marks:
        terminal.say(f"    ! {visible(mark)}")


def _short(text: str) -> str:
    return visible(cut(text, LONGEST))


def simulation_view(
    found: Simulation, program: Prepared, data: DataConfig, tokenizer: TraceTokenizer, title: str, facts: dict[str, str]
) -> View:
    """The whole as a page shows it: beside the truth, where that is known."""
    example, first = program.example, first_written(data)
    truth = tokens_of(tokenizer, program.truth, frozenset())
    numbers = [*(frame.number for frame in example.frames), len(example.trace.frames)] if program.known else [first]
    frames = [frame.block(frame_at(numbers, frame.number)) for frame in found.frames]
    if not program.known:
        context = blocks_of([token for token in truth if token.role is Role.CONTEXT])
        return View(title, (*context, *frames), facts, "written")
    written = [token for block in frames for token in block.tokens]
    start = program.truth.roles.count(Role.CONTEXT)
    runs = [Run(start, len(truth), written)] if written else []
    return View(title, beside(truth, runs, {block.frame: block for block in frames}), facts, "written")


def opening(program: Prepared, data: DataConfig, checkpoint: str, constraint: str, served: bool) -> dict[str, str]:
    """Say what is simulated, and how; whether it was run, and what cannot be told."""
    how = [f"format {data.format}", f"locals {data.reveal.locals}", f"spacing {data.reveal.spacing:g}"]
    how += [f"memory {data.memory}"] if data.memory is not None else []
    how += [f"strings {data.string_encoding}"] if data.string_encoding != "plain" else []
    how += [f"held to {constraint}"] if constraint else []
    run = "not run" if not program.problem else f"not checked: {program.problem}"
    _, why = contradictions(program.example, data)
    unknown = "where several tokens were allowed a server does not tell how likely its choice was, nor what was cut"
    found = {
        "program": program.example.trace.program.name,
        "model": checkpoint,
        "trace": ", ".join(how),
        "truth": "from a run, frames are compared with it" if program.known else run,
        "contradictions": f"not looked for: {why}" if why else "",
        "unknown": unknown if served and constraint else "",
    }
    return {name: visible(text) for name, text in found.items() if text}


def summary(found: Simulation, first: int, calls: int, seconds: float) -> dict[str, str]:
    """Say what became of the whole. `first`: the number in the trace of the first frame that is written."""
    frames = sum(frame.read is not None for frame in found.frames)
    written = f"{found.asked:,} tokens written" + (f", {found.fed:,} were certain" if found.fed else "")
    ties = f", {found.written.near_ties} near ties" if found.written.near_ties else ""
    said = {"wrote": f"{frames:,} frame{'s' * (frames != 1)}, {written}, {calls:,} model calls, {seconds:.1f} s{ties}"}
    if against := [first + frame.number for frame in found.frames if frame.contradiction]:
        more = f" and {len(against) - 1} more" if len(against) > 1 else ""
        said["against the program or its own states"] = f"frame {against[0]}{more}"
    if found.ended:
        said["answer"] = found.answer or "none"
    elif found.written.runs and not found.written.runs[-1].complete:
        said["no answer"] = "the limit on tokens came first"
    else:
        said["no answer"] = found.frames[-1].problem if found.frames else "nothing was written"
    if found.score is not None:
        said |= _verdict(found, found.score, first)
    return {name: visible(cut(text, 2 * LONGEST)) for name, text in said.items()}


def _verdict(found: Simulation, score: Score, first: int) -> dict[str, str]:
    """Say if it is right, or where it first differs, and in what."""
    answer, place = "right" if score["right"] else "wrong", score["frames_right"]
    if score["first_error_frame"] < 0:
        return {"checked": f"every frame is right, and the answer is {answer}"}
    written = next((frame for frame in found.frames if frame.number == place), None)
    true = found.truth[place] if place < len(found.truth) else None
    said = {
        "checked": f"the answer is {answer}; first error at frame {first + place} ({score['first_error_role']})",
        "written": "nothing" if written is None else _described(written.full, written.problem),
        "true": _described(true),
    }
    return said if score["right"] else {**said, "the true answer": score["true_answer"]}


def _described(frame: ReadFrame | None, problem: str = "") -> str:
    """A frame in full on one line; `problem`: why there is none, if it is not that the trace ends."""
    if frame is None:
        return problem or "the end"
    state = ", ".join(f"{name} = {text}" for name, text in (frame.locals or {}).items())
    parts = (
        frame.event.value if frame.event is not None else "",
        frame.source.strip(),
        f"with {state}" if state else "",
        f"-> {frame.value}" if frame.value is not None else "",
    )
    return " ".join(filter(None, parts))
