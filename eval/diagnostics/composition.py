"""Diagnostic of composed functions: accuracy alone, then by depth and form."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks import Task
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.families import FAMILIES
from remedy.eval.diagnostics.composition_null import (
    ATOMIC,
    Line,
    corrected_line,
    every_frame_right,
    given_true_inputs,
    published_line,
)
from remedy.eval.diagnostics.condition import (
    DIAGNOSTICS,
    MOST_EXAMPLES,
    PAIRS,
    Condition,
    Diagnostic,
    check_test_pairs,
)
from remedy.eval.records import baselines
from remedy.eval.records.schema import answered, label, rank
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import rate
from remedy.eval.tables.sections import WITHOUT, Rows, Section, interval
from remedy.registry import one_of
from remedy.settings import ConfigError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
Form = Literal["nested", "flattened"]
PUBLISHED, CORRECTED, GIVEN = "Product of single functions", "Product, corrected", "Given true inputs"
EVERY_FRAME = "Every frame, after a true past"
EXPECTED = (
    f"{PUBLISHED}: the mean product of the accuracies of a program's functions alone, the published null. {CORRECTED}: these "
    "accuracies drawn towards each other by a beta-binomial model, with a 95 % interval: on few programs, doing well is partly luck. "
    "No function is chosen here for doing well: all that the diagnostic names are composed, where published figures are of those at "
    f"90 % and above. {GIVEN}: the share of right values that calls return after a true past "
    "(teacher forcing), at the values that really occur, to the power of each program's number of calls: the right null, where it was "
    "evaluated. It leaves out states that are wrong within a call, and is not there where calls are stepped over. "
    f"{EVERY_FRAME}: programs with no frame wrong under teacher forcing, none of them taken for independent; an answer can be right "
    "in spite of a wrong frame, so that more answers can be right than this."
)

FAMILY = label("family", "The family of functions that are composed.")
FORM = label(
    "form",
    "One function alone, or a composition as nested calls or through temporaries.",
    (ATOMIC, "nested", "flattened"),
)
DEPTH = label("depth", "How many functions are composed.")
FUNCTION = label("function", "The function that stands alone; empty for compositions.")


@DIAGNOSTICS.register("composition")
class CompositionDiagnostic(Diagnostic):
    """Accuracy of functions alone, and of compositions by depth and form."""

    title = "Composed functions"
    axis = "depth"
    labels = (FAMILY, FORM, DEPTH, FUNCTION, PAIRS)

    kind: Literal["composition"] = "composition"
    """The diagnostic."""
    families: tuple[Annotated[str, one_of(FAMILIES)], ...] = Field(default=("strings",), min_length=1)
    """Families of functions."""
    functions: tuple[str, ...] = ()
    """Functions to compose; empty: those of the data configuration, or all of another family."""
    depths: tuple[int, ...] = (2, 3, 4, 5)
    """Depths of compositions; empty: single functions only."""
    forms: tuple[Form, ...] = Field(default=("nested", "flattened"), min_length=1)
    """How compositions are written."""
    test_pairs: tuple[Literal["with", "without"], ...] = ()
    """Compositions with at least one of the pairs that training held out (`task.held_out_pairs`), and without, one condition each, with
    a label; empty: drawn as if none were held out. For a control, whose training had all pairs, `set` names them."""
    examples: int = Field(default=100, ge=1, le=MOST_EXAMPLES)
    """Programs per condition: per function, depth and form. If there are fewer, each is used once."""

    @model_validator(mode="after")
    def _forms_of_something(self) -> CompositionDiagnostic:
        idle = [key for key in ("forms", "test_pairs") if getattr(self, key) != type(self).model_fields[key].default]
        if idle and not self.depths:
            raise ValueError(f"{idle[0]} does nothing without depths: remove it, or give depths")
        if self.test_pairs and min(self.depths) < 2:
            raise ValueError("test_pairs needs depths of at least 2: one function is no pair")
        return self

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        if not isinstance(data.task, CompositionTask):
            raise ConfigError(f"diagnostic composition: needs data.task.kind composition, not {data.task.kind}")
        if self.test_pairs:
            check_test_pairs(self.kind, data.task, split)
        if data.task.parallel > 1 and self.depths:
            raise ConfigError(
                f"diagnostic composition: programs of {data.task.parallel} parallel lines answer with their last line alone, which "
                "says nothing of compositions: write `depths: []`, or `set.task.parallel: 1`"
            )
        conditions, empty = [], []
        for family in self.families:
            cells = []
            for task, labels in self._cells(data.task, family):
                cell = data.changed({f"task.{key}": value for key, value in task.items()}, "diagnostic composition")
                from_split, count = self._extent(cell.task, split, trained_on)
                if count:
                    cells.append((cell, count, from_split, labels))
                else:
                    empty.append(str(labels["function"] or f"{labels['form']}, depth {labels['depth']}"))
            for forcing in self.forcing:
                conditions += [
                    self.condition(cell, forcing, count, from_split, **labels)
                    for cell, count, from_split, labels in cells
                ]
        if empty:
            problem = f"diagnostic composition: no program of the {split} split is of {', '.join(empty)}"
            cure = "`split: all` evaluates every program, for a model that was trained on none of them"
            if not conditions:
                raise ConfigError(f"{problem}; {cure}")
            log.warning("%s, left out; %s", problem, cure)
        return conditions

    def _extent(self, task: Task, split: str, trained_on: Task | None) -> tuple[str, int]:
        if task.count("all") is None:
            return split, 0 if task.count(split) == 0 else self.examples
        split = "all" if trained_on is None else split  # a model that was not trained here has seen none
        return split, min(self.examples, task.count(split) or 0)

    def _cells(self, trained: CompositionTask, family: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        task: dict[str, Any] = {"family": family}
        functions = self.functions
        if family == trained.family:
            functions = functions or trained.functions
        else:
            task |= {"held_out_functions": (), "held_out_pairs": ()}
        for name in functions or FAMILIES[family].functions:
            labels = {"family": family, "form": ATOMIC, "depth": 1, "function": name}
            yield {**task, "functions": (name,), "depth": 1, "flatten": trained.flatten}, labels
        for form, depth, pairs in itertools.product(self.forms, self.depths, self.test_pairs or (None,)):
            pair_label = {} if pairs is None else {PAIRS.name: pairs}
            labels = {"family": family, "form": form, "depth": depth, "function": "", **pair_label}
            yield {**task, "functions": functions, "depth": depth, "flatten": form == "flattened", **pair_label}, labels

    @classmethod
    def sections(cls, conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
        scored = [condition for condition in conditions if condition["right"] is not None]
        if all(condition["labels"]["form"] == ATOMIC for condition in scored):
            return []
        title = "Compositions: observed, and as single calls let expect"
        figure = Section(title, draw=partial(composition_figure, records), note=EXPECTED)
        return [figure, Section(f"{title}, in numbers", rows=expectation_table(records))]


class _Group(NamedTuple):
    """Records of a run, family and forcing; `every`: of all forcings."""

    run: str
    family: str
    forcing: str
    rows: pd.DataFrame
    every: pd.DataFrame


def _groups(records: pd.DataFrame) -> list[_Group]:
    """Group records by run, family, forcing, and held-out pairs if labelled.

    Single functions, which have no pairs, are in both groups.
    """
    labelled = records if PAIRS.name in records else records.assign(**{PAIRS.name: ""})
    pairs_of = labelled[PAIRS.name].fillna("")
    return [
        _Group(run, f"{family}, {pairs} held-out pairs" if pairs else family, str(forcing), of_forcing, rows)
        for pairs in sorted({*pairs_of} - {""}) or [""]
        for (run, family), rows in records[pairs_of.isin([pairs, ""])].groupby(["run", "family"], sort=False)
        for forcing, of_forcing in answered(rows).groupby("forcing", sort=False)
    ]


def composition_figure(records: pd.DataFrame) -> Figure:
    from remedy.eval.tables import plotting

    groups = _groups(records)
    figure, axes = plotting.panels(len(groups))
    for panel, group in zip(axes, groups):
        published = published_line(group.rows)
        panel.plot(list(published), list(published.values()), "k--", label=PUBLISHED)
        plotting.line(panel, corrected_line(group.rows), CORRECTED, 4, ":")
        forms = sorted(group.rows.groupby("form"), key=lambda pair: rank("form", pair[0]))
        for number, (form, rows) in enumerate(forms):
            plotting.line(panel, _observed(rows), str(form), number)
            true_inputs = given_true_inputs(group.every[group.every["form"] == form])
            plotting.line(panel, true_inputs, f"{GIVEN}, {form}", number, ":")
        by_depth = {depth: baselines.baselines(rows) for depth, rows in group.rows.groupby("depth")}
        baselines.draw(
            panel, baselines.along((depth, {"baselines": estimates}) for depth, estimates in by_depth.items())
        )
        plotting.numbers(panel, sorted({*published, *by_depth}))
        plotting.rates(panel)
        panel.set(xlabel="depth", title=f"{group.run}\n{group.family}, {group.forcing}")
    axes[0].set_ylabel("answers right")
    plotting.legend(figure, axes)
    return figure


def expectation_table(records: pd.DataFrame) -> Rows:
    table: Rows = [
        ["Run", "Family", "Forcing", "Form", "Depth", "Observed", PUBLISHED, CORRECTED, GIVEN, EVERY_FRAME, WITHOUT]
    ]
    for group in _groups(records):
        published, corrected = published_line(group.rows), corrected_line(group.rows)
        for form, rows in group.rows[group.rows["form"] != ATOMIC].groupby("form"):
            same_form = group.every[group.every["form"] == form]
            single = (given_true_inputs(same_form), every_frame_right(same_form, group.forcing))
            for depth, observed in _observed(rows).items():
                expected = f"{published[depth]:.0%}" if depth in published else ""
                lines = [_shown(line.get(depth)) for line in (corrected, *single)]
                without = baselines.best([{"baselines": baselines.baselines(rows[rows["depth"] == depth])}])
                names = [group.run, group.family, group.forcing, str(form), str(depth)]
                table.append([*names, _shown(observed), expected, *lines, without])
    return table


def _observed(rows: pd.DataFrame) -> Line:
    return {int(depth): rate(of_depth["right"], of_depth["cluster"])[:3] for depth, of_depth in rows.groupby("depth")}


def _shown(estimate: tuple[float, float, float] | None) -> str:
    return "" if estimate is None else f"{estimate[0]:.0%}\n{interval(estimate[1], estimate[2])}"
