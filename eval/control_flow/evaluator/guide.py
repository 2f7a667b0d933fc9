"""Successors of a written trace's frames by its program and by the states that it has written: lines are evaluated on them.

This executes a line on the writer's state, where `Walk` says what the program alone allows. Where anything is not exactly known it
decides nothing. What is written is data: it is parsed as literals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import takewhile
from typing import Any, NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.eval.control_flow.evaluator.frame import Frame
from remedy.eval.control_flow.evaluator.instructions import came_back, gather
from remedy.eval.control_flow.evaluator.line import Line, Lost, Outcome
from remedy.eval.control_flow.evaluator.source import Source
from remedy.eval.control_flow.evaluator.values import UNKNOWN, Function, Unsure, read
from remedy.eval.control_flow.flow import ControlFlow
from remedy.eval.control_flow.moves import Moves
from remedy.eval.control_flow.options import Point, Step
from remedy.eval.control_flow.walk import Exceptions, Walk


class Shown(NamedTuple):
    """The variables of a frame in their order, with their texts; None for one that is not known."""

    entries: tuple[tuple[str, str | None], ...]
    complete: bool
    """Whether there are no others."""


NOTHING = Shown((), False)


class Guide:
    """A walk with what is known of its frames' values. It does not change: `advance` gives another.

    It decides for programs whose values are Python's own and whose functions are their names' (`Names.shows_values`): what a class
    of the program's own shows of itself may be anything. What `ControlFlow` does not know it does not either.
    """

    __slots__ = ("_frame", "_outcomes", "_source", "walk")

    def __init__(self, source: Source, walk: Walk, frame: Frame | None = None) -> None:
        self._source = source
        self.walk = walk
        self._frame = frame
        self._outcomes: list[Outcome] | None = None

    @classmethod
    def start(cls, flow: ControlFlow, exceptions: Exceptions = "all") -> Guide:
        """Before the first frame, which is the entry's CALL."""
        return cls(Source(flow), flow.start(exceptions))

    @classmethod
    def entered(cls, flow: ControlFlow, exceptions: Exceptions = "all") -> Guide:
        """After the entry's CALL, which shows its variables if it has any: what those are is then not known."""
        start = cls.start(flow, exceptions)
        after = start.advance(start.walk.allowed(), None if flow.entry.parameters else {})
        assert after is not None
        return after

    def outcomes(self) -> Sequence[Outcome] | None:
        """Everything that may come next, by the written state; None: that is not known."""
        if self._outcomes is None and self._frame is not None:
            try:
                self._outcomes = evaluated(self._source, self._frame)
            except (Lost, Unsure, RecursionError):
                self._frame = None  # not to be tried again
        return self._outcomes

    def allowed(self) -> frozenset[Step]:
        """Every event and line that can come next: those that the written state allows of those that the program does."""
        allowed = self.walk.allowed()
        if len(allowed) == 1 or self.walk.may_drop:
            return allowed
        outcomes = self.outcomes()
        return (allowed & {one.step for one in outcomes} if outcomes is not None else frozenset()) or allowed

    def shown(self, steps: Collection[Step]) -> Shown:
        """Return what of its variables the next frame shows if it is one of these steps, without what need be computed."""
        found = [_shown(self._source.moves, one.frame) if one.frame else NOTHING for one in self._among(steps)]
        return reduce(_common, found) if found else NOTHING

    def value(self, steps: Collection[Step]) -> str | None:
        """Return what the next frame returns if it is one of these steps, where nothing need be computed for it."""
        found = {one.value for one in self._among(steps)}
        return found.pop() if len(found) == 1 else None

    def _among(self, steps: Collection[Step]) -> list[Outcome]:
        """The outcomes that are one of these steps; none where others may come."""
        return [] if self.walk.may_drop else [one for one in self.outcomes() or () if one.step in steps]

    def advance(
        self, steps: Collection[Step], shown: Mapping[str, str] | None = None, value: str | None = None
    ) -> Guide | None:
        """After a frame that is one of these steps. None: the program does not allow it.

        `shown`: its variables, none left out and no `..` among them; None where it shows none, or they cannot be read. `value`: what
        is returned or raised.
        """
        walk = self.walk.advance(steps)
        if walk is None:
            return None
        event, names = next(iter(steps)).event, self._source.names
        frame = self._next(walk, steps) if names.shows_values else None
        if frame is None or event is None:
            return Guide(self._source, walk)
        values = {name: _read(text, names.shown) for name, text in (shown or {}).items()}
        if event is Event.RETURN:
            frame = frame.copy(came=_read(value or "", names.shown))
        elif event is not Event.EXCEPTION:
            frame = frame.copy(locals=values, kept=frozenset(values), shown=shown)
        if shown is None and event in (Event.CALL, Event.LINE):
            frame = Frame(frame.code, frame.at, frame.point, below=frame.below)
        return Guide(self._source, walk, frame)

    def _next(self, walk: Walk, steps: Collection[Step]) -> Frame | None:
        """The frame after one of these steps, or what the walk knows of it."""
        node = walk.node
        if node is None and self.walk.may_drop:
            return None  # it may be another that came
        frames = [one.frame for one in self.outcomes() or () if one.step in steps]
        fitting = [one for one in frames if one and (node is None or (one.code, one.at) == node[:2])]
        found: Frame | None = None
        if fitting and (node is not None or len(fitting) == len(frames)):
            found, *others = fitting
            for one in others:
                found = _joined(found, one)
        if found is None and node is not None and node.point not in (Point.BEFORE, Point.END):
            found = Frame(node.code, node.at, node.point)
        return found


