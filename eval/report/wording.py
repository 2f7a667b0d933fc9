"""Words of verdicts: the leading sentence and table cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from remedy.eval.report.verdicts import ALONE, Verdict
from remedy.eval.stats import BAR, Question, RecipeRate, VerdictWord
from remedy.eval.stats.exact import most_failing
from remedy.eval.stats.power import decidable, seeds_for_fixed, seeds_to_show
from remedy.eval.tables.sections import WITHOUT, Rows, interval, joined, points_of, rate_text, rated
from remedy.messages import plural

NOTHING = "Nothing is compared: a verdict takes two recipes, or two runs, that were evaluated on the same programs."
FLOOR, CEILING = "too hard, or too little trained", "too easy to tell them apart"
OF: dict[Question, str] = {"solved": "solved trainings", "rates": "the seeds' rates"}
VERDICT_HEAD = ["Compared", "Verdict", "Baseline", "With it", "Difference", "Tokens"]
EVIDENCE_HEAD = ["Compared", "p", "Baseline solved", "With it solved", WITHOUT, "Programs", "Bounds", "Unequal"]
DIAGNOSIS_HEAD = ["Fed", "Without", "With it", "Difference", "Tokens"]


METRICS = {
    "answer": ("right", ""),
    "state": ("states right", "states, by frame"),
    "changed_state": ("changed states right", "changed states, by frame (nothing changed: 0 %)"),
    "action": ("actions right", "actions, by frame"),
}
"""Words of a metric: in a sentence, and beside numbers."""


def dots(verdict: Verdict) -> list[list[float]]:
    """Return seeds' distances from the baseline's mean in points, by side."""
    sides = verdict.baseline, verdict.treatment
    if sum(len(side.points) for side in sides) <= 2:
        return [[], []]
    return [[100 * (point - verdict.baseline.estimate.mean) for point in side.points] for side in sides]


def headline(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """Return the leading verdict's opening, which says if it is of these runs alone, and its sentence."""
    if not verdicts:
        return "", NOTHING
    verdict = leading(verdicts)
    comparison = verdict.comparison
    treatment, baseline = (rate_text(*side.estimate[:3]) for side in (verdict.treatment, verdict.baseline))
    sentence = joined(
        ", ",
        f"{treatment} against {baseline} {METRICS[comparison.metric][0]}"
        + ("" if comparison.failure == "any" else f" (meant for {comparison.failure})"),
        f"{difference_of(verdict)} ({confidence(verdict)} CI {_signed(verdict)})",
        scope(verdict),
        open_for_seeds(verdict),
        f"not judged: {verdict.refused}" if verdict.refused else "",
        verdict.unplanned,
    )
    opening = f"In these runs {verdict.of_runs}" if only_in_runs(verdict) else word_with_scope(verdict)
    return opening, f"{comparison.mitigation}: {sentence}.{other_trainings(verdict)}{beside_rule(verdict)}"


def word_with_scope(verdict: Verdict) -> str:
    """Write a verdict's word, with one seed a side as that of these runs."""
    shown = verdict.word not in (None, VerdictWord.INCONCLUSIVE)
    return (
        f"In these runs {verdict.word}"
        if shown and not verdict.difference.of_recipes
        else str(verdict.word).capitalize()
    )


def only_in_runs(verdict: Verdict) -> bool:
    """Say if these runs show what is not known of their recipes."""
    undecided = verdict.word is VerdictWord.INCONCLUSIVE and verdict.difference.of_recipes
    return undecided and verdict.of_runs is not VerdictWord.INCONCLUSIVE


def other_trainings(verdict: Verdict) -> str:
    """Say how many seeds would decide what only these runs show."""
    if not only_in_runs(verdict):
        return ""
    difference, sides = verdict.difference, (verdict.baseline, verdict.treatment)
    variances = [np.var(side.points, ddof=1) for side in sides if len(side.points) > 1]
    count, decides = seeds_to_show(difference, float(np.mean(variances)) ** 0.5, verdict.level)
    seeds = " against ".join(dict.fromkeys(f"{number}" for number in difference.seeds[::-1] if number > 1))
    would = "would" if decides else "would not"
    return (
        f" Of other trainings: not known with {seeds} seeds; {count} a side {would} show this difference (power 80 %)."
    )


def beside_rule(verdict: Verdict) -> str:
    if verdict.above_rule is None:
        return ""
    name, share = verdict.best_rule
    start = "Below what is right without a model:" if verdict.above_rule.mean < 0 else "Without a model"
    return f" {start} {100 * share:.0f} % ({name}), {points_of(verdict.above_rule)}."


