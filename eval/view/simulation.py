"""What is said of a simulation: before it, and of the whole; and its view, as that of a record."""

from __future__ import annotations

from remedy.data_gen.config import DataConfig
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.records.schema import Score
from remedy.eval.view.model import View, visible
from remedy.eval.view.records import alone, compared
from remedy.eval.view.simulate import Prepared, Simulation, unfollowed
from remedy.messages import cut

LONGEST = 480
"""Characters of what is said of one thing."""


def first_written(data: DataConfig) -> int:
    """The number in the trace of the first frame that a model writes: the prompt may give one."""
    form = FORMATS[data.format]
    return int(isinstance(form, Cwm) and form.seeded)


def simulation_view(found: Simulation, data: DataConfig, title: str, facts: dict[str, str]) -> View:
    """The whole, beside the truth where that is known."""
    if found.score is None:
        return View(title, alone(found.kept, first_written(data)), facts, "written")
    return View(title, compared(found.kept, found.score["first_error_frame"]), facts, "written")


def opening(program: Prepared, data: DataConfig, checkpoint: str, constraint: str, served: bool) -> dict[str, str]:
    """Say what is simulated, and how; whether it was run, and what cannot be told."""
    how = [f"format {data.format}", f"locals {data.reveal.locals}", f"spacing {data.reveal.spacing:g}"]
    how += [f"memory {data.memory}"] if data.memory is not None else []
    how += [f"strings {data.string_encoding}"] if data.string_encoding != "plain" else []
    how += [f"held to {constraint}"] if constraint else []
    run = "not run" if not program.problem else f"not checked: {program.problem}"
    why = unfollowed(program.example, data)
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
    frames = len(found.frames)
    written = f"{found.asked:,} tokens written" + (f", {found.fed:,} were certain" if found.fed else "")
    ties = f", {found.written.near_ties} near ties" if found.written.near_ties else ""
    said = {"wrote": f"{frames:,} frame{'s' * (frames != 1)}, {written}, {calls:,} model calls, {seconds:.1f} s{ties}"}
    if against := found.kept["contradictions"]:
        more = f" and {len(against) - 1} more" if len(against) > 1 else ""
        said["against the program or its own states"] = f"frame {first + against[0]}{more}"
    if not found.problem:
        said["answer"] = found.answer or "none"
    elif found.written.runs and not found.written.runs[-1].complete:
        said["no answer"] = "the limit on tokens came first"
    else:
        said["no answer"] = found.problem
    if found.score is not None:
        said |= _verdict(found, found.score, first)
    return {name: visible(cut(text, LONGEST)) for name, text in said.items()}


def _verdict(found: Simulation, score: Score, first: int) -> dict[str, str]:
    """Say if it is right, or where it first differs, and in what."""
    answer, place = "right" if score["right"] else "wrong", score["frames_right"]
    if score["first_error_frame"] < 0:
        return {"checked": f"every frame is right, and the answer is {answer}"}
    written, true = (frames[place] if place < len(frames) else None for frames in (found.frames, found.true))
    said = {
        "checked": f"the answer is {answer}; first error at frame {first + place} ({score['first_error_role']})",
        "written": _described(written, found.problem),
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
