"""Comparisons of a recipe, or a run, with its baseline on the same programs, and what they say of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import Field, field_validator, model_validator

from remedy.eval.decoding.forcings import fed_as
from remedy.eval.records import baselines
from remedy.eval.records.schema import LABELS, TRACE_COLUMNS, label_columns
from remedy.eval.stats import (
    BAR,
    MARGIN,
    Difference,
    Evidence,
    Question,
    Repeated,
    VerdictWord,
    compare,
    levels,
    over_seeds,
    weigh,
    word,
    word_of_runs,
)
from remedy.eval.stats.differences import RUNS_ON_BOTH, SEEDS_A_SIDE
from remedy.messages import suggest
from remedy.settings import ConfigError, Settings

Aim = Literal["token budget", "strings", "wrong action", "lost state", "forgetting", "any"]
ALONE = 0.05
"""The level of one comparison by itself."""


class Side(Settings):
    """The records of one variant, or one run, under one condition."""

    run: str
    """The name of a variant, which is all of its runs, or of one run."""
    where: dict[str, bool | int | float | str] = {}
    """The condition, by its labels: `{length: 64, forcing: action_forced}`."""


class Comparison(Settings):
    """A mitigation with its baseline."""

    mitigation: str
    """What reports call it."""
    failure: Aim = "any"
    """The failure that it is meant to cure."""
    baseline: Side
    """The records without it."""
    treatment: Side
    """The records with it."""
    margin: float = Field(default=MARGIN, gt=0, lt=1)
    """A treatment that loses less than this share of right answers is called as good (0.02: 2 points)."""
    solved_at: float | Literal["above chance"] = Field(default=BAR)
    """A training solves the task if its rate reaches this with the lower end of its 95 % interval; `above chance`: the best that is
    right without a model (a guess, the start given back, one answer for all)."""
    asks: tuple[Question, ...] = ()
    """What is asked of recipes: `solved`, how many trainings solve the task, or `rates`, whether their rates differ; of both, each is
    judged at half the level. By default rates from five seeds a side (six runs that are on both sides), the solved trainings below."""
    primary: bool = False
    """The one comparison that the experiment is made for: judged by itself, whatever the number of others."""

    @field_validator("solved_at")
    @classmethod
    def _share(cls, value: float | str) -> float | str:
        if not isinstance(value, str) and not 0 < value < 1:
            raise ValueError(f"{value} is no share between 0 and 1, and not 'above chance'")
        return value

    @field_validator("asks")
    @classmethod
    def _once(cls, value: tuple[Question, ...]) -> tuple[Question, ...]:
        if len(set(value)) < len(value):
            raise ValueError("name a question once")
        return value

    @model_validator(mode="after")
    def _diagnosis(self) -> Comparison:
        forcings = [side.where.get("forcing") for side in (self.baseline, self.treatment)]
        if all(isinstance(name, str) for name in forcings) and len({fed_as(str(name)) for name in forcings}) > 1:
            refuse_idle(self)
        return self


class Verdict(NamedTuple):
    """What a comparison says. `evidence`: the tests behind the word. `level`: what the word and the interval are judged at;
    `token_ratio`: tokens of the treatment's traces over the baseline's, NaN if none can be compared; `word`: of recipes where both
    sides have several seeds, else of these runs, None of a diagnosis, where the sides are fed different roles; `of_runs`: of these
    runs alone; `programs`: how many distinct ones the examples are; `without`: the best that is right on them without a model, in
    words, and `idle` whether the treatment has no more; `conditions`, `truncated`: of each side, the slugs of its conditions, and the
    share of examples that a limit cut; `remarks`: what is to be said of the sides, as lines; `refused`: why there is no word but
    inconclusive."""

    comparison: Comparison
    found: Difference
    baseline: Repeated
    treatment: Repeated
    evidence: Evidence
    level: float
    token_ratio: float
    word: VerdictWord | None
    of_runs: VerdictWord
    programs: int
    without: str
    idle: bool = False
    conditions: tuple[frozenset[str], ...] = ()
    truncated: tuple[float, ...] = ()
    remarks: tuple[str, ...] = ()
    refused: str = ""

    def judged(self, level: float) -> Verdict:
        """The same with its words, at a level."""
        sides = self.found, self.baseline, self.treatment
        margin = self.comparison.margin
        said = word(*sides, self.evidence, level, margin), word_of_runs(*sides, level, margin)
        if self.comparison.solved_at == "above chance":  # more than a guess is no failure gone
            said = _at_most_helped(said[0]), _at_most_helped(said[1])
        return self._replace(level=level, word=said[0], of_runs=said[1])


def decide(comparisons: Sequence[Comparison], records: pd.DataFrame, untrained: Collection[str] = ()) -> list[Verdict]:
    """Compare the two sides of each comparison on the programs that all of their runs have.

    The words hold together: all but the primary comparison share the level of one, by Holm's procedure. Diagnoses have no word.
    `untrained`: runs of models as they are, which no seed could have made others.

    Raises:
        ConfigError: a side names a run or label that the records do not have, no example is shared, several are primary, or rates are
            asked of too few seeds.
    """
    one_primary(comparisons)
    found = [_compared(comparison, records, untrained) for comparison in comparisons]
    sharing = [number for number, one in enumerate(found) if not (one.comparison.primary or one.word is None)]
    at = dict(zip(sharing, levels([found[number].evidence.p_value for number in sharing], ALONE)))
    return [one if one.word is None else one.judged(at.get(number, ALONE)) for number, one in enumerate(found)]


def _at_most_helped(said: VerdictWord) -> VerdictWord:
    return VerdictWord.HELPED if said is VerdictWord.FIXED else said


def one_primary(comparisons: Sequence[Comparison]) -> None:
    """Raises a ConfigError if several comparisons are primary."""
    primary = [comparison.mitigation for comparison in comparisons if comparison.primary]
    if len(primary) > 1:
        raise ConfigError(f"comparisons: {primary[0]!r} and {primary[1]!r} are both primary: keep one")


def refuse_idle(comparison: Comparison) -> None:
    """Raises a ConfigError if a diagnosis has settings that only a verdict takes."""
    idle = [key for key in ("primary", "margin", "solved_at", "asks") if key in comparison.model_fields_set]
    if idle:
        raise ConfigError(
            f"comparison {comparison.mitigation!r}: {idle[0]} does nothing: its sides are fed different roles, which makes it a "
            "diagnosis without a verdict"
        )


def _compared(comparison: Comparison, records: pd.DataFrame, untrained: Collection[str]) -> Verdict:
    """The comparison by itself; its word is still to be found, unless it is a diagnosis."""
    before, after = sides(comparison, records)
    diagnosis = _feeding(before) != _feeding(after)
    if diagnosis:
        refuse_idle(comparison)
    examples = before.drop_duplicates(PAIRED)
    clusters = examples["cluster"].tolist()
    outcomes = _by_run(before), _by_run(after)
    standing = set(before["run"]) <= set(untrained), set(after["run"]) <= set(untrained)
    found = compare(*outcomes, clusters, set(before["run"]) == set(after["run"]), standing)
    trivial = [{"baselines": baselines.baselines(examples)}]
    without, (best, share) = baselines.best(trivial), baselines.highest(trivial)
    if comparison.solved_at == "above chance" and not best:
        raise ConfigError(
            f"comparison {comparison.mitigation!r}: solved_at: no guess is known for these programs: give a share"
        )
    solved_at = share if isinstance(comparison.solved_at, str) else comparison.solved_at
    baseline, treatment = (over_seeds(side, clusters, solved_at) for side in outcomes)
    if comparison.asks and not found.repeated:
        raise ConfigError(
            f"comparison {comparison.mitigation!r}: asks does nothing: a side has one seed, so that nothing is asked of recipes"
        )
    try:
        evidence = weigh(found, baseline, treatment, comparison.asks)
    except ValueError:
        raise ConfigError(
            f"comparison {comparison.mitigation!r}: asks: rates cannot be tested with {found.seeds[1]} seeds against {found.seeds[0]}: "
            f"train {SEEDS_A_SIDE} a side ({RUNS_ON_BOTH} where each run is on both sides), or ask for `solved`"
        ) from None
    ratio = _token_ratio(_paired(before, after))
    idle = bool(best) and treatment.estimate.mean <= share
    inconclusive = VerdictWord.INCONCLUSIVE
    return Verdict(
        comparison,
        found,
        baseline,
        treatment,
        evidence,
        ALONE,
        ratio,
        None if diagnosis else inconclusive,
        inconclusive,
        examples["example"].nunique(),
        without,
        idle,
        tuple(frozenset(side["condition"]) for side in (before, after)),
        tuple(float(side["truncated"].mean()) for side in (before, after)),
    )


PAIRED = ["example", "index", "split", "cluster"]
"""What names one example in every run."""


def sides(comparison: Comparison, records: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The records of both sides on the examples that all of their runs have, run by run, examples in the same order.

    Raises:
        ConfigError: a side names a run or label that the records do not have, or no example is shared.
    """
    before, after = (_select(side, records, comparison) for side in (comparison.baseline, comparison.treatment))
    runs = before["run"].nunique() + after["run"].nunique()
    counts = pd.concat([before, after]).groupby(PAIRED).size()
    shared = counts[counts == runs].index
    if shared.empty:
        raise ConfigError(
            f"comparison {comparison.mitigation!r}: the two sides share no example; "
            "they are paired by program, and another task, seed, length or repertoire draws others"
        )
    found = [
        side[side.set_index(PAIRED).index.isin(shared)].sort_values(["place", *PAIRED]) for side in (before, after)
    ]
    return found[0], found[1]


