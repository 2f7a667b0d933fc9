"""Comparisons of a recipe, or a run, with its baseline on the same programs, and the word for each."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from remedy.eval.decoding.forcings import fed_as
from remedy.eval.records import baselines
from remedy.eval.records.schema import LABELS, TRACE_COLUMNS, label_columns
from remedy.eval.report.comparison import FRAMES, NUMBERS, Comparison, Side, one_primary, refuse_idle
from remedy.eval.report.numbers import Loss, compare_losses, compare_tokens, word_of_numbers
from remedy.eval.stats import (
    Difference,
    Evidence,
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
from remedy.settings import ConfigError

ALONE = 0.05
"""The level of one comparison by itself."""
PAIRED = ["example", "index", "split", "cluster"]
"""The columns that name one example in every run."""


class Verdict(NamedTuple):
    """The outcome of a comparison. `evidence`: the tests behind the word. `level`: of the word and the interval; `token_ratio`:
    tokens of the treatment's traces over the baseline's, NaN if none can be compared; `word`: of recipes where both sides have
    several seeds, else of these runs, None of a diagnosis, where the sides are fed different roles; `of_runs`: of these runs alone;
    `programs`: distinct ones among the examples; `without`: the name and the share of the best that is right on them without a
    model; `runs`, `conditions`, `truncated`: of each side, its runs, the slugs of its conditions, and the share of examples that a
    limit cut; `losses`: of each side, the mean validation loss where it is known; `remarks`: on the sides, as lines; `refused`: why
    there is no word but inconclusive."""

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
    without: tuple[str, float] = ("", 0.0)
    runs: tuple[frozenset[str], ...] = ()
    conditions: tuple[frozenset[str], ...] = ()
    truncated: tuple[float, ...] = (0.0, 0.0)
    losses: tuple[float, ...] = ()
    remarks: tuple[str, ...] = ()
    refused: str = ""

    @property
    def idle(self) -> bool:
        """True where the treatment has no more right than needs no model."""
        return bool(self.without[0]) and self.treatment.estimate.mean <= self.without[1]

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval that it is judged by."""
        if self.comparison.metric not in NUMBERS:
            return self.found.interval(self.level)
        spread = self.found.recipes or self.found.runs
        half = spread.half(self.level)
        return spread.centre - half, spread.centre + half

    def judged(self, level: float) -> Verdict:
        """The same with its words, at a level."""
        if self.comparison.metric in NUMBERS:
            said = word_of_numbers(self.evidence, level)
            return self._replace(level=level, word=said, of_runs=said)
        sides = self.found, self.baseline, self.treatment
        margin = self.comparison.margin
        words = word(*sides, self.evidence, level, margin), word_of_runs(*sides, level, margin)
        if self.comparison.solved_at == "above chance":  # more than a guess is no failure gone
            words = _at_most_helped(words[0]), _at_most_helped(words[1])
        return self._replace(level=level, word=words[0], of_runs=words[1])


def decide(
    comparisons: Sequence[Comparison],
    records: pd.DataFrame,
    untrained: Collection[str] = (),
    losses: Mapping[str, Loss] | None = None,
) -> list[Verdict]:
    """Compare the two sides of each comparison on the programs that all of their runs have.

    The words hold together: all but the primary comparison share the level of one, by Holm's procedure. Diagnoses have no word.
    `untrained`: runs of models as they are, which no seed could have made others; `losses`: of runs, where they are known.

    Raises:
        ConfigError: a side names a run or label that the records do not have, no example is shared, several are primary, rates are
            asked of too few seeds, or the metric makes no sense of these sides.
    """
    one_primary(comparisons)
    found = [_compared(comparison, records, untrained, losses or {}) for comparison in comparisons]
    sharing = [number for number, one in enumerate(found) if not (one.comparison.primary or one.word is None)]
    at = dict(zip(sharing, levels([found[number].evidence.p_value for number in sharing], ALONE)))
    return [one if one.word is None else one.judged(at.get(number, ALONE)) for number, one in enumerate(found)]


def _at_most_helped(said: VerdictWord) -> VerdictWord:
    return VerdictWord.HELPED if said is VerdictWord.FIXED else said


