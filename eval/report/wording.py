"""The words of verdicts: the sentence on a comparison, and cells of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from remedy.eval.report.comparison import NUMBERS
from remedy.eval.report.verdicts import ALONE, Verdict
from remedy.eval.stats import Repeated, VerdictWord
from remedy.eval.tables.sections import Rows, interval, places, points

NOTHING = "Nothing is compared: a verdict takes two recipes, or two runs, that were evaluated on the same programs."
FLOOR, CEILING = "too hard, or too little trained", "too easy to tell them apart"
RATES = {"answer": "right", "state": "states right", "action": "actions right"}
METRICS = {
    "answer": "right answers",
    "state": "right states, by frame",
    "action": "right actions, by frame",
    "loss": "validation loss",
    "tokens": "tokens of a trace",
}
VERDICT_HEAD = ["Compared", "Verdict", "Baseline", "With it", "Difference", "Tokens"]
DIAGNOSIS_HEAD = ["Fed", "Without", "With it", "Difference", "Tokens"]


class Found(NamedTuple):
    """A number with the ends of its interval, and the scale of a forest plot that it stands on."""

    centre: float
    low: float
    high: float
    scale: str


def effect(item: Verdict) -> Found:
    """The effect of a comparison; to the right of 0 is better. Of rates in points, of losses in nats, of tokens in percent fewer."""
    low, high = item.interval
    match item.comparison.metric:
        case "loss":
            return Found(-item.found.difference, low, high, "lower validation loss")
        case "tokens":
            return Found(100 * item.found.runs.centre, 100 * low, 100 * high, "% fewer tokens")
    scale = f"points more {METRICS[item.comparison.metric]}"
    return Found(100 * item.found.difference, 100 * low, 100 * high, scale)


def dots(item: Verdict) -> list[list[float]]:
    """Each seed of the baseline and of the treatment as its distance from the baseline's mean, on the scale of `effect`; none of
    one."""
    sides = item.baseline, item.treatment
    if item.comparison.metric == "tokens" or sum(len(side.points) for side in sides) <= 2:
        return [[], []]
    scale = -1.0 if item.comparison.metric == "loss" else 100.0
    return [[scale * (point - item.baseline.estimate.mean) for point in side.points] for side in sides]


def headline(verdicts: Sequence[Verdict]) -> tuple[VerdictWord | None, str]:
    """The word and the sentence of the leading comparison; a sentence alone without any."""
    if not verdicts:
        return None, NOTHING
    item = leading(verdicts)
    low, high = (_signed(item, end) for end in item.interval)
    known = f" ({confidence(item)} CI {low} to {high})" if not math.isinf(item.interval[1]) else ""
    aim = "" if item.comparison.failure == "any" else f" (meant for {item.comparison.failure})"
    what = RATES.get(item.comparison.metric, METRICS[item.comparison.metric]) + aim
    sides = f"{side_of(item, item.treatment)} against {side_of(item, item.baseline)} {what}"
    parts = [sides, difference_of(item) + known, scope(item), f"not judged: {item.refused}" if item.refused else ""]
    return item.word, f"{item.comparison.mitigation}: {', '.join(filter(None, parts))}."


def leading(verdicts: Sequence[Verdict]) -> Verdict:
    """The primary comparison, or else the one with the least p-value."""
    primary = next((one for one in verdicts if one.comparison.primary), None)
    return primary or min(verdicts, key=lambda one: (one.evidence.p_value, -abs(effect(one).centre)))


def confidence(item: Verdict) -> str:
    """The confidence of the interval that a comparison is judged by: `95 %`."""
    return f"{100 * (1 - item.level):.3g} %"


def counted(verdicts: Sequence[Verdict]) -> str:
    """The words of several comparisons with their counts; empty of one."""
    if len(verdicts) < 2:
        return ""
    which = "primary" if any(item.comparison.primary for item in verdicts) else "clearest"
    counts = {word: sum(item.word is word for item in verdicts) for word in VerdictWord}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"This is the {which} of {len(verdicts)} comparisons: {said}."


def _signed(item: Verdict, value: float) -> str:
    return f"{value:+.2f}" if item.comparison.metric == "loss" else f"{100 * value:+.0f}"


def side_of(item: Verdict, side: Repeated) -> str:
    """The mean of a side: `77 %`, a loss, or tokens."""
    return _number(item, side.estimate.mean, places(side.estimate.low, side.estimate.high))


def _number(item: Verdict, value: float, decimals: int = 0) -> str:
    match item.comparison.metric:
        case "loss":
            return f"{value:.3g}"
        case "tokens":
            return f"{value:,.0f}"
    return f"{100 * value:.{decimals}f} %"


def difference_of(item: Verdict) -> str:
    """The difference in a few words: `+62 points`, `0.4 lower`, `12 % fewer`."""
    found = effect(item).centre
    match item.comparison.metric:
        case "loss":
            return f"{abs(found):.3g} {'lower' if found >= 0 else 'higher'}"
        case "tokens":
            return f"{abs(found):.0f} % {'fewer' if found >= 0 else 'more'}"
    return f"{found:+.0f} points" if round(found) else "0 points"


def scope(item: Verdict) -> str:
    """The runs that a verdict speaks of: `4 seeds each`, `3 seeds against 1`, `in this run`."""
    before, after = item.found.seeds
    if item.comparison.metric == "tokens":
        return f"on {drawn(item)}"
    if not item.found.repeated:
        runs = "one run each" if before == after == 1 else f"{plural(after, 'run')} against {before}"
        return f"{runs}, not for other seeds"
    if item.found.same_runs:
        return f"{after} seeds, each on both sides"
    if before == after:
        return f"{after} seeds each"
    if min(before, after) > 1:
        return f"{after} seeds against {before}"
    first, second = (f"{count} seeds" if count > 1 else "a model as it is" for count in (after, before))
    return f"{first} against {second}"


def drawn(item: Verdict) -> str:
    """The programs of a comparison: `100 programs`, or `100 examples of 40 programs in 10 clusters`."""
    found, programs = item.found, item.programs
    said = plural(programs, "program")
    if item.comparison.metric in ("state", "action"):
        return said
    if programs != found.examples:
        said = f"{found.examples} examples of {said}"
    return said if found.clusters == programs else f"{said} in {plural(found.clusters, 'cluster')}"


def plural(count: int, noun: str) -> str:
    """A count of things: `1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def verdict_row(item: Verdict) -> list[str]:
    """One line of the verdict table, under `VERDICT_HEAD`."""
    about = item.comparison
    metric = METRICS[about.metric] if about.metric != "answer" else ""
    aim = f"meant for {about.failure}" if about.failure != "any" else ""
    small = ", ".join(filter(None, [metric, aim, "the primary comparison" if about.primary else ""]))
    cells = ["\n".join(filter(None, [about.mitigation, small])), verdict_cell(item), *_sides(item)]
    return cells[:-1] + ["" if about.metric == "tokens" else cells[-1]]


def verdict_cell(item: Verdict) -> str:
    """The word, and in small print the runs that it speaks of and what bounds it."""
    return "\n".join(filter(None, [str(item.word).capitalize(), scope(item), in_these_runs(item), both_ends(item)]))


def _sides(item: Verdict) -> list[str]:
    """The cells on both sides, their difference, and their tokens."""
    ratio = "" if math.isnan(item.token_ratio) else f"x {item.token_ratio:.2f}"
    return [side_cell(item, 0), side_cell(item, 1), difference_cell(item), ratio]


def side_cell(item: Verdict, place: int) -> str:
    """The rate of the baseline (0) or the treatment (1) with its interval, each seed's, and remarks that belong beside it."""
    side = (item.baseline, item.treatment)[place]
    low, high = side.estimate.low, side.estimate.high
    lines = [side_of(item, side), interval(low, high) if item.comparison.metric not in NUMBERS else ""]
    if len(side.points) > 1:
        lines.append(f"seeds {', '.join(_number(item, point).removesuffix(' %') for point in side.points)}")
    if cut := item.truncated[place]:
        lines.append(f"{'all' if cut == 1 else f'{100 * cut:.0f} %'} truncated by the limit on tokens")
    name, share = item.without
    if share >= 0.01 and (high < share or low <= share):
        lines.append(f"{'below' if high < share else 'no better than'} {name} ({share:.0%})")
    return "\n".join(filter(None, lines))


def difference_cell(item: Verdict) -> str:
    """The difference with the interval that it is judged by."""
    if math.isinf(item.interval[1]):
        return f"{difference_of(item)}\none seed"
    low, high = (_signed(item, end) for end in item.interval)
    return f"{difference_of(item)}\n{low} to {high}" + ("" if item.level == ALONE else f" ({confidence(item)})")


def in_these_runs(item: Verdict) -> str:
    """The word of these runs where nothing is said of their recipes."""
    silent = item.word is not VerdictWord.INCONCLUSIVE or not item.found.repeated or item.comparison.metric in NUMBERS
    if silent or item.of_runs is VerdictWord.INCONCLUSIVE:
        return ""
    low, high = item.found.interval_of_runs(item.level)
    return f"in these runs {item.of_runs} ({points(low)} to {points(high)})"


def both_ends(item: Verdict) -> str:
    """A floor or a ceiling of both sides, with the losses where they are known."""
    means = item.baseline.estimate.mean, item.treatment.estimate.mean
    if item.comparison.metric in NUMBERS or means[0] != means[1] or means[0] not in (0.0, 1.0):
        return ""
    said = f"both at {100 * means[0]:.0f} %: {CEILING if means[0] else FLOOR}"
    known = [loss for loss in item.losses if not math.isnan(loss)]
    return said + (f"; validation loss {known[1]:.2g} against {known[0]:.2g}" if len(known) == 2 else "")


def diagnosis_rows(items: Sequence[Verdict]) -> Rows:
    """The table of diagnoses."""
    return [DIAGNOSIS_HEAD, *([item.comparison.mitigation, *_sides(item)] for item in items)]
