"""A simulation in the terminal, frame by frame as it is written; what a program or a model says is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from remedy.data_gen.config import DataConfig
from remedy.data_gen.traces.parse import ReadFrame
from remedy.eval.calibration.calibrator import Belief, Follower
from remedy.eval.records.generations import token_texts
from remedy.eval.records.model_frames import ModelFrame
from remedy.eval.simulate import Prepared, Simulation, contradictions
from remedy.eval.tables.colours import ROLE_COLOURS
from remedy.eval.view.model import STEPS, Token, visible
from remedy.eval.view.terminal import DOUBTS, ERROR, FAINT, tokens_text
from remedy.messages import cut
from remedy.models.tokenizer import TraceTokenizer

LONGEST = 240
"""Characters of a value, or of what is no frame, that a line shows."""
MOST_TOKENS = 400
"""Tokens of one frame that are shown in colours."""
BAR = 8
UNKNOWN = "unknown"
"""A probability that a server does not tell."""


class Screen:
    """Prints frames as they come, then what became of the whole."""

    def __init__(self, console: Console, tokenizer: TraceTokenizer, first: int) -> None:
        """`first`: the number in the trace of the first frame that is written."""
        self._first = first
        self._console = console
        self._tokenizer = tokenizer
        self._coloured = console.is_terminal and not console.no_color

    def say(self, text: str, style: str | Style = "") -> None:
        """One line."""
        self._console.print(Text(text, style=style), markup=False, highlight=False, emoji=False, soft_wrap=True)

    def legend(self) -> None:
        """Return what colours say, where there are any."""
        if not self._coloured:
            return
        text = Text("probability of a token: ", style=FAINT)
        for name, style in zip(STEPS, DOUBTS):
            text.append(f" {name} ", style=style)
            text.append(" ")
        self._console.print(text)

    def frame(self, frame: ModelFrame, belief: Belief | None = None) -> None:
        """One frame. `belief`: what a calibrator makes of the trace up to it."""
        if not self._coloured:
            for line in plain(frame, self._first + frame.number, self._tokenizer, belief):
                self.say(line)
            return
        table = Table.grid(padding=(0, 1), pad_edge=False)
        table.add_column(no_wrap=True, width=32)
        table.add_column(overflow="fold", ratio=1)
        head = Text(f"{self._first + frame.number:>4} ", style=ERROR if frame.wrong else FAINT)
        head.append(f"{frame.label:<10}", style=Style(color=ROLE_COLOURS["event"], bold=True))
        head.append(bar(frame), style=FAINT)
        body = tokens_text(frame_tokens(frame, self._tokenizer)[:MOST_TOKENS])
        if len(frame.ids) > MOST_TOKENS:
            body.append(f" and {len(frame.ids) - MOST_TOKENS:,} more tokens", style=FAINT)
        notes = (changes(frame), least(frame, self._tokenizer), cut_mass(frame), so_far(belief))
        for text in filter(None, notes):
            body.append(f"\n{text}", style=FAINT)
        for text in marks(frame):
            body.append(f"\n{text}", style=Style(color="#b3261e", bold=True))
        table.add_row(head, body)
        self._console.print(table)


def frame_tokens(frame: ModelFrame, tokenizer: TraceTokenizer) -> list[Token]:
    """The tokens of a frame; supervised, as views say it, are those that the model wrote."""
    columns = zip(frame.ids, token_texts(tokenizer, frame.ids), frame.roles, frame.logprobs, frame.held)
    return [
        Token(
            id,
            text,
            role,
            frame.number,
            supervised=not held.certain,
            special=tokenizer.is_special(id),
            logprob=None if held.certain or math.isnan(logprob) else logprob,
        )
        for id, text, role, logprob, held in columns
    ]


def plain(frame: ModelFrame, number: int, tokenizer: TraceTokenizer, belief: Belief | None = None) -> Iterator[str]:
    """A frame as lines without colours: its number in the trace, event, probability and source; below what it shows, and what is to be
    said of it."""
    source = frame.read.source.rstrip("\n") if frame.read is not None else frame.problem
    yield f"{number:>4}  {frame.label:<9}  {probability(frame):<7}  {visible(cut(source, LONGEST))}".rstrip()
    said = [changes(frame), value(frame), least(frame, tokenizer), cut_mass(frame), so_far(belief)]
    if frame.problem:
        said.append(visible(cut(tokenizer.decode(frame.ids[:MOST_TOKENS]), LONGEST)))
    yield from (f"{' ' * 26}{line}" for line in said if line)
    yield from (f"    ! {line}" for line in marks(frame))


def changes(frame: ModelFrame) -> str:
    """The variables that a frame shows changed."""
    return ", ".join(f"{visible(name)} = {visible(cut(text, LONGEST))}" for name, text in frame.changed.items())


def value(frame: ModelFrame) -> str:
    """The value that a frame returns or raises."""
    found = frame.read.value if frame.read is not None else None
    return "" if found is None else f"-> {visible(cut(found, LONGEST))}"


def probability(frame: ModelFrame) -> str:
    """Return the frame's probability; a word where all of it was certain, or it is unknown."""
    if not frame.asked:
        return "certain"
    return UNKNOWN if math.isnan(frame.probability) else shown(frame.probability)


