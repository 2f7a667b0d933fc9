"""Diagnostic of permutation programs: accuracy by horizon and forcing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from pydantic import Field

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks import Task
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.data_gen.tasks.permutation_programs import move_table
from remedy.data_gen.traces.reveal import DIFFS, RevealConfig
from remedy.eval.diagnostics.condition import (
    DIAGNOSTICS,
    MOST_EXAMPLES,
    PAIRS,
    Condition,
    Diagnostic,
    check_test_pairs,
)
from remedy.eval.records.schema import LabelValue, label
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import BAR
from remedy.eval.tables.sections import Section, in_order, joined, text, title, varying
from remedy.settings import ConfigError

if TYPE_CHECKING:
    import pandas as pd

LENGTH = label("length", "Commands of a permutation program.")
HORIZON = label(
    "horizon",
    "Commands since the last state that shows all variables, at most: what a model has to follow by itself. All of a program's where "
    "its states show one variable, or only the first and the last are kept.",
    along=("length",),
    asked=True,
)
REPERTOIRE = label(
    "repertoire",
    "Different commands that a permutation program's are drawn from. Of conditions that are told apart by it; their programs are not "
    "the same, so that no comparison pairs them.",
    asked=True,
)


@DIAGNOSTICS.register("permutation")
class PermutationDiagnostic(Diagnostic):
    """Final-state accuracy by horizon and forcing."""

    title = "Permutation programs"
    labels = (LENGTH, HORIZON, REPERTOIRE, PAIRS)
    axis = "horizon"

    kind: Literal["permutation"] = "permutation"
    """The diagnostic."""
    lengths: tuple[int, ...] = Field(default=(8, 16, 32, 64, 128), min_length=1)
    """Numbers of commands, one condition each."""
    reveals: tuple[dict[str, Any], ...] = ()
    """Changes of `data.reveal`, one condition each, such as `{spacing: 4, frames: shown}`; empty: that of the data configuration."""
    repertoires: tuple[Annotated[int, Field(strict=True)], ...] = ()
    """Numbers of different commands in a program, one condition each, with a label; empty: that of the data configuration."""
    test_pairs: tuple[Literal["with", "without"], ...] = ()
    """Programs with at least one of the pairs that training held out (`task.held_out_pairs`), and without, one condition each, with a
    label; empty: programs drawn as if none were held out. For a control, whose training had all pairs, `set` names their number."""
    examples: int = Field(default=100, ge=1, le=MOST_EXAMPLES)
    """Programs per condition."""

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        if data.task.kind != "permutation":
            raise ConfigError(f"diagnostic permutation: needs data.task.kind permutation, not {data.task.kind}")
        if self.test_pairs:
            check_test_pairs(self.kind, data.task, split)
        conditions = []
        for reveal, repertoire, pairs in itertools.product(
            self.reveals or ({},),
            self.repertoires or (None,),
            self.test_pairs or (None,),
        ):
            variants = {REPERTOIRE.name: repertoire, PAIRS.name: pairs}
            given_labels = {name: value for name, value in variants.items() if value is not None}
            settings = {f"reveal.{key}": value for key, value in reveal.items()}
            settings |= {f"task.{name}": value for name, value in given_labels.items()}
            for length in self.lengths:
                changed = data.changed({**settings, "task.length": length}, "diagnostic permutation")
                if pairs == "with" and (most := _most_with_pairs(changed.task)) < self.examples:
                    raise ConfigError(
                        f"diagnostic permutation: length {length} gives at most {most} test programs with a held-out pair, and "
                        f"{self.examples} are asked for: give longer programs, or fewer examples"
                    )
                labels = {"length": length, **given_labels}
                if changed.reveal.at is None:  # otherwise each program has its own horizon
                    labels["horizon"] = horizon(length, changed.reveal)
                conditions += [
                    self.condition(changed, forcing, self.examples, split, **labels) for forcing in self.forcing
                ]
        return conditions

    @classmethod
    def sections(cls, conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
        return solved_horizon_section(cls.title, conditions)


def _most_with_pairs(task: Task) -> int:
    """Bound the number of test programs with a held-out pair."""
    assert isinstance(task, PermutationTask)
    length, values = task.length_range()[1], 10**task.n
    # Pairs x positions x other commands x starting values, of which a tenth is the test split's.
    return int(task.held_out_pairs * (length - 1) * len(move_table(task.n, task.moves)) ** (length - 2) * values) // 10


def horizon(length: int, reveal: RevealConfig) -> int:
    """Return the most commands between two states that show all variables."""
    shows_all = reveal.locals in ("full", *DIFFS) and not reveal.answer_only
    return int(min(reveal.spacing, length)) if shows_all else length


AXIS = "horizon"
HEAD = f"Horizon at {BAR:.0%}"
NOTE = (
    "Of each run, the largest horizon (commands since the last state that shows all variables) at which the lower end of the 95 % "
    f"interval is at least {BAR:.0%}; in small print, what was tested, and smaller horizons that some run does not reach."
)


class SolvedHorizon(TypedDict):
    """The horizon up to which a run tracks the state."""

    run: str
    labels: dict[str, LabelValue]
    """Labels that tell its conditions from others, except length and horizon."""
    solved: int | None
    """The largest horizon whose interval's lower end reaches `BAR`, if any."""
    tested: list[int]
    """All tested horizons."""
    failed_below: list[int]
    """Horizons below the solved one that do not reach `BAR`."""


def solved_horizons(conditions: Sequence[ConditionSummary]) -> list[SolvedHorizon]:
    """Find each run's solved horizons, at all lengths together."""
    scored = [
        condition
        for condition in in_order(conditions)
        if AXIS in condition["labels"] and condition["right"] is not None
    ]
    names = [name for name in varying(scored) if name not in (AXIS, LENGTH.name)]
    lines: dict[tuple[Any, ...], list[tuple[int, Any]]] = {}
    for condition in scored:
        labels: Any = condition["labels"]
        line = lines.setdefault((condition["run"], *(labels.get(name, "") for name in names)), [])
        line.append((int(labels[AXIS]), condition["right"]))
    results: list[SolvedHorizon] = []
    for (run, *values), rates in lines.items():
        missed = {horizon for horizon, right in rates if right.low < BAR}
        tested = sorted({horizon for horizon, _ in rates})
        solved = max((horizon for horizon in tested if horizon not in missed), default=None)
        below = [horizon for horizon in sorted(missed) if solved is not None and horizon < solved]
        labels = dict(zip(names, values))
        results.append({"run": run, "labels": labels, "solved": solved, "tested": tested, "failed_below": below})
    return results


def solved_horizon_section(name: str, conditions: Sequence[ConditionSummary]) -> list[Section]:
    variants = {condition["run"]: condition["variant"] for condition in conditions}
    results = solved_horizons(conditions)
    by_recipe: dict[tuple[str, ...], list[SolvedHorizon]] = {}
    for result in results:
        by_recipe.setdefault((variants[result["run"]], *map(text, result["labels"].values())), []).append(result)
    if not results:
        return []
    rows = [["Recipe", *map(title, results[0]["labels"]), HEAD]]
    for key, runs in by_recipe.items():
        solved = ", ".join(str(result["solved"] or "none") for result in runs)
        missed = sorted({horizon for result in runs for horizon in result["failed_below"]})
        exceptions = f"not always {', '.join(map(str, missed))}" if missed else ""
        tested = f"tested: {', '.join(map(str, runs[0]['tested']))}"
        rows.append([*key, joined("\n", solved, tested, exceptions)])
    return [Section(f"{name}: {HEAD.lower()}", rows=rows, note=NOTE)]