def _compared(
    comparison: Comparison, records: pd.DataFrame, untrained: Collection[str], losses: Mapping[str, Loss]
) -> Verdict:
    """The comparison by itself; its word is still to be found, unless it is a diagnosis."""
    if comparison.metric == "loss":
        runs = [_runs(side, records, comparison) for side in (comparison.baseline, comparison.treatment)]
        sides_ = compare_losses(comparison.where, *([losses.get(run) for run in side] for side in runs))
        said = Verdict(comparison, *sides_, ALONE, math.nan, VerdictWord.INCONCLUSIVE, VerdictWord.INCONCLUSIVE, 0)
        return said._replace(runs=tuple(map(frozenset, runs)))
    before, after = sides(comparison, records)
    diagnosis = _feeding(before) != _feeding(after)
    if diagnosis:
        refuse_idle(comparison)
    examples = before.drop_duplicates(PAIRED)
    both = before.merge(after, on=["place", *PAIRED], suffixes=("_before", "_after"), validate="1:1")
    about = {
        "without": _without(examples) if comparison.metric == "answer" else ("", 0.0),
        "runs": tuple(frozenset(side["run"]) for side in (before, after)),
        "conditions": tuple(frozenset(side["condition"]) for side in (before, after)),
        "truncated": tuple(float(side["truncated"].mean()) for side in (before, after)),
        "losses": tuple(_mean_loss(side["run"].unique(), losses) for side in (before, after)),
    }
    if comparison.metric == "tokens":
        judged = compare_tokens(comparison.where, both)
    else:
        judged = _rates(comparison, before, after, untrained, about["without"])  # type: ignore[arg-type]
    inconclusive = VerdictWord.INCONCLUSIVE
    word_ = None if diagnosis else inconclusive
    programs = examples["example"].nunique()
    return Verdict(comparison, *judged, ALONE, _token_ratio(both), word_, inconclusive, programs)._replace(**about)  # type: ignore[arg-type]


def _rates(
    comparison: Comparison,
    before: pd.DataFrame,
    after: pd.DataFrame,
    untrained: Collection[str],
    without: tuple[str, float],
) -> tuple[Difference, Repeated, Repeated, Evidence]:
    """Two sides of rates by the judge's two questions."""
    outcomes, clusters = _outcomes(comparison, before, after)
    standing = set(before["run"]) <= set(untrained), set(after["run"]) <= set(untrained)
    found = compare(outcomes[0], outcomes[1], clusters, set(before["run"]) == set(after["run"]), standing)
    if comparison.solved_at == "above chance" and not without[0]:
        raise ConfigError(f"{comparison.where}: solved_at: no guess is known for these programs: give a share")
    solved_at = without[1] if isinstance(comparison.solved_at, str) else comparison.solved_at
    baseline, treatment = (over_seeds(side, clusters, solved_at) for side in outcomes)
    if comparison.asks and not found.repeated:
        raise ConfigError(
            f"{comparison.where}: asks does nothing: a side has one seed, so that nothing is asked of recipes"
        )
    try:
        return found, baseline, treatment, weigh(found, baseline, treatment, comparison.asks)
    except ValueError:
        raise ConfigError(
            f"{comparison.where}: asks: rates cannot be tested with {found.seeds[1]} seeds against {found.seeds[0]}: "
            f"train {SEEDS_A_SIDE} a side ({RUNS_ON_BOTH} where each run is on both sides), or ask for `solved`"
        ) from None


def _outcomes(
    comparison: Comparison, before: pd.DataFrame, after: pd.DataFrame
) -> tuple[list[npt.NDArray[np.float64]], list[str]]:
    """Right ones of each side (runs, examples) and the examples' clusters. Of frames, every one of a trace is an example, all of a
    program in its cluster: a trace's right ones are counted first, since only their number is known."""
    first = before[before["place"] == before["place"].iloc[0]]
    if comparison.metric == "answer":
        counts = [side["right"].to_numpy(dtype=float).reshape(side["run"].nunique(), -1) for side in (before, after)]
        return counts, first["cluster"].tolist()
    share, number = FRAMES[comparison.metric]
    of = first[number].to_numpy()
    for side in (before, after):
        if (side[number].to_numpy().reshape(side["run"].nunique(), -1) != of).any():
            raise ConfigError(
                f"{comparison.where}: metric {comparison.metric}: the sides show other numbers of {number}, whose shares cannot "
                "be paired"
            )
    place = np.concatenate([np.arange(count) for count in of]) if len(of) else np.array([])
    found = []
    for side in (before, after):
        right = np.round(side[share].to_numpy(dtype=float) * side[number].to_numpy()).reshape(-1, len(of))
        found.append((place < np.repeat(right, of, axis=1)).astype(float))
    return found, np.repeat(first["cluster"].to_numpy(), of).tolist()