def bar(frame: ModelFrame) -> str:
    """The probability with a bar."""
    known = 0.0 if math.isnan(frame.probability) else frame.probability
    filled = round(BAR * known) if frame.asked else BAR
    return f"{'█' * filled}{'░' * (BAR - filled)} {probability(frame)}"


def shown(probability: float) -> str:
    """A probability in three digits: `0.973`, `1`, `3e-05`."""
    return f"{probability:.3g}"


def least(frame: ModelFrame, tokenizer: TraceTokenizer) -> str:
    """The least likely token of what the model wrote."""
    place = frame.least
    if place is None:
        return ""
    text = token_texts(tokenizer, frame.ids)[place]
    return f"least likely token {visible(text) or '·'!r} {shown(math.exp(frame.logprobs[place]))}"


def cut_mass(frame: ModelFrame) -> str:
    """Return what a constraint took from the frame."""
    return f"a probability of {shown(frame.cut)} was cut" if frame.cut > 0 else ""


def so_far(belief: Belief | None) -> str:
    """Return how likely all frames so far are right, as a calibrator has it, and whether they are believed."""
    if belief is None:
        return ""
    return f"right so far {shown(belief.right)}" + ("" if belief.believed else ", not believed")


def marks(frame: ModelFrame) -> Iterator[str]:
    """Return what is wrong with a frame."""
    if frame.wrong:
        yield "first error: the truth differs from here on"
    if frame.contradiction:
        yield visible(frame.contradiction)


def summary(found: Simulation, first: int, calls: int, seconds: float) -> Iterator[str]:
    """Return what became of the whole, a sentence a line. `first`: as of `Screen`."""
    frames = sum(frame.read is not None for frame in found.frames)
    written = f"{found.asked:,} tokens written" + (f", {found.fed:,} were certain" if found.fed else "")
    ties = f", {found.written.near_ties} near ties" if found.written.near_ties else ""
    noun = "frame" if frames == 1 else "frames"
    yield f"{frames:,} {noun}, {written}, {calls:,} model calls, {seconds:.1f} s{ties}"
    against = [first + frame.number for frame in found.frames if frame.contradiction]
    if against:
        more = f" and {len(against) - 1} more" if len(against) > 1 else ""
        yield f"against the program or its own states: frame {against[0]}{more}"
    if found.ended:
        yield f"answer: {visible(cut(found.answer, LONGEST)) or 'none'}"
    else:
        yield f"no answer: {unfinished(found)}"
    if found.score is not None:
        yield from verdict(found, first)


def unfinished(found: Simulation) -> str:
    """Say why a trace is none."""
    if found.written.runs and not found.written.runs[-1].complete:
        return "the limit on tokens came first"
    return found.frames[-1].problem if found.frames else "nothing was written"


