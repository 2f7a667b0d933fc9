"""Variables that the next frame will show, as far as nothing need be computed for it: their names, and the values of those that
nothing on the way stores or changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from remedy.eval.control_flow.evaluator.frame import Frame
from remedy.eval.control_flow.evaluator.line import Outcome
from remedy.eval.control_flow.moves import Moves


class Shown(NamedTuple):
    """The variables of a frame in their order, with their texts; None for one that is not known."""

    entries: tuple[tuple[str, str | None], ...]
    complete: bool
    """Whether there are no others."""


NOTHING = Shown((), False)


def next_shown(moves: Moves, outcomes: Iterable[Outcome]) -> Shown:
    """Return what the frame shows that comes next, which is one of the outcomes."""
    found: Shown | None = None
    for one in outcomes:
        if one.frame is None:
            return NOTHING
        new = _of(moves, one.frame)
        found = new if found is None else _common(found, new)
    return found or NOTHING


def _of(moves: Moves, frame: Frame) -> Shown:
    """Return what a frame shows that is about to run."""
    code, names = moves.codes[frame.code], moves.effects.names
    if not code.has_slots or names.deleted_cells & set(code.variables):
        return NOTHING
    if frame.shown is None:
        return _called(moves, frame) if frame.at == code.start else NOTHING
    entries = tuple(
        (name, text if name in frame.kept else None) for name, text in frame.shown.items() if name in frame.locals
    )
    if any(name in names.stored_cells and name not in frame.shown for name in code.variables):
        return Shown(entries, False)  # another function may have bound it
    new = tuple((name, None) for name in code.variables if name in frame.locals and name not in frame.shown)
    return Shown(entries + new, True)


def _called(moves: Moves, frame: Frame) -> Shown:
    """Return what a call shows: its parameters, and what it takes of the variables around it, which for a comprehension are those
    below."""
    code, below = moves.codes[frame.code], frame.below
    entries: tuple[tuple[str, str | None], ...] = tuple((name, None) for name in code.parameters)
    taken = sum(one.arg for one in code.instructions[: code.start] if one.op == "COPY_FREE_VARS")
    if not taken:
        return Shown(entries, True)
    if below is None or below.shown is None or below.code != code.parent or code.parameters[:1] != (".0",):
        return Shown(entries, False)
    outer = [name for name in code.variables[len(code.variables) - taken :] if name in below.locals]
    texts = [below.shown.get(name) if name in below.kept else None for name in outer]
    return Shown(entries + tuple(zip(outer, texts)), True)


def _common(one: Shown, other: Shown) -> Shown:
    """Return what is known of a frame that is one of two."""
    entries: list[tuple[str, str | None]] = []
    for (name, text), (other_name, other_text) in zip(one.entries, other.entries):
        if name != other_name:
            return Shown(tuple(entries), False)
        entries.append((name, text if text == other_text else None))
    same = len(one.entries) == len(other.entries)
    return Shown(tuple(entries), same and one.complete and other.complete)
