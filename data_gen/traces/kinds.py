"""Kinds of states, lines and values, by rules that predict them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from remedy.data_gen.execution.program import Event, Trace
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.frames import WrittenFrame
from remedy.data_gen.traces.reveal import RevealConfig, levels
from remedy.data_gen.traces.values import same_value

KINDS: Mapping[Role, tuple[str, ...]] = {
    Role.STATE: ("argument_states", "unchanged_states", "changed_states"),
    Role.ACTION: ("lines_below",),
    Role.VALUE: ("values_repeated",),
}


def kinds(trace: Trace, written: Sequence[WrittenFrame], reveal: RevealConfig) -> dict[str, set[int]]:
    """Sort the written frames of a true trace into `KINDS`, by their numbers.

    - `unchanged_states`: equal to the last one shown in this call, or empty if there is none.
    - `argument_states`: others of a CALL. `changed_states`: the rest.
    - `lines_below`: LINE frames of the next line of code after the one last written in this call.
    - `values_repeated`: equal to the value written before.

    States are compared in full, partial ones by the variables they show. A session is one call, which begins with its
    setup. A resumed generator is called again.
    """
    numbers: dict[str, set[int]] = {name: set() for names in KINDS.values() for name in names}
    shown = {frame.number: frame for frame in written}
    source = enumerate(trace.program.source_lines(), start=1)
    code = [number for number, line in source if line.strip() and not line.lstrip().startswith("#")]
    # A session has no CALL: all of its frames are of level -1.
    states = {-1: {name: value for name, _, value in (line.partition(" = ") for line in trace.setup)}}
    last_line = {-1: len(trace.setup)}
    previous: str | None = None
    partial = reveal.locals in ("one_in_turn", "one_at_random")
    for number, (frame, level) in enumerate(zip(trace.frames, levels(trace.frames))):
        following = bisect_right(code, last_line[level]) if level in last_line else len(code)
        below = code[following : following + 1]
        if called := frame.event is Event.CALL:
            states[level] = {}
            last_line.pop(level, None)
        if number not in shown and number > 0:
            continue
        last_line[level] = frame.line
        if number not in shown:  # the first frame, which the prompt gives
            continue
        if frame.event is Event.LINE and frame.source and frame.line in below:
            numbers["lines_below"].add(number)
        if (names := shown[number].locals) is not None and frame.locals is not None:
            state, before = {name: frame.locals[name].text for name in names}, states.get(level, {})
            if partial:
                state = {**before, **state}
            same = [*state.items()] == [*before.items()]
            numbers["unchanged_states" if same else "argument_states" if called else "changed_states"].add(number)
            states[level] = state
        if frame.value is not None:
            if previous is not None and same_value(frame.value.text, previous):
                numbers["values_repeated"].add(number)
            previous = frame.value.text
    return numbers