def verdict(found: Simulation, first: int) -> Iterator[str]:
    """Say if it is right, or where it first differs, and in what."""
    assert found.score is not None
    answer = "right" if found.score["right"] else "wrong"
    if found.score["first_error_frame"] < 0:
        yield f"checked: every frame is right, and the answer is {answer}"
        return
    place = found.score["frames_right"]
    yield f"checked: the answer is {answer}; first error at frame {first + place} ({found.score['first_error_role']})"
    written = next((frame for frame in found.frames if frame.number == place), None)
    true = found.truth[place] if place < len(found.truth) else None
    yield f"  written: {described(written.full, written.problem) if written is not None else 'nothing'}"
    yield f"  true:    {described(true)}"
    if not found.score["right"]:
        yield f"  the true answer: {visible(cut(found.score['true_answer'], LONGEST))}"


def described(frame: ReadFrame | None, problem: str = "") -> str:
    """A frame in full on one line; `problem`: why there is none, if it is not that the trace ends."""
    if frame is None:
        return problem or "the end"
    state = ", ".join(f"{name} = {text}" for name, text in (frame.locals or {}).items())
    parts = [
        frame.event.value if frame.event is not None else "",
        frame.source.strip(),
        f"with {state}" if state else "",
        f"-> {frame.value}" if frame.value is not None else "",
    ]
    return visible(cut(" ".join(filter(None, parts)), 2 * LONGEST))


def opening(checkpoint: str, program: Prepared, data: DataConfig, constraint: str, served: bool) -> Iterator[str]:
    """Return what is simulated, and how; whether it was run, and what cannot be said."""
    name = visible(program.example.trace.program.name)
    yield f"{name} as {visible(checkpoint)} writes it ({how_written(data, constraint)})"
    if program.known:
        yield "the program was run: frames are compared with its trace"
    elif program.problem:
        yield f"not checked: {visible(program.problem)}"
    else:
        yield "the program is not run"
    check, why = contradictions(program.example, data)
    if check is None:
        yield f"contradictions are not looked for: {visible(why)}"
    if served and constraint:
        yield "where several tokens were allowed the server does not tell how likely its choice was, nor what was cut: `unknown`"


def how_written(data: DataConfig, constraint: str) -> str:
    """Return how the trace is written, in a few words."""
    how = [f"format {data.format}", f"locals {data.reveal.locals}", f"spacing {data.reveal.spacing:g}"]
    how += [f"memory {data.memory}"] if data.memory is not None else []
    how += [f"strings {data.string_encoding}"] if data.string_encoding != "plain" else []
    how += [f"held to {constraint}"] if constraint else []
    return ", ".join(how)


class Believing:
    """Belief in a trace while it is written. `followed`: whether it would be known that it contradicts itself."""

    def __init__(self, follower: Follower, followed: bool) -> None:
        self._follower = follower
        self._followed = followed
        self._last: int | None = None
        self._all = True

    def take(self, frame: ModelFrame) -> Belief | None:
        """Return what is thought of the trace up to this frame; None where the model wrote nothing of it, or it is no frame."""
        if frame.problem:
            # Whatever its signals say: they were learnt of frames, and this one is none, or not a whole one.
            self._all = False
            return None
        doubt = frame.doubt
        belief = self._follower.take(doubt, bool(frame.contradiction) if self._followed else None) if doubt else None
        if self._follower.believed and frame.read is not None:
            self._last = frame.number
        self._all &= self._follower.believed
        return belief

    def said(self, first: int) -> str:
        """The frames that are believed, in a sentence, and what that means. `first`: as of `Screen`."""
        last = "no frame" if self._last is None else f"frames up to {first + self._last}"
        share = f"{1 - self._follower.risk:.0%} of traces or more"
        claim = f"of programs like those of the calibration, what is believed is right in {share}"
        return f"believed: {'all of it' if self._all else last} ({claim})"
