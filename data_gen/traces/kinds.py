"""Kinds of what a true trace shows: what rules without a model have right, and what has to be computed."""

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

    Each shown state is of one kind. `unchanged_states`: equal to the one last shown of this call of its function, or to the empty
    one if none was; the rule "nothing changed" has these right, and no others. `argument_states`: others of a CALL. `changed_states`:
    the rest. States are compared in full, whatever a diff or a memory leaves out; partial ones by the variables that they show. A
    session is one call, which begins with the values that it sets; a generator that is resumed is called again.

    `lines_below`: LINE frames of the next line below the last one of this call that is neither blank nor a comment. `values_repeated`:
    frames whose value equals the one written before.
    """
    found: dict[str, set[int]] = {name: set() for names in KINDS.values() for name in names}
    shown = {frame.number: frame for frame in written}
    source = enumerate(trace.program.source_lines(), start=1)
    code = [number for number, line in source if line.strip() and not line.lstrip().startswith("#")]
    states = {-1: {name: value for name, _, value in (line.partition(" = ") for line in trace.setup)}}
    last = {-1: len(trace.setup)}
    before: str | None = None
    partial = reveal.locals in ("one_in_turn", "one_at_random")
    for number, (frame, level) in enumerate(zip(trace.frames, levels(trace.frames))):
        at = bisect_right(code, last.get(level, 0))
        below, last[level] = code[at : at + 1], frame.line
        if called := frame.event is Event.CALL:
            states[level] = {}
        if number not in shown:
            continue
        if frame.event is Event.LINE and frame.source and frame.line in below:
            found["lines_below"].add(number)
        if (names := shown[number].locals) is not None and frame.locals is not None:
            state, known = {name: frame.locals[name].text for name in names}, states.get(level, {})
            if partial:
                state = {**known, **state}
            same = [*state.items()] == [*known.items()]
            found["unchanged_states" if same else "argument_states" if called else "changed_states"].add(number)
            states[level] = state
        if frame.value is not None:
            if before is not None and same_value(frame.value.text, before):
                found["values_repeated"].add(number)
            before = frame.value.text
    return found
