"""Comparisons that an experiment declares: mitigations with their baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from remedy.eval.decoding.forcings import fed_as
from remedy.eval.stats import BAR, MARGIN, Question
from remedy.eval.stats.differences import RUNS_ON_BOTH, SEEDS_A_SIDE, too_few
from remedy.settings import ConfigError, Settings

Aim = Literal["token budget", "strings", "wrong action", "lost state", "forgetting", "any"]
Metric = Literal["answer", "state", "changed_state", "action"]


CHOOSES_PROGRAMS = ("length", "depth", "test_pairs")
"""Labels of which no two values have a program in common."""


class Side(Settings):
    """The records of one variant, or one run, under one condition."""

    run: str
    """The name of a variant (all its runs) or of one run."""
    where: dict[str, bool | int | float | str] = {}
    """The condition, by its labels: `{length: 64, forcing: action_forced}`."""


class Comparison(Settings):
    """A mitigation with its baseline."""

    mitigation: str
    """Its name in reports."""
    failure: Aim = "any"
    """The failure that it should mitigate."""
    metric: Metric = "answer"
    """The quantity to compare: right answers, or by frame right states, those of them that change something, or actions."""
    baseline: Side
    """The records without it."""
    treatment: Side
    """The records with it."""
    margin: float = Field(default=MARGIN, gt=0, lt=1)
    """A treatment is *as good* if it loses less than this (0.02: 2 points)."""
    solved_at: Annotated[float, Field(gt=0, lt=1)] | Literal["above chance"] = BAR
    """A run solves the task if the lower end of its rate's 95 % interval reaches this; `above chance`: the best rate without a model
    (a guess, the start given back, one answer for all)."""
    asks: Question | None = None
    """The test of recipes: `solved` compares how many runs solve the task, `rates` compares their rates. By default `rates` from five
    seeds a side (six for paired runs), `solved` below."""
    primary: bool = False
    """The experiment's main comparison, judged at the full level whatever the number of others."""

    @model_validator(mode="after")
    def _fits(self) -> Comparison:
        for key in CHOOSES_PROGRAMS:
            first, second = (side.where.get(key) for side in (self.baseline, self.treatment))
            if None not in (first, second) and first != second:
                raise ConfigError(
                    f"{self.where}: the sides have no program in common ({key} {second} against {first}), and are paired by "
                    "program: compare two runs under one condition"
                )
        forcings = [side.where.get("forcing") for side in (self.baseline, self.treatment)]
        if all(isinstance(name, str) for name in forcings) and len({fed_as(str(name)) for name in forcings}) > 1:
            refuse_idle(self)
        if self.metric != "answer" and self.solved_at == "above chance":
            raise ConfigError(
                f"{self.where}: solved_at: no guess is known for a {self.metric.replace('_', ' ')}: give a share"
            )
        return self

    @property
    def where(self) -> str:
        return f"comparison {self.mitigation!r}"


def one_primary(comparisons: Sequence[Comparison]) -> None:
    """Raise a ConfigError if several comparisons are primary."""
    primary = [comparison.mitigation for comparison in comparisons if comparison.primary]
    if len(primary) > 1:
        raise ConfigError(f"comparisons: {primary[0]!r} and {primary[1]!r} are both primary: keep one")


def check_seeds(comparison: Comparison, seeds: tuple[int, int], of_recipes: bool, matched: bool) -> None:
    """Raise a ConfigError if a comparison asks what its seeds cannot answer."""
    if comparison.asks and not of_recipes:
        raise ConfigError(
            f"{comparison.where}: asks does nothing: a side has one seed, so that nothing is asked of recipes"
        )
    if comparison.asks == "rates" and too_few(seeds, matched):
        raise ConfigError(
            f"{comparison.where}: asks: rates cannot be tested with {seeds[1]} seeds against {seeds[0]}: "
            f"train {SEEDS_A_SIDE} a side ({RUNS_ON_BOTH} where each run is on both sides), or ask for `solved`"
        )


def refuse_idle(comparison: Comparison) -> None:
    """Raise a ConfigError if a diagnosis has settings of a verdict."""
    for key in ("primary", "margin", "solved_at", "asks"):
        if key in comparison.model_fields_set:
            raise ConfigError(
                f"{comparison.where}: {key} does nothing: its sides are fed different roles, which makes it a diagnosis without "
                "a verdict"
            )
