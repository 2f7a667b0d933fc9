"""The settings reference: every field of every kind of section, with its type in words, its default and its description."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from remedy.launch.reference import REQUIRED, as_help, fields, places
from remedy.registry import Registry, by_kind, one_of
from remedy.settings import Settings

COLOURS: Registry[int] = Registry("colour")
COLOURS["red"], COLOURS["blue"] = 1, 2


class Shape(Settings):
    kind: str


SHAPES: Registry[type[Shape]] = Registry("shape")


@SHAPES.register("circle")
class Circle(Shape):
    kind: Literal["circle"] = "circle"
    radius: float = Field(default=1.0, gt=0)
    """Half the width,
    in metres."""


class Pen(Settings):
    colour: Annotated[str, one_of(COLOURS)] = "red"
    """What it draws in."""
    width: int | None = Field(default=None, ge=1, le=9)


class Drawing(Settings):
    shape: Annotated[Shape, SerializeAsAny(), by_kind(SHAPES)]
    """What is drawn."""
    pen: Pen = Pen(colour="blue")
    named: dict[str, Pen] = {}
    size: tuple[int, int] = (3, 8)


def test_a_row_says_what_a_key_takes() -> None:
    rows = [row for settings in (Drawing, Circle, Pen) for row in fields(settings)]
    found = {row.key: (row.shape.words, row.default, row.description) for row in rows}
    assert found["shape"] == ("section", REQUIRED, "What is drawn.")
    assert found["radius"] == ("number > 0", "1.0", "Half the width, in metres.")
    assert found["colour"] == ("`red` or `blue`", "red", "What it draws in.")
    assert found["width"] == ("whole number >= 1 and <= 9 or null", "null", "")
    assert found["size"] == ("[whole number, whole number]", "[3, 8]", "")


def test_help_names_the_keys_of_each_section() -> None:
    lines = as_help(Drawing).splitlines()
    for line in ("  shape required  (section)", "      shape.* (circle): radius", "      named.NAME.*: colour, width"):
        assert line in lines


def test_a_class_registered_later_is_part_of_the_reference() -> None:
    class Square(Shape):
        kind: Literal["square"] = "square"

    SHAPES.register("square")(Square)
    try:
        assert fields(Drawing)[0].shape.words == "section of kind `circle` or `square`"
        assert (Square, "shape", "square") in list(places(Drawing))
    finally:
        del SHAPES["square"]