def leading(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the primary comparison, or the one with the least p-value."""
    primary = next((each for each in verdicts if each.comparison.primary), None)
    return primary or min(verdicts, key=lambda each: (each.evidence.p_value, -abs(each.difference.mean)))


def word_counts(verdicts: Sequence[Verdict]) -> str:
    if len(verdicts) < 2:
        return ""
    rank = "primary" if any(verdict.comparison.primary for verdict in verdicts) else "clearest"
    counts = {word: sum(verdict.word is word for verdict in verdicts) for word in VerdictWord}
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"This is the {rank} of {len(verdicts)} comparisons: {words}."


def undecidable(verdict: Verdict) -> str:
    """Say if no outcome could have been conclusive."""
    _, nothing, reason = bounds(verdict).partition("could show nothing: ")
    decided = verdict.word is not VerdictWord.INCONCLUSIVE
    return f"Of trainings these seeds could decide nothing: {reason}." if nothing and not decided else ""


def confidence(verdict: Verdict) -> str:
    return f"{100 * (1 - verdict.level):.3g} %"


def scope(verdict: Verdict) -> str:
    """Write a verdict's runs: `4 seeds each`."""
    before, after = verdict.difference.seeds
    if not verdict.difference.of_recipes:
        runs = "one run each" if before == after == 1 else f"{plural(after, 'run')} against {before}"
        return f"{runs}, not for other seeds"
    if verdict.difference.same_runs:
        return f"{after} seeds, each on both sides"
    if before == after:
        return f"{after} seeds each"
    if min(before, after) > 1:
        return f"{after} seeds against {before}"
    first, second = (f"{count} seeds" if count > 1 else "a model as it is" for count in (after, before))
    return f"{first} against {second}"


def open_for_seeds(verdict: Verdict) -> str:
    """Write what a verdict on recipes leaves open about other seeds."""
    good = verdict.word is VerdictWord.AS_GOOD
    if (
        not verdict.difference.of_recipes
        or verdict.word in (None, VerdictWord.INCONCLUSIVE)
        or (good and verdict.evidence.question == "solved")
    ):
        return ""
    loses = f"loses less than {100 * verdict.comparison.margin:g} points " if good else ""
    count = min(seeds for seeds in verdict.difference.seeds if seeds > 1)
    share = f"up to {100 * most_failing(0, count):.0f} % of all may do what none of {count} did"
    return f"{loses}in trainings like these ({share})"


def program_counts(verdict: Verdict) -> str:
    """Count programs: `100 examples of 40 programs, 10 of them independent`."""
    programs, difference = plural(verdict.programs, "program"), verdict.difference
    if verdict.comparison.metric != "answer":
        return programs
    if verdict.programs != difference.examples:
        programs = f"{difference.examples} examples of {programs}"
    independent = f", {difference.clusters} of them independent" if difference.clusters != verdict.programs else ""
    return programs + independent


def difference_of(verdict: Verdict) -> str:
    points = 100 * verdict.difference.mean
    return f"{points:+.0f} points" if round(points) else "0 points"


def _signed(verdict: Verdict) -> str:
    low, high = verdict.interval
    return f"{100 * low:+.0f} to {100 * high:+.0f}"


def verdict_row(verdict: Verdict) -> list[str]:
    comparison = verdict.comparison
    aim = f"meant for {comparison.failure}" if comparison.failure != "any" else ""
    scale = METRICS[comparison.metric][1]
    small = joined(", ", f"right {scale}" if scale else "", aim, "the primary comparison" if comparison.primary else "")
    return [_lines(comparison.mitigation, small), verdict_cell(verdict), *_sides(verdict)]


def verdict_cell(verdict: Verdict) -> str:
    of_runs = at_bound = ""
    if only_in_runs(verdict):
        low, high = verdict.difference.runs.interval(verdict.level)
        of_runs = f"in these runs {verdict.of_runs} ({100 * low:+.1f} to {100 * high:+.1f})"
    means = verdict.baseline.estimate.mean, verdict.treatment.estimate.mean
    if means[0] == means[1] and means[0] in (0.0, 1.0):
        at_bound = f"both at {100 * means[0]:.0f} %: {CEILING if means[0] else FLOOR}"
    unequal = "budgets differ: see Evidence" if any(remark.startswith("unequal") for remark in verdict.remarks) else ""
    return _lines(
        word_with_scope(verdict),
        scope(verdict),
        open_for_seeds(verdict),
        verdict.unplanned,
        of_runs,
        at_bound,
        unequal,
    )


def side_cell(verdict: Verdict, number: int) -> str:
    side = (verdict.baseline, verdict.treatment)[number]
    _, low, high, *_ = side.estimate
    lines = [rated(*side.estimate[:3])]
    if len(side.points) > 1:
        lines.append(f"seeds {', '.join(f'{100 * point:.0f}' for point in side.points)}")
    if cut := verdict.truncated[number]:
        lines.append(f"{'all' if cut == 1 else f'{100 * cut:.0f} %'} truncated by the limit on tokens")
    name, share = verdict.best_rule
    if share >= 0.01 and low <= share:
        lines.append(f"{'below' if high < share else 'no better than'} {name} ({share:.0%})")
    return _lines(*lines)


def _sides(verdict: Verdict) -> list[str]:
    ends = _signed(verdict) + ("" if verdict.level == ALONE else f" ({confidence(verdict)})")
    return [side_cell(verdict, 0), side_cell(verdict, 1), _lines(difference_of(verdict), ends), tokens_of(verdict)]


def tokens_of(verdict: Verdict) -> str:
    true = "" if math.isnan(verdict.token_ratio) else f"x {verdict.token_ratio:.2f}"
    written = verdict.written_ratio
    return true if math.isnan(written) else f"x {written:.2f} written\n{true} in true traces"


def diagnosis_rows(verdicts: Sequence[Verdict]) -> Rows:
    return [DIAGNOSIS_HEAD, *([verdict.comparison.mitigation, *_sides(verdict)] for verdict in verdicts)]


def evidence_row(verdict: Verdict) -> list[str]:
    question, p_value = verdict.evidence.question, verdict.evidence.p_value
    difference, (name, share) = verdict.difference, verdict.best_rule
    tests = [
        f"{p_value:.3f}" if p_value >= 0.001 else "<\N{NO-BREAK SPACE}0.001",
        OF[question] if question else "",
        "" if verdict.level == ALONE else f"judged at {verdict.level:.2g}",
    ]
    by_answer = verdict.comparison.metric == "answer"
    moved = f"{difference.gained:.0f} gained, {difference.lost:.0f} lost" if by_answer else ""
    return [
        verdict.comparison.mitigation,
        _lines(*tests) if question or not difference.of_recipes else "",
        *(solved_of(side) if difference.of_recipes else "" for side in (verdict.baseline, verdict.treatment)),
        _lines(f"{100 * share:.0f} %", name, points_of(verdict.above_rule)) if verdict.above_rule else "",
        _lines(program_counts(verdict) if verdict.programs else "", moved),
        bounds(verdict),
        "\n".join(remark.removeprefix("unequal: ").replace("; ", "\n") for remark in verdict.remarks),
    ]


def solved_of(side: RecipeRate) -> str:
    """Write solved trainings: `3 of 4`, `19 to 99 % of all`."""
    bar = "" if side.solved_at == BAR else f" (at {100 * side.solved_at:.0f} %)"
    if not side.reachable:
        return f"unknown: too few programs{bar}"
    return f"{side.solved} of {len(side.runs)}{bar}\n{interval(*side.share)} of all"


def bounds(verdict: Verdict) -> str:
    """Write what an inconclusive comparison could show, or what limits a verdict."""
    difference, comparison = verdict.difference, verdict.comparison
    match verdict.word:
        case VerdictWord.INCONCLUSIVE if verdict.refused:
            return f"not judged: {verdict.refused}"
        case VerdictWord.INCONCLUSIVE:
            matched = difference.matched and max(difference.seeds) > 1
            showable = decidable(
                comparison.asks,
                verdict.baseline.solved_at,
                difference.seeds,
                matched,
                difference.clusters,
                verdict.level,
            )
            return f"could show {showable}" + (
                "" if showable.startswith("nothing") or "power" in showable else " (power 80 %)"
            )
        case VerdictWord.AS_GOOD:
            return f"loses less than {100 * comparison.margin:g} points"
        case VerdictWord.WORSE if not difference.of_recipes and verdict.interval[0] > -comparison.margin:
            return f"by less than {100 * comparison.margin:g} points"
        case VerdictWord.HELPED | VerdictWord.FIXED if difference.of_recipes:
            count, needed = len(verdict.treatment.runs), seeds_for_fixed(verdict.level)
            solves = verdict.treatment.solved == count and comparison.solved_at != "above chance"
            fewer = verdict.word is VerdictWord.HELPED and solves and count < needed
            return f"all seeds solve it; to say fixed takes {needed}" if fewer else ""
    return ""


def _lines(*parts: str) -> str:
    return joined("\n", *parts)
