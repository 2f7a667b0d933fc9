"""How far one way through a line has been evaluated, and what of it is known no more once something has changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from remedy.eval.control_flow.guide.iteration import unnamed
from remedy.eval.control_flow.guide.values import (
    UNKNOWN,
    Data,
    Frame,
    Generator,
    Items,
    Mapped,
    Reading,
    Value,
    Viewed,
    may_hold,
)
from remedy.eval.control_flow.moves import Point


@dataclass(slots=True)
class Way:
    """How far one way through a line has been evaluated; of this frame all is as it was when `at` is about to run."""

    code: int
    at: int
    stack: list[Value]
    whole: bool
    locals: dict[str, Value]
    kept: set[str]
    shown: Mapping[str, str] | None
    below: Frame | None

    def copy(self) -> Way:
        return replace(self, stack=list(self.stack), locals=dict(self.locals), kept=set(self.kept))

    def pop(self) -> Value:
        return self.stack.pop() if self.stack else UNKNOWN

    def take(self, count: int) -> list[Value]:
        """The upper `count` values, the lowest first."""
        found = self.stack[len(self.stack) - count :] if count and len(self.stack) >= count else None
        if found is not None:
            del self.stack[len(self.stack) - count :]
            return found
        return [self.pop() for _ in range(count)][::-1]

    def peek(self, depth: int) -> Value:
        """The value that is `depth` deep, the upmost being 1."""
        return self.stack[-depth] if depth <= len(self.stack) else UNKNOWN

    def put(self, depth: int, value: Value) -> None:
        if depth <= len(self.stack):
            self.stack[-depth] = value

    def frame(self, at: int, point: Point, reading: Reading | None = None) -> Frame:
        stack, kept = tuple(self.stack), frozenset(self.kept)
        return Frame(self.code, at, point, stack, self.whole, self.locals, kept, self.shown, self.below, reading)

    @classmethod
    def of(cls, frame: Frame) -> Way:
        stack, variables, kept = list(frame.stack), dict(frame.locals), set(frame.kept)
        return cls(frame.code, frame.at, stack, frame.whole, variables, kept, frame.shown, frame.below)


def change(way: Way, part: Data | None) -> None:
    """Something has changed that held `part` until then (None: whatever it held): what may be it is known no more."""
    way.stack = [unless_changed(value, part) for value in way.stack]
    lost = _lost(way.locals, part)
    way.locals.update(dict.fromkeys(lost, UNKNOWN))
    way.kept -= lost | _obscure(way.locals, way.kept, way.shown)
    way.below = _changed(way.below, part)


def changed(way: Way, before: Data, after: Data) -> None:
    """A value is changed. If it was read from a variable, that and what else was read from it are known to be as it is after."""
    name = before.name
    same = [at for at, one in enumerate(way.stack) if name is not None and isinstance(one, Data) and one.name == name]
    change(way, before)
    if name is not None:
        way.locals[name] = after._replace(name=None)
        for at in same:
            way.stack[at] = after._replace(name=name)


def _changed(frame: Frame | None, part: Data | None) -> Frame | None:
    """A frame and those below it after a change."""
    chain = []
    while frame is not None:
        chain.append(frame)
        frame = frame.below
    below: Frame | None = None
    for one in reversed(chain):
        stack = tuple(unless_changed(value, part) for value in one.stack)
        lost = _lost(one.locals, part)
        reading = one.reading
        if (
            reading is not None
            and isinstance(reading.source, Mapped)
            and unless_changed(reading.source, part) is UNKNOWN
        ):
            reading = None  # how many calls there will be
        gone = (lost | _obscure(one.locals, one.kept, one.shown)) & one.kept
        same = below is one.below and not (lost or gone) and reading is one.reading
        if not same or any(new is not old for new, old in zip(stack, one.stack)):
            variables: Mapping[str, Value] = {**one.locals, **dict.fromkeys(lost, UNKNOWN)} if lost else one.locals
            kept = one.kept - gone
            one = one._replace(stack=stack, locals=variables, kept=kept, below=below, reading=reading)
        below = one
    return below


def _lost(variables: Mapping[str, Value], part: Data | None) -> set[str]:
    return {name for name, value in variables.items() if unless_changed(value, part) is not value}


def _obscure(variables: Mapping[str, Value], kept: Collection[str], shown: Mapping[str, str] | None) -> set[str]:
    """Variables that may hold what is changed, and whose texts may tell it: `<...>` does not."""
    shown = shown or {}
    return {
        name for name in kept if variables.get(name, UNKNOWN) is UNKNOWN and not shown.get(name, "").startswith("<")
    }


def unless_changed(value: Value, part: Data | None) -> Value:
    """A value after a change: itself if it is another object than what changed."""
    if isinstance(value, Data):
        if not value.changes or value.own:
            return value
        return UNKNOWN if part is None or may_hold(value.value, part) else value
    if isinstance(value, Items | Mapped):
        return UNKNOWN if any(unless_changed(one, part) is not one for one in value.sources) else value
    if isinstance(value, Viewed):
        return UNKNOWN if unless_changed(value.data, part) is UNKNOWN else value
    if isinstance(value, Generator):
        frame = _changed(value.frame, part)
        return value if frame is value.frame or frame is None else Generator(frame)
    return value


def bind(way: Way, name: str, value: Value) -> None:
    """A variable gets a value."""
    way.stack = [unnamed(one, name, way.locals) for one in way.stack]
    if isinstance(value, Data):
        value = value._replace(own=False, name=None)
    elif isinstance(value, Items | Mapped | Generator | Viewed):
        value = UNKNOWN  # from now on two may read it
    way.locals[name] = value
    way.kept.discard(name)


def unbind(way: Way, name: str) -> None:
    way.stack = [unnamed(one, name, way.locals) for one in way.stack]
    way.locals.pop(name, None)
    way.kept.discard(name)