def _joined(one: Frame | None, other: Frame | None) -> Frame | None:
    """Return what is known of a frame that is one of two; None if they are at different places."""
    if one is None or other is None or (one.at, one.point, one.awaited) != (other.at, other.point, other.awaited):
        return None
    if any(getattr(one, part) is not getattr(other, part) for part in ("below", "shown", "came")):
        return None

    def same(mine: dict[Any, Any], others: dict[Any, Any]) -> dict[Any, Any]:
        return {key: value for key, value in mine.items() if others.get(key, UNKNOWN) is value}

    known = {part: same(getattr(one, part), getattr(other, part)) for part in ("locals", "values", "loops")}
    return one.copy(kept=one.kept & other.kept, **known)


def evaluated(source: Source, frame: Frame) -> list[Outcome]:
    """The events that may follow where a frame is. Raises Lost or Unsure where they are not known, or not all."""
    at, point = frame.at, frame.point
    line, way = Line(source, frame.code), frame.copy()
    if point in (Point.RETURNED, Point.RAISED):
        for name in source.names.stored_cells & way.locals.keys():
            way.bind(name, UNKNOWN)
    if point in (Point.RUN, Point.AGAIN):
        line.open.append(way)
    elif point is Point.RETURNED:
        came_back(line, way)
    elif point is Point.UNWIND and line.code.instructions[at].op not in ("FOR_ITER", "SEND"):
        line.unwind(way, at, {at})
    elif point is Point.THROWN or (
        point is Point.RAISED and not (source.names.may_swallow and line.effects[at].calls is None)
    ):
        line.raises(way, at)
    else:
        raise Lost
    return gather(line)


def _read(text: str, functions: Mapping[str, int]) -> Any:
    return Function(functions[text]) if text in functions else read(text)


def _shown(moves: Moves, frame: Frame) -> Shown:
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
    pairs = takewhile(lambda pair: pair[0][0] == pair[1][0], zip(one.entries, other.entries))
    entries = tuple((name, text if text == other_text else None) for (name, text), (_, other_text) in pairs)
    same = len(entries) == len(one.entries) == len(other.entries)
    return Shown(entries, same and one.complete and other.complete)
