"""Verdicts on recipes or runs against their baselines on the same programs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import pandas as pd

from remedy.eval.decoding.forcings import fed_as
from remedy.eval.records.schema import FRAMES, LABELS, TRACE_COLUMNS, label_columns, with_changed
from remedy.eval.report.comparison import Comparison, Side, check_seeds, one_primary, refuse_idle
from remedy.eval.stats import (
    Difference,
    Evidence,
    RecipeRate,
    VerdictWord,
    compare,
    compute_evidence,
    levels,
    over_seeds,
    word,
    word_of_runs,
)
from remedy.eval.tables.groups import PAIRED, against_rule, outcomes_of
from remedy.messages import suggest
from remedy.settings import ConfigError

ALONE = 0.05
"""The level of one comparison by itself."""


class Verdict(NamedTuple):
    """Outcome of a comparison; pairs are (baseline, treatment).

    `token_ratio`: tokens of true traces, treatment over baseline (NaN: not comparable); `written_ratio`: of written
    tokens, NaN if any are fed. `word`: None for a diagnosis. `programs`: distinct ones. `best_rule`: name and rate of
    the best rule without a model; `above_rule`: treatment less rule. `conditions`: slugs. `truncated`: shares cut by a
    limit. `moved`: counts by failure class with the baseline (rows) and the treatment, "" if right. `refused`: why the
    sides cannot be compared.
    """

    comparison: Comparison
    difference: Difference
    baseline: RecipeRate
    treatment: RecipeRate
    evidence: Evidence
    token_ratio: float
    written_ratio: float
    word: VerdictWord | None
    programs: int
    best_rule: tuple[str, float]
    above_rule: Difference | None
    runs: tuple[frozenset[str], ...]
    conditions: tuple[frozenset[str], ...]
    truncated: tuple[float, ...]
    moved: pd.DataFrame
    of_runs: VerdictWord = VerdictWord.INCONCLUSIVE
    level: float = ALONE
    remarks: tuple[str, ...] = ()
    refused: str = ""
    unplanned: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        return self.difference.interval(self.level)


def compute_verdicts(
    comparisons: Sequence[Comparison],
    records: pd.DataFrame,
    untrained: Collection[str] = (),
) -> list[Verdict]:
    """Judge comparisons on programs that all runs of both sides have.

    All but the primary share one level (Holm). `untrained`: runs whose model has no seed.

    Raises:
        ConfigError: records lack a run or label, share no example or do not fit the metric; several comparisons are
            primary; or rates are asked of too few seeds.
    """
    one_primary(comparisons)
    if not comparisons:
        return []
    pair = records.groupby(PAIRED).ngroup()  # numbers examples, in the order of their names
    numbered = with_changed(records).assign(pair=pair, cost=records[TRACE_COLUMNS].sum(axis=1))
    verdicts = [_compared(comparison, numbered, untrained) for comparison in comparisons]
    sharing = [n for n, verdict in enumerate(verdicts) if not (verdict.comparison.primary or verdict.word is None)]
    level = dict(zip(sharing, levels([verdicts[n].evidence.p_value for n in sharing], ALONE)))
    return [
        verdict if verdict.word is None else _worded(verdict, level.get(n, ALONE)) for n, verdict in enumerate(verdicts)
    ]


def _worded(verdict: Verdict, level: float) -> Verdict:
    sides, margin = (verdict.difference, verdict.baseline, verdict.treatment), verdict.comparison.margin
    words = [word(*sides, verdict.evidence, level, margin), word_of_runs(*sides, level, margin)]
    rule, right_without = verdict.best_rule
    unknown_rule = not rule and verdict.comparison.metric in FRAMES  # of records older than its columns
    # A treatment cannot lose what is right without a model.
    if unknown_rule or verdict.baseline.estimate.low <= right_without:
        words = [VerdictWord.INCONCLUSIVE if each is VerdictWord.AS_GOOD else each for each in words]
    if verdict.comparison.solved_at == "above chance":  # better than a guess does not mean that the failure is gone
        words = [VerdictWord.HELPED if each is VerdictWord.FIXED else each for each in words]
    return verdict._replace(level=level, word=words[0], of_runs=words[1])


def _compared(comparison: Comparison, records: pd.DataFrame, untrained: Collection[str]) -> Verdict:
    """Make a wordless verdict."""
    sides = before, after = _sides(comparison, records)
    diagnosis = len({frozenset(map(fed_as, side["forcing"].unique())) for side in sides}) > 1
    if diagnosis:
        refuse_idle(comparison)
    # Runs are paired in order, as many as the smaller side has; a run on both sides with itself.
    keys = ["run_number", "pair"]
    second = after[[*keys, "cost", "written_tokens", "failure"]]
    both = before.merge(second, on=keys, suffixes=("_before", "_after"), validate="1:1")
    # Fed tokens are not written: only free traces can be compared in length.
    free = {fed_as(name) for side in sides for name in side["forcing"].unique()} == {"free"}
    share, count = FRAMES.get(comparison.metric, ("right", ""))
    if count and not before[count].any():
        raise ConfigError(f"{comparison.where}: these programs have no {count.replace('_', ' ')}")
    name, above = against_rule(after, share, count) or ("", None)
    return Verdict(
        comparison,
        *_rates(comparison, before, after, untrained, above and above.baseline),
        token_ratio=_ratio(both, "cost"),
        written_ratio=_ratio(both, "written_tokens") if free else math.nan,
        word=None if diagnosis else VerdictWord.INCONCLUSIVE,
        programs=before.loc[before[count] > 0 if count else before.index, "example"].nunique(),
        best_rule=(name, above.baseline if above else 0.0),
        above_rule=above,
        runs=tuple(frozenset(side["run"].unique()) for side in sides),
        conditions=tuple(frozenset(side["condition"].unique()) for side in sides),
        truncated=tuple(float(side["truncated"].mean()) for side in sides),
        moved=pd.crosstab(both["failure_before"], both["failure_after"]),
    )


def _ratio(both: pd.DataFrame, column: str) -> float:
    """Divide sums over pairs with positive values, treatment by baseline."""
    before, after = both[f"{column}_before"], both[f"{column}_after"]
    positive = (before > 0) & (after > 0)
    return float(after[positive].sum() / before[positive].sum()) if positive.any() else math.nan


def _rates(
    comparison: Comparison,
    before: pd.DataFrame,
    after: pd.DataFrame,
    untrained: Collection[str],
    without: float | None,
) -> tuple[Difference, RecipeRate, RecipeRate, Evidence]:
    where, (share, count) = comparison.where, FRAMES.get(comparison.metric, ("right", ""))
    if count and (pd.concat([before, after]).groupby("pair")[count].nunique() > 1).any():
        raise ConfigError(
            f"{where}: metric {comparison.metric}: the sides show other numbers of {count}, whose shares cannot be paired"
        )
    (first, clusters), (second, _) = (outcomes_of(side, share, count) for side in (before, after))
    runs = [set(side["run"].unique()) for side in (before, after)]
    without_seeds = runs[0] <= set(untrained), runs[1] <= set(untrained)
    difference = compare(first, second, clusters, runs[0] == runs[1], without_seeds)
    solved_at = without if isinstance(comparison.solved_at, str) else comparison.solved_at
    if solved_at is None:
        raise ConfigError(f"{where}: solved_at: no guess is known for these programs: give a share")
    baseline, treatment = (over_seeds(side, clusters, solved_at) for side in (first, second))
    check_seeds(comparison, difference.seeds, difference.of_recipes, difference.matched)
    return difference, baseline, treatment, compute_evidence(difference, baseline, treatment, comparison.asks)


def _sides(comparison: Comparison, records: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Select both sides' records of shared examples, in the same order."""
    before, after = (_select(side, records, comparison) for side in (comparison.baseline, comparison.treatment))
    # An example is shared if every run of both sides has a row of it.
    counts = pd.concat([before["pair"], after["pair"]]).value_counts()
    shared = counts.index[counts == before["run"].nunique() + after["run"].nunique()]
    if shared.empty:
        raise ConfigError(
            f"{comparison.where}: the two sides share no example; "
            "they are paired by program, and another task, seed, length or repertoire draws others"
        )
    before, after = (side[side["pair"].isin(shared)].sort_values(["run_number", "pair"]) for side in (before, after))
    return before, after