def merged(comparison: Comparison, records: pd.DataFrame) -> pd.DataFrame:
    """The records of both sides, one row for each example and pair of runs, as `..._before` and `..._after`. Runs are paired in
    their order, as many as the side with fewer has; a run on both sides with itself.

    Raises:
        ConfigError: as `sides`.
    """
    return _paired(*sides(comparison, records))


def _paired(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    return before.merge(after, on=["place", *PAIRED], suffixes=("_before", "_after"), validate="1:1")


def _feeding(side: pd.DataFrame) -> set[str]:
    """The forcings of a side by what they feed."""
    return set(map(fed_as, side["forcing"]))


def _by_run(side: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Right answers (runs, examples)."""
    right: npt.NDArray[np.float64] = side["right"].to_numpy(dtype=float)
    return right.reshape(side["run"].nunique(), -1)


def _token_ratio(both: pd.DataFrame) -> float:
    # Where either side was not written, the tokens compare nothing.
    written = both[(both["cost_before"] > 0) & (both["cost_after"] > 0)]
    return float(written["cost_after"].sum() / written["cost_before"].sum()) if len(written) else math.nan


def _select(side: Side, records: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """One row for each run and example; `place` numbers the runs of the side."""
    where = f"comparison {comparison.mitigation!r}"
    chosen = records[(records["variant"] == side.run) | (records["run"] == side.run)]
    if chosen.empty:
        names = list(dict.fromkeys([*records["variant"], *records["run"]]))
        raise ConfigError(f"{where}: no records of a variant or run {side.run!r}; {suggest(side.run, names)}")
    for key, value in side.where.items():
        if key not in records:
            raise ConfigError(f"{where}: records have no label {key!r}; {suggest(key, map(str, records.columns))}")
        chosen = chosen[chosen[key] == value]
    for name in (
        one.name for one in LABELS.values() if one.asked and one.name in chosen and one.name not in side.where
    ):
        if chosen[name].isna().any():
            chosen = chosen[chosen[name].isna()]  # none is named: the checkpoint's own
    if chosen.empty:
        raise ConfigError(f"{where}: {side.run!r} has no records where {side.where}")
    if chosen.duplicated(["run", *PAIRED]).any():
        names = ["diagnostic", *label_columns(chosen.drop(columns="variant"))]
        free = [key for key in names if chosen[key].nunique() > 1]
        raise ConfigError(f"{where}: {side.where} leaves several conditions of {side.run!r}; also fix {free}")
    if chosen["right"].isna().any():
        forcing = chosen[chosen["right"].isna()]["forcing"].iloc[0]
        raise ConfigError(
            f"{where}: {side.run!r} under forcing {forcing} has no right or wrong answers: what they are read from is fed. Its rates "
            "per frame are in the report; compare conditions in which the model writes states and values itself"
        )
    places = {run: place for place, run in enumerate(sorted(chosen["run"].unique()))}
    chosen = chosen.assign(cost=chosen[TRACE_COLUMNS].sum(axis=1), place=chosen["run"].map(places))
    return chosen[
        [
            *("run", "place", *PAIRED, "condition", "right", "truncated", "cost", "failure", "forcing"),
            *("chance", "start_right", "true_answer"),
        ]
    ]