def _without(examples: pd.DataFrame) -> tuple[str, float]:
    name, share = baselines.highest([{"baselines": baselines.baselines(examples)}])
    return baselines.NAMES.get(name, ""), share


def _mean_loss(runs: Sequence[str], losses: Mapping[str, Loss]) -> float:
    known = [losses[run].value for run in runs if run in losses]
    return sum(known) / len(known) if len(known) == len(runs) else math.nan


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
            f"{comparison.where}: the two sides share no example; "
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
    before, after = sides(comparison, records)
    return before.merge(after, on=["place", *PAIRED], suffixes=("_before", "_after"), validate="1:1")


def _feeding(side: pd.DataFrame) -> set[str]:
    """The forcings of a side by what they feed."""
    return set(map(fed_as, side["forcing"]))


def _token_ratio(both: pd.DataFrame) -> float:
    # Where either side was not written, the tokens compare nothing.
    written = both[(both["cost_before"] > 0) & (both["cost_after"] > 0)]
    return float(written["cost_after"].sum() / written["cost_before"].sum()) if len(written) else math.nan


def _of_run(side: Side, records: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    chosen = records[(records["variant"] == side.run) | (records["run"] == side.run)]
    if chosen.empty:
        names = list(dict.fromkeys([*records["variant"], *records["run"]]))
        raise ConfigError(
            f"{comparison.where}: no records of a variant or run {side.run!r}; {suggest(side.run, names)}"
        )
    return chosen


def _runs(side: Side, records: pd.DataFrame, comparison: Comparison) -> list[str]:
    return sorted(_of_run(side, records, comparison)["run"].unique())


def _select(side: Side, records: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """One row for each run and example; `place` numbers the runs of the side."""
    where = comparison.where
    chosen = _of_run(side, records, comparison)
    for key, value in side.where.items():
        if key not in records:
            raise ConfigError(f"{where}: records have no label {key!r}; {suggest(key, map(str, records.columns))}")
        chosen = chosen[chosen[key] == value]
    asked = [one.name for one in LABELS.values() if one.asked and one.name in chosen and one.name not in side.where]
    for name in asked:
        if chosen[name].isna().any():
            chosen = chosen[chosen[name].isna()]  # none is named: the checkpoint's own
    if chosen.empty:
        raise ConfigError(f"{where}: {side.run!r} has no records where {side.where}")
    if chosen.duplicated(["run", *PAIRED]).any():
        names = ["diagnostic", *label_columns(chosen.drop(columns="variant"))]
        free = [key for key in names if chosen[key].nunique() > 1]
        raise ConfigError(f"{where}: {side.where} leaves several conditions of {side.run!r}; also fix {free}")
    needed = FRAMES[comparison.metric][0] if comparison.metric in FRAMES else "right"
    if chosen[needed].isna().any() and comparison.metric != "tokens":
        forcing = chosen[chosen[needed].isna()]["forcing"].iloc[0]
        what = (
            "right or wrong answers: what they are read from"
            if needed == "right"
            else f"own {comparison.metric}s: they"
        )
        verb = (
            "is fed. Compare its frames (metric: state, or action)"
            if needed == "right"
            else "are fed, or there are none"
        )
        raise ConfigError(
            f"{where}: {side.run!r} under forcing {forcing} has no {what} {verb}, or compare conditions in which the model writes them"
        )
    places = {run: place for place, run in enumerate(sorted(chosen["run"].unique()))}
    chosen = chosen.assign(cost=chosen[TRACE_COLUMNS].sum(axis=1), place=chosen["run"].map(places))
    kept = ("run", "place", *PAIRED, "condition", "right", "truncated", "cost", "failure", "forcing")
    frames = ("state_exact", "states", "action_exact", "actions", "chance", "start_right", "true_answer")
    return chosen[[*kept, *frames]]
