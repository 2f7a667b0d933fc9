"""The words of verdicts: the sentence on a comparison, cells of tables, and notes on the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from remedy.eval.report.comparison import NUMBERS
from remedy.eval.report.verdicts import ALONE, Verdict
from remedy.eval.stats import BAR, Repeated, VerdictWord
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
METHODS = {
    "Helped, worse": "with several seeds a side, an exact test of the trainings rejects that both are draws of one "
    "distribution, and these "
    "runs are better, or worse, on other programs too. Below five seeds a side the test asks how many trainings solve the task "
    "(Boschloo); from five on, whether their rates differ (permutation).",
    "Fixed": "helped; more trainings solve the task than the baseline's; and with confidence more than half of all trainings do "
    "(six of "
    "six seeds).",
    "As good": "with confidence fewer trainings than the margin fail, and those that solve the task lose less than the margin "
    "(29 of 29 "
    "seeds for a margin of 10 points).",
    "Inconclusive": "none of these. What is then said of these runs holds for other programs, not for other seeds.",
    "Solved": f"a training solves the task if its rate reaches the threshold ({BAR:.0%} unless the comparison has another) with "
    "the lower "
    "end of its own 95 % interval.",
    "One seed": "with one seed on a side every word speaks of these runs alone, from the interval of their difference over programs.",
    "Intervals": "95 %, for other seeds and other programs; they take seeds' rates to vary normally. Programs that stand or "
    "fall together, "
    "as executions of one function, count as one cluster. The word follows the test, not the interval.",
    "Several comparisons": "all but the primary one share the level of one (Holm): their intervals are as wide as that asks.",
    "Chance": "a guess among the answers that are possible, which a model need not know: a model can be below it. Beside it "
    "stand the best "
    "of a guess, the start given back, and one answer for all.",
    "Tokens": "of the trace without its program, relative to the baseline's.",
}


class Found(NamedTuple):
    """A number with the ends of its interval, and the scale of a forest plot that it stands on."""

    centre: float
    low: float
    high: float
    scale: str


def effect(item: Verdict) -> Found:
    """The effect of a comparison; to the right of 0 is better. Of rates in points, of losses in nats, of tokens in percent fewer."""
    low, high = item.interval
    if item.comparison.metric == "loss":
        return Found(item.found.baseline - item.found.treatment, low, high, "lower validation loss")
    if item.comparison.metric == "tokens":
        spread = item.found.runs
        return Found(100 * spread.centre, 100 * low, 100 * high, "% fewer tokens")
    return Found(100 * item.found.difference, 100 * low, 100 * high, f"points more {METRICS[item.comparison.metric]}")


def dots(item: Verdict) -> tuple[list[float], list[float]]:
    """Each seed of the baseline and of the treatment as its distance from the baseline's mean, on the scale of `effect`; none of
    one."""
    if item.comparison.metric == "tokens":
        return [], []
    scale = -1.0 if item.comparison.metric == "loss" else 100.0
    mean = item.baseline.estimate.mean
    sides = [[scale * (point - mean) for point in side.points] for side in (item.baseline, item.treatment)]
    return (sides[0], sides[1]) if len(sides[0]) + len(sides[1]) > 2 else ([], [])


def headline(verdicts: Sequence[Verdict]) -> tuple[VerdictWord | None, str]:
    """The word and the sentence of the primary comparison, or else of the one with the least p-value; a sentence alone without any."""
    if not verdicts:
        return None, NOTHING
    primary = next((one for one in verdicts if one.comparison.primary), None)
    item = primary or min(verdicts, key=lambda one: (one.evidence.p_value, -abs(effect(one).centre)))
    low, high = (_signed(item, end) for end in item.interval)
    confidence = "95 %" if item.level == ALONE else f"{100 * (1 - item.level):.3g} %"
    known = f" ({confidence} CI {low} to {high})" if not math.isinf(item.interval[1]) else ""
    sides = f"{side_of(item, item.treatment)} against {side_of(item, item.baseline)}{_what(item)}"
    parts = [sides, difference_of(item) + known, scope(item), f"not judged: {item.refused}" if item.refused else ""]
    return item.word, f"{item.comparison.mitigation}: {', '.join(filter(None, parts))}."


def counted(verdicts: Sequence[Verdict]) -> str:
    """The words of several comparisons with their counts; empty of one."""
    if len(verdicts) < 2:
        return ""
    which = "primary" if any(item.comparison.primary for item in verdicts) else "clearest"
    groups = [(word, sum(item.word is word for item in verdicts)) for word in VerdictWord]
    said = ", ".join(f"{count} {word}" for word, count in groups if count)
    return f"This is the {which} of {len(verdicts)} comparisons: {said}."


def _what(item: Verdict) -> str:
    found = RATES.get(item.comparison.metric, METRICS[item.comparison.metric])
    aim = "" if item.comparison.failure == "any" else f" (meant for {item.comparison.failure})"
    return f" {found}{aim}"


def _signed(item: Verdict, value: float) -> str:
    return f"{value:+.2f}" if item.comparison.metric == "loss" else f"{100 * value:+.0f}"


def side_of(item: Verdict, side: Repeated) -> str:
    """The mean of a side: `77 %`, a loss, or tokens."""
    return _number(item, side.estimate.mean, side.estimate.low, side.estimate.high)


def _number(item: Verdict, value: float, low: float = 0.0, high: float = 1.0) -> str:
    match item.comparison.metric:
        case "loss":
            return f"{value:.3g}"
        case "tokens":
            return f"{value:,.0f}"
    return f"{100 * value:.{places(low, high)}f} %"


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
        if before == after == 1:
            return "one run each"
        return f"{after} run{'s' if after > 1 else ''} against {before}"
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
    said = f"{programs} program{'s' if programs > 1 else ''}"
    said = (
        said
        if item.comparison.metric in ("state", "action") or programs == found.examples
        else (f"{found.examples} examples of {said}")
    )
    clustered = item.comparison.metric not in ("state", "action") and found.clusters != programs
    return f"{said} in {found.clusters} cluster{'s' if found.clusters > 1 else ''}" if clustered else said


VERDICT_HEAD = ["Compared", "Verdict", "Baseline", "With it", "Difference", "Tokens"]


def verdict_row(item: Verdict) -> list[str]:
    """One line of the verdict table, under `VERDICT_HEAD`."""
    about = item.comparison
    small = [_meaning(item), "the primary comparison" if about.primary else ""]
    return [
        "\n".join(filter(None, [about.mitigation, ", ".join(filter(None, small))])),
        verdict_cell(item),
        side_cell(item, 0),
        side_cell(item, 1),
        difference_cell(item),
        "" if math.isnan(item.token_ratio) or about.metric == "tokens" else f"x {item.token_ratio:.2f}",
    ]


def _meaning(item: Verdict) -> str:
    aim = "" if item.comparison.failure == "any" else f"meant for {item.comparison.failure}"
    return (
        aim if item.comparison.metric == "answer" else ", ".join(filter(None, [METRICS[item.comparison.metric], aim]))
    )


def verdict_cell(item: Verdict) -> str:
    """The word, and in small print the runs that it speaks of and what bounds it."""
    assert item.word is not None
    return "\n".join(filter(None, [str(item.word).capitalize(), scope(item), in_these_runs(item), both_ends(item)]))


def side_cell(item: Verdict, place: int) -> str:
    """The rate of a side with its interval, each seed's, and remarks that belong beside it."""
    side = (item.baseline, item.treatment)[place]
    lines = [side_of(item, side)]
    if item.comparison.metric not in NUMBERS:
        lines.append(interval(side.estimate.low, side.estimate.high))
    if len(side.points) > 1:
        shown = ", ".join(_number(item, point).removesuffix(" %") for point in side.points)
        lines.append(f"seeds {shown}")
    if cut := item.truncated[place]:
        lines.append(f"{'all' if cut == 1 else f'{100 * cut:.0f} %'} truncated by the limit on tokens")
    name, share = item.without
    if share >= 0.01 and (side.estimate.high < share or side.estimate.low <= share):
        said = "below" if side.estimate.high < share else "no better than"
        lines.append(f"{said} {name} ({share:.0%})")
    return "\n".join(lines)


def difference_cell(item: Verdict) -> str:
    """The difference with the interval that it is judged by."""
    low, high = (_signed(item, end) for end in item.interval)
    confidence = "" if item.level == ALONE else f" ({100 * (1 - item.level):.3g} %)"
    return f"{difference_of(item)}\n" + (
        f"{low} to {high}{confidence}" if not math.isinf(item.interval[1]) else "one seed"
    )


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


DIAGNOSIS_HEAD = ["Fed", "Without", "With it", "Difference", "Tokens"]
DIAGNOSIS_NOTE = (
    "What a model does when it is fed more of the truth says where it fails. It is no mitigation and gets no verdict: nobody has the "
    "truth to feed. On programs with branches and loops, true actions also give away the values of conditions. 95 % intervals, each "
    "by itself."
)


def diagnosis_rows(items: Sequence[Verdict]) -> Rows:
    """The table of diagnoses."""
    rows = [
        [
            item.comparison.mitigation,
            side_cell(item, 0),
            side_cell(item, 1),
            difference_cell(item),
            "" if math.isnan(item.token_ratio) else f"x {item.token_ratio:.2f}",
        ]
        for item in items
    ]
    return [DIAGNOSIS_HEAD, *rows]
