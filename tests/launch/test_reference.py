"""Settings of plug-ins are described wherever their classes are made."""

from __future__ import annotations

from pydantic import Field, create_model

from remedy.launch.reference import fields
from remedy.settings import Settings


def test_a_class_in_a_function_and_a_field_with_its_own_description() -> None:
    class Own(Settings):
        """Settings of a plug-in."""

        first: int = 1
        """What is below it."""
        second: int = Field(default=2, description="What it is given.")

    assert [row.description for row in fields(Own)] == ["What is below it.", "What it is given."]


def test_a_class_without_source() -> None:
    made = create_model("Made", __base__=Settings, kind=(str, "made"), count=(int, 3))
    assert [row.default for row in fields(made)] == ["made", "3"]
