"""A diagnostic of your own: right answers by the size of the numbers of the `countdown` task.

How to add: write a subclass of `Diagnostic` that spells out conditions, with the labels that tell them apart.
Register it, give this file by `--plugin`, and name it in an evaluation's `diagnostics`. Reports draw its axis and
compare its conditions.
"""

from typing import Literal

from pydantic import Field

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks import Task
from remedy.eval.diagnostics import DIAGNOSTICS, Condition, Diagnostic
from remedy.eval.records.schema import label


@DIAGNOSTICS.register("countdown_sizes")
class CountdownSizes(Diagnostic):
    """Does the model count down from larger numbers?"""

    title = "Countdowns"
    labels = (label("high", "The largest number to count down from."),)
    axis = "high"

    kind: Literal["countdown_sizes"] = "countdown_sizes"
    highs: tuple[int, ...] = Field(default=(40, 80), min_length=1)
    """The largest numbers, one condition each."""
    examples: int = Field(default=50, ge=1)
    """Programs of a condition."""

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        return [
            self.condition(data.changed({"task.high": high}), forcing, self.examples, split, high=high)
            for high in self.highs
            for forcing in self.forcing
        ]
