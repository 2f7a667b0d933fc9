"""A simulation in the terminal, frame by frame as it is written, and the whole as a view for a page; what a program or a model says is
escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.parse import ReadFrame
from remedy.eval.records.generations import token_texts
from remedy.eval.records.model_frames import ModelFrame
from remedy.eval.records.schema import Score
from remedy.eval.simulate import Prepared, Simulation, contradictions, first_written
from remedy.eval.tables.colours import ROLE_COLOURS
from remedy.eval.view.model import STEPS, Block, Part, Run, Token, View, beside, frame_at, tokens_of, visible
from remedy.eval.view.terminal import ERROR, FAINT, STEP_STYLES, tokens_text
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

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(Text(text), markup=False, highlight=False, emoji=False, soft_wrap=True)

    def legend(self) -> None:
        """Print what colours say, where there are any."""
        if self._coloured:
            steps = [(f" {name} ", style) for name, style in zip(STEPS, STEP_STYLES)]
            self._console.print(Text.assemble(("the model's own probability of a token: ", FAINT), *steps))

    def frame(self, frame: ModelFrame) -> None:
        """One frame."""
        number, tokenizer = self._first + frame.number, self._tokenizer
        notes = [changes(frame), *least_likely(frame, tokenizer)]
        if not self._coloured:
            for line in _plain(frame, number, notes, tokenizer):
                self.say(line)
            return
        head = Text(f"{number:>4} ", style=ERROR if frame.wrong else FAINT)
        head.append(f"{frame.label:<10}", style=Style(color=ROLE_COLOURS["event"], bold=True))
        known = 0.0 if math.isnan(frame.probability) else frame.probability
        filled = round(BAR * known) if frame.asked else BAR
        head.append(f"{'█' * filled}{'░' * (BAR - filled)} {probability(frame)}", style=FAINT)
        body = tokens_text(frame_tokens(frame, tokenizer)[:MOST_TOKENS])
        if len(frame.ids) > MOST_TOKENS:
            notes.insert(0, f"and {len(frame.ids) - MOST_TOKENS:,} more tokens")
        for text in filter(None, notes):
            body.append(f"\n{text}", style=FAINT)
        for text in marks(frame):
            body.append(f"\n{text}", style=Style(color="#b3261e", bold=True))
        table = Table.grid(padding=(0, 1), pad_edge=False)
        table.add_column(no_wrap=True, width=32)
        table.add_column(overflow="fold", ratio=1)
        table.add_row(head, body)
        self._console.print(table)


def _plain(frame: ModelFrame, number: int, notes: Sequence[str], tokenizer: TraceTokenizer) -> Iterator[str]:
    """A frame as lines without colours: its number in the trace, event, probability and source; below what is to be said of it."""
    source = frame.read.source.rstrip("\n") if frame.read is not None else frame.problem
    yield f"{number:>4}  {frame.label:<9}  {probability(frame):<7}  {_short(source)}".rstrip()
    value = frame.read.value if frame.read is not None else None
    said = [notes[0], "" if value is None else f"-> {_short(value)}", *notes[1:]]
    if frame.problem:
        said.append(_short(tokenizer.decode(frame.ids[:MOST_TOKENS])))
    yield from (f"{' ' * 26}{line}" for line in said if line)
    yield from (f"    ! {line}" for line in marks(frame))


def _short(text: str) -> str:
    return visible(cut(text, LONGEST))


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


def changes(frame: ModelFrame) -> str:
    """The variables that a frame shows changed."""
    return ", ".join(f"{visible(name)} = {_short(text)}" for name, text in frame.changed.items())


def probability(frame: ModelFrame) -> str:
    """Return the frame's probability; a word where all of it was certain, or it is unknown."""
    if not frame.asked:
        return "certain"
    return UNKNOWN if math.isnan(frame.probability) else f"{frame.probability:.3g}"


def least_likely(frame: ModelFrame, tokenizer: TraceTokenizer) -> list[str]:
    """The least likely token of what the model wrote, and what a constraint took from the frame."""
    said = []
    if (place := frame.least) is not None:
        text = visible(token_texts(tokenizer, frame.ids)[place]) or "·"
        said.append(f"least likely token {text!r} {math.exp(frame.logprobs[place]):.3g}")
    return [*said, f"a probability of {frame.cut:.3g} was cut"] if frame.cut > 0 else said


def marks(frame: ModelFrame) -> list[str]:
    """Return what is wrong with a frame."""
    wrong = ["first error: the truth differs from here on"] if frame.wrong else []
    return [*wrong, visible(frame.contradiction)] if frame.contradiction else wrong


def summary(found: Simulation, first: int, calls: int, seconds: float) -> Iterator[str]:
    """Return what became of the whole, a sentence a line. `first`: as of `Screen`."""
    frames = sum(frame.read is not None for frame in found.frames)
    written = f"{found.asked:,} tokens written" + (f", {found.fed:,} were certain" if found.fed else "")
    ties = f", {found.written.near_ties} near ties" if found.written.near_ties else ""
    yield f"{frames:,} frame{'s' * (frames != 1)}, {written}, {calls:,} model calls, {seconds:.1f} s{ties}"
    against = [first + frame.number for frame in found.frames if frame.contradiction]
    if against:
        more = f" and {len(against) - 1} more" if len(against) > 1 else ""
        yield f"against the program or its own states: frame {against[0]}{more}"
    if found.ended:
        yield f"answer: {_short(found.answer) or 'none'}"
    elif found.written.runs and not found.written.runs[-1].complete:
        yield "no answer: the limit on tokens came first"
    else:
        yield f"no answer: {found.frames[-1].problem if found.frames else 'nothing was written'}"
    if found.score is not None:
        yield from _verdict(found, found.score, first)


def _verdict(found: Simulation, score: Score, first: int) -> Iterator[str]:
    """Say if it is right, or where it first differs, and in what."""
    answer, place = "right" if score["right"] else "wrong", score["frames_right"]
    if score["first_error_frame"] < 0:
        yield f"checked: every frame is right, and the answer is {answer}"
        return
    yield f"checked: the answer is {answer}; first error at frame {first + place} ({score['first_error_role']})"
    written = next((frame for frame in found.frames if frame.number == place), None)
    true = found.truth[place] if place < len(found.truth) else None
    yield f"  written: {_described(written.full, written.problem) if written is not None else 'nothing'}"
    yield f"  true:    {_described(true)}"
    if not score["right"]:
        yield f"  the true answer: {_short(score['true_answer'])}"


def _described(frame: ReadFrame | None, problem: str = "") -> str:
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
    problem = [f"no frame: {frame.problem}"] if frame.problem else []
    return replace(
        block,
        note=", ".join(([] if known else [f"probability {UNKNOWN}"]) + least_likely(frame, tokenizer)) or "certain",
        first_error=frame.wrong,
        probability=frame.probability if frame.asked and known else None,
        shows=changes(frame),
        marks=(*problem, *marks(frame)),
    )
