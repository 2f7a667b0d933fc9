"""The words of verdicts: the sentence on a comparison, cells of tables, and notes on the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from remedy.eval.report.verdicts import ALONE, NUMBERS, Verdict
from remedy.eval.stats import BAR, Question, Repeated, VerdictWord, clopper_pearson, power_of_solved, rate
from remedy.eval.stats.differences import RUNS_ON_BOTH, SEEDS_A_SIDE
from remedy.eval.stats.exact import most_failing
from remedy.eval.stats.power import RATE, SPREAD, smallest_difference
from remedy.eval.stats.words import least_p
from remedy.eval.tables.sections import WITHOUT, Rows, interval, p_value, places, points

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
OF: dict[Question, str] = {"solved": "solved trainings", "rates": "the seeds' rates"}
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


EVIDENCE_HEAD = ["Compared", "p", "Baseline solved", "With it solved", WITHOUT, "Programs", "Bounds", "Unequal"]


def evidence_row(item: Verdict) -> list[str]:
    """One line on what a word rests on, under `EVIDENCE_HEAD`."""
    asked = item.evidence.asked
    lines = [p_value(item.evidence.p_value), " and ".join(OF[question] for question in asked)]
    lines += ["level shared"] if len(asked) > 1 else []
    lines += [] if item.level == ALONE else [f"judged at {item.level:.2g}"]
    name, share = item.without
    found = item.found
    moved = f"{found.gained:.0f} gained, {found.lost:.0f} lost" if item.comparison.metric == "answer" else ""
    return [
        item.comparison.mitigation,
        "\n".join(filter(None, lines)) if asked or not found.repeated else "",
        *(solved(item, side) for side in (item.baseline, item.treatment)),
        f"{100 * share:.0f} %\n{name}" if name else "",
        "\n".join(filter(None, [drawn(item) if item.programs else "", moved])),
        beside(item),
        "\n".join(remark.removeprefix("unequal: ").replace("; ", "\n") for remark in item.remarks),
    ]


def solved(item: Verdict, side: Repeated) -> str:
    """The trainings that solve the task, and the share of all trainings that would: `3 of 4`, `19 to 99 % of all`."""
    if item.comparison.metric in NUMBERS or not item.found.repeated:
        return ""
    return solved_of(side)


def solved_of(side: Repeated) -> str:
    """As `solved`, of any recipe."""
    at = "" if side.solved_at == BAR else f" (at {100 * side.solved_at:.0f} %)"
    if not side.reachable:
        return f"not to be told, on so few programs{at}"
    return f"{side.solved} of {len(side.runs)}{at}\n{interval(*side.share)} of all"


def beside(item: Verdict) -> str:
    """The bounds of a word: what the comparison could have said, and what it takes to say more."""
    found = item.found
    match item.word:
        case VerdictWord.INCONCLUSIVE if item.refused:
            return f"not judged: {item.refused}"
        case VerdictWord.INCONCLUSIVE if item.comparison.metric == "loss" and not item.evidence.tests:
            return f"losses are judged from {SEEDS_A_SIDE} seeds a side on"
        case VerdictWord.INCONCLUSIVE if item.comparison.metric in NUMBERS:
            return ""
        case VerdictWord.INCONCLUSIVE:
            matched = found.same_runs or min(found.seeds) == 1 < max(found.seeds)
            seen = decidable(
                item.comparison.asks, item.baseline.solved_at, found.seeds, matched, found.clusters, item.level
            )
            return f"could show {seen}" + ("" if seen.startswith("nothing") or "power" in seen else " (power 80 %)")
        case VerdictWord.AS_GOOD:
            return f"loses less than {100 * item.comparison.margin:g} points"
        case VerdictWord.WORSE if not found.repeated and item.interval[0] > -item.comparison.margin:
            return f"by less than {100 * item.comparison.margin:g} points"
        case VerdictWord.HELPED | VerdictWord.FIXED if found.repeated and item.comparison.metric not in NUMBERS:
            return not_shown(item)
    return ""


def decidable(
    asks: Sequence[Question],
    solved_at: float | str,
    seeds: tuple[float, float],
    matched: bool,
    clusters: int,
    level: float = ALONE,
    rate_: float = RATE,
    spread: float = SPREAD,
) -> str:
    """The difference that so many seeds and programs can show, before a training and after it alike. `seeds`: of the baseline, of the
    treatment, infinite of a model that is not trained; `matched`: each run has one on the other side."""
    whole = tuple(1 if math.isinf(count) else int(count) for count in seeds)
    points_seen = f"{100 * smallest_difference(seeds, clusters, rate_, spread, level):.0f} points"
    if max(whole) < 2 or (min(whole) < 2 and not matched):
        return points_seen
    few = max(whole) < RUNS_ON_BOTH if matched else min(whole) < SEEDS_A_SIDE
    asks = tuple(asks) or (("solved",) if few else ("rates",))
    level /= len(asks)
    if asks == ("solved",) and not isinstance(solved_at, str) and rate([True] * clusters).low < solved_at:
        return f"nothing: on so few programs no training is shown to reach {solved_at:.0%}"
    if all(least_p(question, (whole[0], whole[1]), matched) >= level for question in asks):
        return "nothing: too few seeds"
    if "rates" in asks:
        return points_seen
    if matched:
        return "trainings that solve it on one side alone"
    return f"0 against 90 % of trainings that solve it (power {power_of_solved((0.0, 0.9), (whole[0], whole[1]), level):.0%})"


def not_shown(item: Verdict) -> str:
    """The share of trainings that may come out otherwise, though none of these did."""
    count = len(item.treatment.runs)
    share = f"up to {100 * most_failing(0, count):.0f} % of trainings may do what none of these {count} did"
    needed = seeds_for_fixed(item.level)
    solves = item.treatment.solved == count and item.comparison.solved_at != "above chance"
    fewer = item.word is VerdictWord.HELPED and solves and count < needed
    return f"all seeds solve it; to say fixed takes {needed}\n{share}" if fewer else share


def seeds_for_fixed(level: float = ALONE) -> int:
    """The seeds that must solve a task, if all do, for more than half of all trainings to, with confidence 1 - `level`."""
    return next(count for count in range(1, 100) if clopper_pearson(count, count, level)[0] > 0.5)


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