def _select(side: Side, records: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """Select one record for each run and example; `run_number` numbers the runs."""
    where = comparison.where
    labels = [name for name in label_columns(records) if name not in ("pair", "cost")]
    # One selection of whole rows, since records have many columns.
    selected = ((records["variant"] == side.run) | (records["run"] == side.run)).fillna(False)
    if not selected.any():
        names = list(dict.fromkeys([*records["variant"].unique(), *records["run"].unique()]))
        raise ConfigError(f"{where}: no records of a variant or run {side.run!r}; {suggest(side.run, names)}")
    for key, value in side.where.items():
        if key not in records:
            raise ConfigError(f"{where}: records have no label {key!r}; {suggest(key, map(str, records.columns))}")
        selected &= (records[key] == value).fillna(False)
    for name in labels:
        if name in LABELS and LABELS[name].asked and name not in side.where:
            unnamed = records[name].isna()
            # Without a name, the checkpoint's own condition is meant.
            if (selected & unnamed).any():
                selected &= unnamed
    chosen = records[selected]
    if chosen.empty:
        raise ConfigError(f"{where}: {side.run!r} has no records where {side.where}")
    if chosen.duplicated(["run", "pair"]).any():
        free = [key for key in ["diagnostic", *labels] if chosen[key].nunique() > 1]
        raise ConfigError(f"{where}: {side.where} leaves several conditions of {side.run!r}; also fix {free}")
    needed, count = FRAMES.get(comparison.metric, ("right", "pair"))
    if count not in chosen or chosen[count].isna().any():
        raise ConfigError(
            f"{where}: metric {comparison.metric}: records of {side.run!r} do not count {count.replace('_', ' ')}, since they are "
            "older: evaluate it again"
        )
    if chosen[needed].isna().any():
        forcing = chosen[chosen[needed].isna()]["forcing"].iloc[0]
        lacking = (
            "right or wrong answers: what they are read from is fed. Compare its frames (metric: state, or action)"
            if needed == "right"
            else f"own {comparison.metric.replace('_', ' ')}s: they are fed, or there are none"
        )
        raise ConfigError(
            f"{where}: {side.run!r} under forcing {forcing} has no {lacking}, or compare conditions in which the model writes them"
        )
    number_of = {run: number for number, run in enumerate(sorted(chosen["run"].unique()))}
    return chosen.assign(run_number=chosen["run"].map(number_of))
