"""Which of two failures is it: the wrong action, or a lost state? Who writes the actions, by who writes the states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import pandas as pd
from pydantic import Field, field_validator

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.tasks import Task
from remedy.eval import baselines
from remedy.eval.decoding import Forcing
from remedy.eval.diagnostics.condition import DIAGNOSTICS, MOST_EXAMPLES, Condition, Diagnostic, extent
from remedy.eval.sections import WITHOUT, Rows, Section, constant, in_order, named, percent, telling
from remedy.eval.stats import rate
from remedy.eval.summary import ConditionSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Cell(NamedTuple):
    """Who writes what under a forcing."""

    actions: str
    states: str


CELLS: dict[str, Cell] = {
    "free": Cell("model", "model"),
    "action_forced": Cell("fed", "model"),
    "state_forced": Cell("model", "fed"),
    "teacher_forced": Cell("predicted after true ones", "predicted after true ones"),
}
LOST = {"state", "value"}
"""The roles of first errors by which a state is lost; by any other, what happens next is wrong."""
NOTE = (
    "Rates per frame, with Wilson intervals over clusters, of what the model writes; what is fed has none. A state that is wrong "
    "where actions are fed is a lost state; an action that is wrong where states are fed is a wrong action. Teacher forcing is one "
    "step: what is right given the true past. In free decoding frames are compared at their place in the trace, so all that follows "
    "a wrong action may count as wrong: there the shares of traces whose first error is one or the other tell more."
)


@DIAGNOSTICS.register("two_by_two")
class TwoByTwoDiagnostic(Diagnostic):
    """Actions written or fed, by states written or fed, on the same programs."""

    title: ClassVar[str] = "Who writes actions, who writes states"

    kind: Literal["two_by_two"] = "two_by_two"
    """The diagnostic."""
    forcing: tuple[Forcing, ...] = Field(default=tuple(CELLS), min_length=1)
    """The cells: `free`, `action_forced`, `state_forced` and `teacher_forced`."""
    examples: int | None = Field(default=None, ge=1, le=MOST_EXAMPLES)
    """Programs of the configured task; by default all that are given, or 100 of generated ones."""

    @field_validator("forcing")
    @classmethod
    def _all_cells(cls, value: tuple[Forcing, ...]) -> tuple[Forcing, ...]:
        if set(value) != set(CELLS):
            raise ValueError(f"a two_by_two has the cells {', '.join(CELLS)}: leave forcing out")
        return value

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        """The four cells over the configured data, which show the program."""
        from_split, count = extent(self.kind, data.task, split, trained_on, self.examples)
        return [self.condition(data, forcing, count, from_split) for forcing in self.forcing]

    @classmethod
    def sections(cls, conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
        """Rates per frame by cell, as a figure and in numbers."""
        return [
            Section(f"{cls.title}: right per frame", draw=partial(cells_figure, conditions), note=constant(conditions)),
            Section(f"{cls.title}: in numbers", rows=cells_table(conditions, records), note=NOTE),
        ]


def cells_table(conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> Rows:
    """A line for every run and cell."""
    names = [name for name in telling(conditions) if name != "forcing"]
    head = ["Run", "Actions", "States", "Answer right", WITHOUT, "States right", "Actions right", "Values right"]
    table = [[*head, "First error: wrong action", "First error: lost state"]]
    for condition in in_order(conditions):
        said = named(condition["labels"], names)
        cell = CELLS[str(condition["labels"]["forcing"])]
        mine = records[(records["run"] == condition["run"]) & (records["condition"] == condition["condition"])]
        roles = mine["first_error_role"]
        table.append(
            [
                condition["run"] + (f", {said}" if said else ""),
                *cell,
                percent(condition["right"]),
                baselines.best([condition]) if condition["right"] is not None else "",
                *(percent(condition["per_frame"].get(kind)) for kind in ("states", "actions", "returns")),
                _share(((roles != "") & ~roles.isin(LOST)).tolist(), mine["cluster"].tolist()),
                _share(roles.isin(LOST).tolist(), mine["cluster"].tolist()),
            ]
        )
    return table


def _share(outcomes: list[bool], clusters: list[str]) -> str:
    if not outcomes:
        return ""
    found = rate(outcomes, clusters)
    return f"{100 * found.mean:.0f} %\n{sum(outcomes)} of {len(outcomes)} traces"


def cells_figure(conditions: Sequence[ConditionSummary]) -> Figure:
    """States right where actions are written, fed, or all is fed; and actions right where states are."""
    from remedy.eval import plotting
    from remedy.eval.colours import COLOURS

    names = [name for name in telling(conditions) if name != "forcing"]
    ordered = in_order(conditions)
    lines = list(dict.fromkeys((one["run"], named(one["labels"], names)) for one in ordered))
    figure, axes = plotting.panels(2)
    kinds = [("states", "action_forced", "actions fed"), ("actions", "state_forced", "states fed")]
    for panel, (kind, alone, fed) in zip(axes, kinds):
        places = {"free": (0, "all written"), alone: (1, fed), "teacher_forced": (2, "one step")}
        for number, (run, said) in enumerate(lines):
            for one in ordered:
                forcing = str(one["labels"]["forcing"])
                found = one["per_frame"].get(kind)
                if (one["run"], named(one["labels"], names)) != (run, said) or forcing not in places or found is None:
                    continue
                at = places[forcing][0] + (number - (len(lines) - 1) / 2) * 0.8 / len(lines)
                ends = [[found["mean"] - found["low"]], [found["high"] - found["mean"]]]
                colour, label = COLOURS[number % len(COLOURS)], f"{run}, {said}" if said else run
                panel.bar([at], [found["mean"]], width=0.7 / len(lines), color=colour, alpha=0.8, label=label)
                panel.errorbar([at], [found["mean"]], yerr=ends, color="black", lw=1)
        panel.set_xticks([place for place, _ in places.values()], [name for _, name in places.values()])
        plotting.rates(panel)
        panel.set(title=f"{kind} right, per frame")
    plotting.legend(figure, axes)
    return figure
