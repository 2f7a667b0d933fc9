"""The settings reference: every field of every kind of section, with its type in words, its default and its description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, SerializeAsAny

from remedy.launch.reference import REQUIRED, SECTION, as_help, fields, places
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
    spare: tuple[Pen, ...] = ()
    named: dict[str, Pen] = {}
    notes: dict[str, Any] = {}
    size: tuple[int, int] = (3, 8)
    spacing: float = float("inf")


def found() -> dict[str, tuple[str, str, str]]:
    rows = [row for settings in (Drawing, Circle, Pen) for row in fields(settings)]
    return {row.key: (row.shape.words, row.default, row.description) for row in rows}


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("shape", ("section", REQUIRED, "What is drawn.")),
        ("radius", ("number > 0", "1.0", "Half the width, in metres.")),
        ("pen", ("section", SECTION, "")),
        ("colour", ("`red` or `blue`", "red", "What it draws in.")),
        ("width", ("whole number >= 1 and <= 9 or null", "null", "")),
        ("notes", ("mapping", "{}", "")),
        ("size", ("[whole number, whole number]", "[3, 8]", "")),
        ("spacing", ("number", ".inf", "")),
    ],
)
def test_a_row_says_what_a_key_takes(key: str, row: tuple[str, str, str]) -> None:
    assert found()[key] == row


def test_help_names_the_keys_of_each_section() -> None:
    lines = as_help(Drawing).splitlines()
    for line in ("  shape required  (section)", "      shape.* (circle): radius", "      named.NAME.*: colour, width"):
        assert line in lines


def test_a_class_registered_later_is_part_of_the_reference() -> None:
    class Square(Shape):
        kind: Literal["square"] = "square"
        side: int = 2

    SHAPES.register("square")(Square)
    try:
        assert found()["shape"][0] == "section of kind `circle` or `square`"
        assert (Square, "shape", "square") in list(places(Drawing))
    finally:
        del SHAPES["square"]
