"""Does a model track a permutation, by the number of commands, by how often it sees a state, and by what it is fed?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.settings import ConfigError
from remedy.data_gen.tasks import Task
from remedy.eval.diagnostics.condition import DIAGNOSTICS, MOST_EXAMPLES, Condition, Diagnostic
from remedy.eval.records import label

LENGTH = label("length", "Commands of a permutation program.")


@DIAGNOSTICS.register("permutation")
class PermutationDiagnostic(Diagnostic):
    """Final-state accuracy by length, spacing and forcing."""

    former: ClassVar[Mapping[str, str]] = {"every": "spacings"}
    title = "Permutation programs"
    labels = (LENGTH,)
    axis = "length"

    kind: Literal["permutation"] = "permutation"
    """The diagnostic."""
    lengths: tuple[int, ...] = Field(default=(8, 16, 32, 64, 128), min_length=1)
    """Numbers of commands, one condition each."""
    spacings: tuple[float, ...] = ()
    """Spacings of the kept states, one condition each; empty: the spacing that the data is configured with."""
    examples: int = Field(default=100, ge=1, le=MOST_EXAMPLES)
    """Programs under each condition."""

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        """Lengths by spacing and forcing."""
        if data.task.kind != "permutation":
            raise ConfigError(f"diagnostic permutation: needs data.task.kind permutation, not {data.task.kind}")
        return [
            self.condition(
                data.changed({"reveal.spacing": spacing, "task.length": length}, "diagnostic permutation"),
                forcing,
                self.examples,
                split,
                length=length,
            )
            for spacing in self.spacings or (data.reveal.spacing,)
            for length in self.lengths
            for forcing in self.forcing
        ]
