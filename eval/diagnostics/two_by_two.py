"""Diagnostic of wrong actions and lost states, each fed or written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks import Task
from remedy.eval.decoding.forcings import Forcing
from remedy.eval.diagnostics.condition import DIAGNOSTICS, MOST_EXAMPLES, Condition, Diagnostic, extent
from remedy.eval.records import baselines
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import Estimate, mean, rate
from remedy.eval.tables.groups import Group, all_runs, grouped
from remedy.eval.tables.sections import WITHOUT, Rows, Section, constant, interval, joined, named, percent, telling

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


CELLS = {
    "free": ("model", "model"),
    "action_forced": ("fed", "model"),
    "state_forced": ("model", "fed"),
    "teacher_forced": ("predicted after true ones", "predicted after true ones"),
}
"""Who writes actions, and who states, under each forcing."""
LOST = {"state", "value"}
"""Roles of first errors that are lost states; others are wrong actions."""
NOTE = (
    "Rates per frame of what the model writes; what is fed has none. Of one run with Wilson intervals over clusters; of several "
    "seeds their mean with a t interval for other seeds on these programs, and each in small print. A state that is wrong where "
    "actions are fed is a lost state; an action that is wrong where states are fed is a wrong action. Teacher forcing is one "
    "step: what is right given the true past. In free decoding frames are compared at their place in the trace, so all that "
    "follows a wrong action may count as wrong: there the shares of traces whose first error is one or the other tell more. A state "
    "that is shown before the first action is a copy of the start: right states that are no more than these are none that was followed."
)


CELLS_NOTE = "Bars: means over the seeds of a variant; points: each seed with its interval over programs."


@DIAGNOSTICS.register("two_by_two")
class TwoByTwoDiagnostic(Diagnostic):
    """Accuracy with actions and states written or fed, on the same programs."""

    title: ClassVar[str] = "Who writes actions, who writes states"

    kind: Literal["two_by_two"] = "two_by_two"
    """The diagnostic."""
    forcing: tuple[Forcing, ...] = Field(default=tuple(CELLS), min_length=1)
    """The cells: `free`, `action_forced`, `state_forced` and `teacher_forced`."""
    examples: int | None = Field(default=None, ge=1, le=MOST_EXAMPLES)
    """Programs of the configured task; by default all given ones, or 100 generated ones."""

    @field_validator("forcing")
    @classmethod
    def _all_cells(cls, value: tuple[Forcing, ...]) -> tuple[Forcing, ...]:
        if set(value) != set(CELLS):
            raise ValueError(f"a two_by_two has the cells {', '.join(CELLS)}: leave forcing out")
        return value

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        from_split, count = extent(self.kind, data.task, split, trained_on, self.examples)
        return [self.condition(data, forcing, count, from_split) for forcing in self.forcing]

    @classmethod
    def sections(cls, conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
        cells = grouped(conditions, records)
        note = joined(" ", CELLS_NOTE if any(len(cell.runs) > 1 for cell in cells) else "", constant(conditions))
        return [
            Section(f"{cls.title}: right per frame", draw=partial(cells_figure, cells), note=note),
            Section(f"{cls.title}: in numbers", rows=cells_table(cells), note=NOTE),
        ]


def cell_names(cells: Sequence[Group]) -> list[str]:
    """Name each cell by its variant and the labels that differ."""
    names = [name for name in telling(all_runs(cells)) if name != "forcing"]
    return [joined(", ", cell.variant, named(cell.labels, names)) for cell in cells]


def cells_table(cells: Sequence[Group]) -> Rows:
    head = ["Variant" if any(len(cell.runs) > 1 for cell in cells) else "Run", "Actions", "States", "Answer right"]
    head += [WITHOUT, "States right", "Actions right", "Values right"]
    table = [[*head, "First error: wrong action", "First error: lost state"]]
    for name, cell in zip(cell_names(cells), cells):
        roles = cell.records["first_error_role"]
        table.append(
            [
                name,
                *CELLS[str(cell.labels["forcing"])],
                _rates_text([run["right"] for run in cell.runs if run["right"] is not None]),
                baselines.best(cell.runs) if cell.scored else "",
                *(_rates_text(_rates(cell, kind)) for kind in ("states", "actions", "returns")),
                _share(cell, (roles != "") & ~roles.isin(LOST)),
                _share(cell, roles.isin(LOST)),
            ]
        )
    return table


def _rates(cell: Group, kind: str) -> list[Estimate]:
    """Return runs' rates per frame, unless all frames were fed."""
    return [run["per_frame"][kind] for run in cell.runs if kind in run["per_frame"]]


def _rates_text(rates: Sequence[Estimate]) -> str:
    """Write a rate with its interval; of several seeds, the mean and each."""
    if len(rates) < 2:
        return percent(rates[0] if rates else None)
    over_seeds = mean([seed.mean for seed in rates])
    each = ", ".join(f"{100 * seed.mean:.0f}" for seed in rates)
    return f"{100 * over_seeds.mean:.0f} %\n{interval(over_seeds.low, over_seeds.high)}\nseeds {each} %"


def _share(cell: Group, outcomes: pd.Series) -> str:
    """Write the share and number of a cell's traces with an outcome."""
    if outcomes.empty:
        return ""
    runs = cell.records.assign(outcome=outcomes).groupby("run", sort=False)
    rates = [rate(of_run["outcome"], of_run["cluster"]) for _, of_run in runs]
    return f"{_rates_text(rates)}\n{outcomes.sum()} of {len(outcomes)} traces"


def cells_figure(cells: Sequence[Group]) -> Figure:
    """Draw right states by forcing of actions, and right actions by that of states."""
    from remedy.eval.tables import plotting

    names = list(dict.fromkeys(cell_names(cells)))
    figure, axes = plotting.panels(2)
    kinds = [("states", "action_forced", "actions fed"), ("actions", "state_forced", "states fed")]
    width = 0.8 / len(names)  # of a bar; the rest separates the ticks
    for panel, (kind, alone, fed) in zip(axes, kinds):
        ticks = {"free": (0, "all written"), alone: (1, fed), "teacher_forced": (2, "one step")}
        for name, cell in zip(cell_names(cells), cells):
            rates, forcing, number = _rates(cell, kind), str(cell.labels["forcing"]), names.index(name)
            if forcing not in ticks or not rates:
                continue
            centre = ticks[forcing][0] + (number - (len(names) - 1) / 2) * width
            height = sum(seed.mean for seed in rates) / len(rates)
            panel.bar([centre], [height], width=0.88 * width, color=plotting.colour(number), alpha=0.6, label=name)
            for index, seed in enumerate(rates):
                x = centre + (index - (len(rates) - 1) / 2) * 0.6 * width / len(rates)
                ends = [[seed.mean - seed.low], [seed.high - seed.mean]]
                panel.errorbar([x], [seed.mean], yerr=ends, fmt="o", ms=3, color="black", lw=1)
        panel.set_xticks([position for position, _ in ticks.values()], [name for _, name in ticks.values()])
        plotting.rates(panel)
        panel.set(title=f"{kind} right, per frame")
    plotting.legend(figure, axes)
    return figure
