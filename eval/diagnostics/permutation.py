"""Does a model track a permutation, by how many commands it goes without seeing the whole state, and by what it is fed?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

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
from remedy.eval.tables.sections import Rows, Section, in_order, text, title, varying
from remedy.settings import ConfigError

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
    spacings: tuple[float, ...] = ()
    """Spacings of states, one condition each; `.inf`: only the first and the last. Empty: that of the data configuration."""
    locals: tuple[Literal["full", "diff", "changes", "one_in_turn", "one_at_random"], ...] = ()
    """Contents of states, one condition each; empty: that of the data configuration."""
    repertoires: tuple[Annotated[int, Field(strict=True)], ...] = ()
    """Numbers of different commands in a program, one condition each, with a label; empty: that of the data configuration."""
    test_pairs: tuple[Literal["with", "without"], ...] = ()
    """Programs with at least one of the pairs that training held out (`task.held_out_pairs`), and without, one condition each, with a
    label; empty: programs drawn as if none were held out. For a control, whose training had all pairs, `set` names their number."""
    examples: int = Field(default=100, ge=1, le=MOST_EXAMPLES)
    """Programs per condition."""

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        """Lengths by spacing, locals and forcing."""
        if data.task.kind != "permutation":
            raise ConfigError(f"diagnostic permutation: needs data.task.kind permutation, not {data.task.kind}")
        if self.test_pairs:
            check_test_pairs(self.kind, data.task, split)
        found = []
        for spacing, shown, repertoire, pairs in itertools.product(
            self.spacings or (data.reveal.spacing,),
            self.locals or (data.reveal.locals,),
            self.repertoires or (None,),
            self.test_pairs or (None,),
        ):
            asked = {REPERTOIRE.name: repertoire, PAIRS.name: pairs}
            own = {name: value for name, value in asked.items() if value is not None}
            settings = {
                "reveal.spacing": spacing,
                "reveal.locals": shown,
                **{f"task.{name}": value for name, value in own.items()},
            }
            revealed = data.changed(settings, "diagnostic permutation")
            for length in self.lengths:
                changed = revealed.changed({"task.length": length}, "diagnostic permutation")
                if pairs == "with" and (most := _most_with_pairs(changed.task)) < self.examples:
                    raise ConfigError(
                        f"diagnostic permutation: length {length} gives at most {most} test programs with a held-out pair, and "
                        f"{self.examples} are asked for: give longer programs, or fewer examples"
                    )
                labels = {"length": length, **own}
                if changed.reveal.at is None:  # else each program has its own
                    labels["horizon"] = horizon(length, changed.reveal)
                found += [self.condition(changed, forcing, self.examples, split, **labels) for forcing in self.forcing]
        return found

    @classmethod
    def headline(cls, conditions: Sequence[ConditionSummary]) -> list[Section]:
        """The solved horizon of every run."""
        return solved_horizon_section(cls.title, conditions)


def _most_with_pairs(task: Task) -> int:
    """Bound the test programs with a held-out pair: a tenth of pairs by places by other commands by starting values."""
    assert isinstance(task, PermutationTask)
    length, values = task.length_range()[1], 10**task.n
    return int(task.held_out_pairs * (length - 1) * len(move_table(task.n, task.moves)) ** (length - 2) * values) // 10


def horizon(length: int, reveal: RevealConfig) -> int:
    """The most commands of a program between two states that show all variables. What a diff leaves out has been shown."""
    whole = reveal.locals in ("full", *DIFFS) and not reveal.answer_only
    return int(min(reveal.spacing, length)) if whole else length


AXIS = "horizon"
NOTE = (
    "Of each run, the largest horizon (commands since the last state that shows all variables) at which the lower end of the 95 % "
    f"interval is at least {BAR:.0%}; in small print, what was tested, and smaller horizons that some run does not reach."
)


class SolvedHorizon(TypedDict):
    """Horizon up to which one run follows a state, at all lengths that have it."""

    run: str
    labels: dict[str, LabelValue]
    """The labels that tell its conditions from others, but for length and horizon."""
    solved: int | None
    """The largest horizon whose interval's lower bound is at least `BAR`; None if there is none."""
    tested: list[int]
    """All horizons that were tested."""
    failed_below: list[int]
    """Those below the solved one that do not reach the bar themselves."""


def solved_horizons(conditions: Sequence[ConditionSummary]) -> list[SolvedHorizon]:
    """One for every run and set of its conditions that differ in nothing but length and horizon."""
    scored = [one for one in in_order(conditions) if AXIS in one["labels"] and one["right"] is not None]
    names = [name for name in varying(scored) if name not in (AXIS, LENGTH.name)]
    lines: dict[tuple[object, ...], list[ConditionSummary]] = {}
    for one in scored:
        lines.setdefault((one["run"], *(one["labels"].get(name, "") for name in names)), []).append(one)
    found: list[SolvedHorizon] = []
    for (run, *values), line in lines.items():
        missed = {int(one["labels"][AXIS]) for one in line if one["right"] and one["right"].low < BAR}
        tested = sorted({int(one["labels"][AXIS]) for one in line})
        solved = max((at for at in tested if at not in missed), default=None)
        below = [at for at in sorted(missed) if solved is not None and at < solved]
        labels: Any = dict(zip(names, values))
        found.append({"run": str(run), "labels": labels, "solved": solved, "tested": tested, "failed_below": below})
    return found


def solved_horizon_section(name: str, conditions: Sequence[ConditionSummary]) -> list[Section]:
    """A table of the solved horizons, a row for every recipe; nothing where nothing was scored."""
    variants = {one["run"]: one["variant"] for one in conditions}
    found: dict[tuple[str, ...], list[SolvedHorizon]] = {}
    for one in solved_horizons(conditions):
        found.setdefault((variants[one["run"]], *map(text, one["labels"].values())), []).append(one)
    rows: Rows = []
    for key, runs in found.items():
        solved = ", ".join(str(one["solved"] or "none") for one in runs)
        missed = sorted({at for one in runs for at in one["failed_below"]})
        but = f"not always {', '.join(map(str, missed))}" if missed else ""
        tested = f"tested: {', '.join(map(str, runs[0]['tested']))}"
        rows.append([*key, "\n".join(filter(None, [solved, tested, but]))])
    labels = [title(label) for one in solved_horizons(conditions)[:1] for label in one["labels"]]
    return (
        [Section(f"{name}: solved horizon", rows=[["Recipe", *labels, "Solved horizon"], *rows], note=NOTE)]
        if rows
        else []
    )
