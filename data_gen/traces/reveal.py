"""Reveals: which frames are written, and what their STATE shows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from remedy import rng
from remedy.data_gen.execution.program import UNCHANGED, Event, Frame, Trace, Value
from remedy.data_gen.traces.loops import unfolded
from remedy.data_gen.traces.marks import marked_lines
from remedy.settings import Settings

Shown = dict[str, Value]
DIFFS = ("diff", "changes")
"""The contents of states that leave out what was shown before."""


def whole_spacing(value: float) -> float:
    """Validate a spacing.

    Raises:
        ValueError: it is neither a whole number >= 1 nor inf.
    """
    if value < 1 or (value != math.inf and value != int(value)):
        raise ValueError("must be a whole number >= 1, or inf")
    return value


class RevealConfig(Settings):
    """Choice of a trace's written frames and of what their STATE shows.

    Four frames of `def f(a, b)`, called as `f(1, 2)`; a dash is a frame without STATE, `..` an unchanged value:

        frame                 the defaults    spacing: 4      locals: diff     locals: one_in_turn
        call  def f(a, b):    {a: 1, b: 2}    {a: 1, b: 2}    {a: 1, b: 2}     {a: 1}
        line      a += b      {a: 1, b: 2}    -               {a: .., b: ..}   {b: 2}
        line      b = 0       {a: 3, b: 2}    -               {a: 3, b: ..}    {a: 3}
        line      return a    {a: 3, b: 0}    {a: 3, b: 0}    {a: .., b: 0}    {a: 3, b: 0}
    """

    spacing: float = Field(default=1)
    """Every k-th frame with locals keeps its state, counted from the first; so does the last. `.inf`: only these two."""
    at: Literal["marks"] | Annotated[float, Field(gt=0, lt=1)] | None = None
    """Where frames keep their states beside those of `spacing`. `marks`: at lines whose comments end in `# show`, each time. A share,
    such as 0.25: each line of a program is so marked with this probability, drawn for each example, and the prompt shows the marks."""
    locals: Literal["full", "diff", "changes", "one_in_turn", "one_at_random"] = "full"
    """The content of a state: all variables; all, with `..` for values that have not changed since they were last shown (`diff`); the
    same, but no state where nothing has changed (`changes`); or one variable, in turn or at random. The last state shows all."""
    call_depth: int | None = Field(default=None, ge=0, le=1_000_000)
    """Levels of calls that are traced; deeper calls are stepped over (0: the entry point's own frames). None: all."""
    frames: Literal["all", "shown"] = "all"
    """The frames that are written: all, or those that keep their state (`shown`), with the first call, the end and, of a program that
    raised, its exception. The prompt then says how the trace is written."""
    loops: int | None = Field(default=None, ge=1, le=1_000_000)
    """Rounds of a loop that are written; then nothing is until the loop is left. Nested loops likewise; of a recursion, as many levels.
    The first frame after a loop is written and keeps its state, whatever the spacing (`changes`: if anything has changed). So does the
    last. The prompt says the number. None: all."""
    answer_only: bool = False
    """Write only the returned value after the first frame, without a trace."""
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """The largest number of tokens of an example. Longer ones are written with the densest states that fit. Null: no limit."""

    @field_validator("spacing")
    @classmethod
    def _whole(cls, value: float) -> float:
        return whole_spacing(value)

    @model_validator(mode="after")
    def _has_an_effect(self) -> RevealConfig:
        if self.answer_only:
            self.refuse_idle(
                dict.fromkeys(("spacing", "at", "locals", "call_depth", "frames", "loops"), "with answer_only")
            )
        if self.spacing == 1:
            self.refuse_idle({"at": "with spacing 1, which keeps every state (`.inf` keeps the first and the last)"})
        return self

    def keeps(self, ordinal: int, last: int) -> bool:
        """Say if a frame keeps its STATE, by its ordinal among those with locals."""
        return ordinal % self.spacing == 0 or ordinal == last

    @property
    def leaves_out(self) -> bool:
        """Say if frames are left out, of which the prompt tells."""
        return self.frames != "all" or self.loops is not None


def written_states(trace: Trace, config: RevealConfig, seed: int = 0) -> dict[int, Shown | None]:
    """Map the number of each written frame to what its STATE shows, or None."""
    kept, after = kept_frames(trace, config)
    marked = marked_lines(trace.program.code) if config.at is not None else frozenset()
    frames = [trace.frames[number] for number in kept]
    held: Collection[int] = ()
    if after or marked:
        held = {i for i, number in enumerate(kept) if number in after or frames[i].line in marked}
    states = dict(zip(kept, reveal(frames, config, seed, held)))
    if config.frames == "all":
        return states
    always = {*after, *_ends(trace, kept)}
    return {number: state for number, state in states.items() if state is not None or number in always}


def kept_frames(trace: Trace, config: RevealConfig) -> tuple[list[int], set[int]]:
    """Return the numbers of the frames to choose from, and of the first ones after loops.

    All of the former are written, unless `frames` says otherwise. The latter are needed for `loops` alone.
    """
    frames = trace.frames
    numbers, after = list(range(len(frames))), set[int]()
    if config.answer_only:
        return numbers[:1] + numbers[1:][-1:], after
    if config.call_depth is not None:
        numbers = [number for number, level in enumerate(levels(frames)) if level <= config.call_depth]
    if config.loops is not None:
        kept, after = unfolded(trace, config.loops)
        kept.update(_ends(trace, numbers))
        numbers = [number for number in numbers if number in kept]
    return numbers, after


def _ends(trace: Trace, numbers: Sequence[int]) -> list[int]:
    """List the first frame, the last state, the uncaught exception and the last frame."""
    last_state = next((number for number in reversed(numbers) if trace.frames[number].locals is not None), None)
    ends = (*numbers[:1], last_state, trace.exception_frame, *numbers[-1:])
    return [number for number in ends if number is not None]


def levels(frames: Sequence[Frame]) -> list[int]:
    """Return each frame's call level, from 0; a generator's is its resumption's."""
    by_frame, level = [], -1
    for frame in frames:
        if frame.event is Event.CALL:
            level += 1
        by_frame.append(level)
        if frame.event is Event.RETURN:
            level -= 1
    return by_frame


def reveal(
    frames: Sequence[Frame], config: RevealConfig, seed: int = 0, held: Collection[int] = ()
) -> list[Shown | None]:
    """List what each frame's STATE shows, or None.

    `held`: positions of frames that keep their state at any spacing. The last frame with locals shows all, unless `locals`
    is a diff and a returned value follows. In a diff a CALL shows every value, a LINE `..` for values as last shown, and a
    RETURN clears what was shown.
    """
    # A traced program ends with a RETURN, which has no locals.
    session = bool(frames) and frames[-1].locals is not None
    with_locals = sum(frame.locals is not None for frame in frames)
    shown: list[Shown | None] = []
    memory: Shown = {}
    ordinal = reveals = 0
    for position, frame in enumerate(frames):
        if frame.locals is None:
            if frame.event is Event.RETURN:
                memory = {}
            shown.append(None)
            continue
        is_last, state = ordinal == with_locals - 1, frame.locals
        if not config.keeps(ordinal, with_locals - 1) and position not in held:
            shown.append(None)
        elif config.locals in DIFFS and not (session and is_last):
            unchanged = (
                config.locals == "changes" and frame.event is Event.LINE and not is_last and _same(state, memory)
            )
            shown.append(None if unchanged else _diff(frame, memory))
            memory = state
        elif config.locals == "full" or is_last or not state:
            shown.append(state)
        else:
            name = list(state)[chosen_variable(config, len(state), reveals, seed)]
            shown.append({name: state[name]})
        reveals += shown[-1] is not None
        ordinal += 1
    return shown


def chosen_variable(config: RevealConfig, count: int, reveals: int, seed: int) -> int:
    """Choose which of `count` variables the `reveals`-th partial reveal shows."""
    if config.locals == "one_in_turn":
        return reveals % count
    return rng.below(rng.bits(seed, REVEAL_POSITION + reveals), count)


# Positions from here on choose variables, far above those that a program draws from the same key.
REVEAL_POSITION = 1 << 32


def _same(state: Shown, memory: Shown) -> bool:
    return list(state) == list(memory) and all(memory[name].text == value.text for name, value in state.items())


def _diff(frame: Frame, memory: Shown) -> Shown:
    assert frame.locals is not None
    if frame.event is Event.CALL or not memory:
        return frame.locals
    return {
        name: UNCHANGED if name in memory and memory[name].text == value.text else value
        for name, value in frame.locals.items()
    }
