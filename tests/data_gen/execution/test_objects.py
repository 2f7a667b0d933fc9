"""Objects that are shown with their attributes (`tracer.objects`)."""

import pytest

from remedy.data_gen.execution.program import TraceLimits
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, spans_text
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig
from tests.data_gen.execution.test_tracer import program

OBJECTS = """
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
class Slots:
    __slots__ = ("a", "b")
class Both(Slots): pass
class Meta(type):
    __mro__ = __name__ = property(lambda self: 1 / 0)
class Lies(metaclass=Meta):
    __dict__ = __class__ = property(lambda self: 1 / 0)
    def __getattribute__(self, name):
        raise SystemExit
class Own:
    def __repr__(self):
        return f"Own({object()})"
def cycle():
    one = Point([], 0)
    one.x.append(one)
    return one
def slots():
    one = Both()
    one.b, one.later = "a > b", None
    return one
def error():
    try:
        1 / 0
    except ZeroDivisionError as found:
        return found.__traceback__
class Key(str):
    def __eq__(self, other):
        raise SystemExit
    def __hash__(self):
        return hash("__repr__")
class Hash(type):
    def __hash__(self):
        raise SystemExit
def named(name):
    one = Hash("Named", (), {Key("x"): 1})()
    one.__dict__[name] = 1
    return one
def many(made):
    made.__dict__.update((f"a{number}", number) for number in range(20))
    return made
"""
SHOWN = {
    "Point(1, [2])": "<Point x=1 y=[2]>",
    "[Point(1, 2)], (Point(3, ()),), {'k': {Point(0, 0)}}, frozenset([Lies()])": (
        "([<Point x=1 y=2>], (<Point x=3 y=()>,), {'k': {<Point x=0 y=0>}}, frozenset({<Lies>}))"
    ),
    "slots()": "<Both b='a > b' later=None>",
    "cycle()": "<Point x=[<Point ...>] y=0>",
    "Point(Point(Point(Point(Point(1, 2), 3), 4), 5), 6)": (
        "<Point x=<Point x=<Point x=<Point x=<Point ...> y=3> y=4> y=5> y=6>"
    ),
    "many(Point(0, 0)).x, ' object>'": "(0, ' object>')",
    "many(Point(0, 0))": f"<Point x=0 y=0 {' '.join(f'a{n}={n}' for n in range(14))} ...>",
    "[Own(), object(), set(), property(), error()]": (
        "[Own(<object object>), <object object>, set(), <property object>, <traceback object>]"
    ),
    "{Point(n, 0) for n in range(9)}": f"{{{', '.join(f'<Point x={n} y=0>' for n in range(9))}}}",
    "named(chr(0xd800))": "<Named \\ud800=1>",
    "named(Key('x'))": "<Named>",
}


@pytest.mark.parametrize(("value", "text"), SHOWN.items())
def test_objects_are_shown_with_their_attributes_and_none_of_their_code_runs(value: str, text: str) -> None:
    result = trace(program(f"return {value}", OBJECTS), TraceLimits(attributes=True)).result
    assert result is not None
    assert result.text == text


def test_a_diff_shows_an_object_again_whose_attribute_changed() -> None:
    traced = trace(program("p = Point(1, 2)\np.x = 5\nreturn 0", OBJECTS), TraceLimits(attributes=True))
    states = spans_text(
        [span for span in render(traced, "cwm", RevealConfig(locals="diff")).spans if span.role is Role.STATE]
    )
    assert "<Point x=1 y=2>" in states
    assert "<Point x=5 y=2>" in states
