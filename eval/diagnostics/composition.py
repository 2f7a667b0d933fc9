"""How does accuracy fall as functions are composed: each function alone, then compositions by depth and form?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.registry import one_of
from remedy.data_gen.settings import ConfigError
from remedy.data_gen.tasks import Task
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.families import FAMILIES
from remedy.eval.diagnostics.condition import DIAGNOSTICS, Condition, Diagnostic
from remedy.eval.records import label

Form = Literal["nested", "flattened"]

FAMILY = label("family", "The family of functions that are composed.")
FORM = label(
    "form",
    "One function alone, or a composition as nested calls or through temporaries.",
    ("atomic", "nested", "flattened"),
)
DEPTH = label("depth", "How many functions are composed.")
FUNCTION = label("function", "The function that stands alone; empty for compositions.")


@DIAGNOSTICS.register("composition")
class CompositionDiagnostic(Diagnostic):
    """Atomic accuracy per function, then accuracy by depth, nested and flattened."""

    title = "Composed functions"
    axis = "depth"
    labels = (FAMILY, FORM, DEPTH, FUNCTION)

    kind: Literal["composition"] = "composition"
    """The diagnostic."""
    families: tuple[Annotated[str, one_of(FAMILIES)], ...] = Field(default=("strings",), min_length=1)
    """Families of functions."""
    functions: tuple[str, ...] = ()
    """Functions to compose; empty: those that the data is configured with, or all of another family."""
    depths: tuple[int, ...] = (2, 3, 4, 5)
    """Depths of compositions; empty: single functions only."""
    forms: tuple[Form, ...] = Field(default=("nested", "flattened"), min_length=1)
    """How compositions are written."""
    examples: int = Field(default=100, ge=1)
    """Programs under each condition: of each function, and of each depth and form."""

    @model_validator(mode="after")
    def _forms_of_something(self) -> CompositionDiagnostic:
        if not self.depths and self.forms != type(self).model_fields["forms"].default:
            raise ValueError("forms does nothing without depths: remove it, or give depths")
        return self

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        """Every function alone, then compositions by depth and form."""
        if not isinstance(data.task, CompositionTask):
            raise ConfigError(f"diagnostic composition: needs data.task.kind composition, not {data.task.kind}")
        return [
            self.condition(
                data.changed({f"task.{key}": value for key, value in task.items()}, "diagnostic composition"),
                forcing,
                self.examples,
                split,
                **labels,
            )
            for family in self.families
            for forcing in self.forcing
            for task, labels in self._cells(data.task, family)
        ]

    def _cells(self, trained: CompositionTask, family: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The task and the labels of every condition of a family."""
        functions = self.functions or (trained.functions if family == trained.family else ())
        for name in functions or tuple(FAMILIES[family].functions):
            task: dict[str, Any] = {"family": family, "functions": (name,), "depth": 1, "flatten": False}
            yield task, {"family": family, "form": "atomic", "depth": 1, "function": name}
        for form in self.forms:
            for depth in self.depths:
                task = {"family": family, "functions": functions, "depth": depth, "flatten": form == "flattened"}
                yield task, {"family": family, "form": form, "depth": depth, "function": ""}
