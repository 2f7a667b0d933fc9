"""How a report says its verdicts and diagnoses: the lines of their tables, and what stands below them."""

from __future__ import annotations

import math

from remedy.eval.report.seeds import each_seed, solved
from remedy.eval.report.verdicts import ALONE, Verdict
from remedy.eval.stats import Question, Repeated, VerdictWord, clopper_pearson
from remedy.eval.stats.exact import most_failing
from remedy.eval.tables.sections import WITHOUT, Rows, interval, p_value, places, points

VERDICT_HEAD = ["Compared", "Verdict", "Baseline", "With it", WITHOUT, "Difference", "p", "Tokens", "Failure"]
VERDICT_NOTE = (
    "Right answers on the same programs. Programs that stand or fall together, as executions of one function, count as one cluster; "
    "compositions speak of the very functions that they are made of. With several seeds on both sides a word speaks of recipes, and "
    "an exact test of the trainings decides it: how many solve the task (Boschloo's test), or from five seeds a side their rates (a "
    "permutation test). A training solves the task if its rate reaches the threshold with the lower end of its own interval: of 95 "
    "%, 197 of 200. Helped, worse: the test rejects that the trainings are draws of one distribution, and these runs are better, or "
    "worse, on other programs too. Fixed: helped, more trainings solve the task than the baseline's, and with confidence more than "
    "half of all trainings do (six of six seeds). As good: with confidence fewer trainings than the margin fail, and those that "
    "solve the task lose less than the margin (29 of 29 seeds for a margin of 10 points). Inconclusive: none of these; what is then "
    "said of these runs holds for other programs, not for other seeds. With one seed on a side every word speaks of these runs "
    "alone, from the interval of their difference. Intervals take seeds' rates to vary normally, and decide nothing between recipes "
    "of as many seeds: where trainings solve or fail, read how many do. Comparisons but the primary one share the level of one "
    "(Holm). Without a model: the most that a guess, the start given back or one answer for all has right on these programs. "
    "Tokens: those of the trace, without the program, relative to the baseline's."
)
IDLE = "no more right than without a model"
DIAGNOSIS_HEAD = ["Fed", "Without", "With it", WITHOUT, "Difference", "Tokens"]
DIAGNOSIS_NOTE = (
    "What a model does when it is fed more of the truth says where it fails. It is no mitigation and gets no verdict: nobody has the "
    "truth to feed. On programs with branches and loops, true actions also give away the values of conditions. 95 % intervals, each "
    "by itself."
)


def verdict_row(item: Verdict) -> list[str]:
    """One line of the verdict table, under `VERDICT_HEAD`."""
    return [
        item.comparison.mitigation + ("\nthe primary comparison" if item.comparison.primary else ""),
        verdict_cell(item),
        rate_cell(item.baseline),
        rate_cell(item.treatment),
        item.without,
        difference_cell(item),
        p_cell(item),
        tokens_cell(item),
        item.comparison.failure,
    ]


def p_cell(item: Verdict) -> str:
    """The p-value of the word, what it is of, and the level where that is shared."""
    asked = item.evidence.asked
    lines = [p_value(item.evidence.p_value), " and ".join(OF[question] for question in asked)]
    lines += ["level shared"] if len(asked) > 1 else []
    lines += [] if item.level == ALONE else [f"judged at {item.level:.2g}"]
    return "\n".join(filter(None, lines))


OF: dict[Question, str] = {"solved": "of solved trainings", "rates": "of the seeds' rates"}
"""What a test is of."""


def diagnosis_rows(items: list[Verdict]) -> Rows:
    """The table of diagnoses."""
    return [
        DIAGNOSIS_HEAD,
        *(
            [
                item.comparison.mitigation,
                rate_cell(item.baseline),
                rate_cell(item.treatment),
                item.without,
                difference_cell(item),
                tokens_cell(item),
            ]
            for item in items
        ),
    ]


def rate_cell(found: Repeated) -> str:
    """A side's rate with its interval, and of several runs each one's, and how many solve the task."""
    lines = [rate_of(found), interval(found.estimate.low, found.estimate.high)]
    if len(found.points) > 1:
        lines += [f"seeds {each_seed(found)}", f"{solved(found)} of all"]
    return "\n".join(lines)


def rate_of(found: Repeated) -> str:
    """A side's rate."""
    return f"{100 * found.estimate.mean:.{places(found.estimate.low, found.estimate.high)}f} %"


def difference_cell(item: Verdict) -> str:
    """The difference with the interval that it is judged by, and what lies behind it."""
    found = item.found
    low, high = found.interval(item.level)
    confidence = "" if item.level == ALONE else f" ({1 - item.level:.2%})"
    agree = "" if math.isnan(found.correlation) else f", correlation {round(found.correlation, 2) + 0:.2f}"
    return "\n".join(
        [
            f"{points(found.difference)} points",
            f"{points(low)} to {points(high)}{confidence}",
            f"{found.gained:.0f} gained, {found.lost:.0f} lost of {drawn(item)}{agree}",
        ]
    )


def drawn(item: Verdict) -> str:
    """What a comparison is on: `100 programs`, or `100 examples of 40 programs in 10 clusters`."""
    found, programs = item.found, item.programs
    said = f"{programs} program{'s' if programs > 1 else ''}"
    said = said if programs == found.examples else f"{found.examples} examples of {said}"
    return (
        said if found.clusters == programs else f"{said} in {found.clusters} cluster{'s' if found.clusters > 1 else ''}"
    )


def tokens_cell(item: Verdict) -> str:
    return "" if math.isnan(item.token_ratio) else f"x {item.token_ratio:.2f}"


def verdict_cell(item: Verdict) -> str:
    """The word, of what it is said, and what it leaves open."""
    assert item.word is not None
    idle = IDLE if told_idle(item) else ""
    lines = [str(item.word).capitalize(), scope(item), in_these_runs(item), idle, beside(item), *item.remarks]
    return "\n".join(filter(None, lines))


def told_idle(item: Verdict) -> bool:
    """Whether a word that speaks for a treatment is of one that has no more right than needs no model."""
    return item.idle and item.word in (VerdictWord.HELPED, VerdictWord.AS_GOOD)


def scope(item: Verdict) -> str:
    """Of what a verdict speaks."""
    before, after = item.found.seeds
    if item.found.repeated:
        return seeds_of(item)
    return "in this run" if before == after == 1 else "in these runs"


def in_these_runs(item: Verdict) -> str:
    """What is said of the runs where nothing is of their recipes."""
    if item.word is not VerdictWord.INCONCLUSIVE or not item.found.repeated or item.of_runs is VerdictWord.INCONCLUSIVE:
        return ""
    low, high = item.found.interval_of_runs(item.level)
    return f"in these runs {item.of_runs} ({points(low)} to {points(high)})"


def seeds_of(item: Verdict) -> str:
    """The seeds of a comparison that holds for others; a side without several is a model that was not trained."""
    before, after = item.found.seeds
    if item.found.same_runs:
        return f"{after} seeds, each on both sides"
    if min(before, after) > 1:
        return f"{after} seeds against {before}"
    first, second = (f"{count} seeds" if count > 1 else "a model as it is" for count in (after, before))
    return f"{first} against {second}"


def margin_of(item: Verdict) -> str:
    """What a treatment may lose that is called as good: `2 points`."""
    return f"{100 * item.comparison.margin:g} points"


def beside(item: Verdict) -> str:
    """What stands beside the word: what the comparison could have said, and what it takes to say more."""
    found, least = item.found, item.evidence.least
    match item.word:
        case VerdictWord.INCONCLUSIVE if item.refused:
            return f"not judged: {item.refused}"
        case VerdictWord.INCONCLUSIVE if not found.repeated:
            return f"seen from {100 * found.smallest(item.level):.0f} points on (power 80 %)"
        case VerdictWord.INCONCLUSIVE if "solved" in item.evidence.asked and not item.treatment.reachable:
            at = f"{100 * item.treatment.solved_at:.0f} %"
            return f"could not be decided: on so few programs not even a training that is always right is shown to reach {at}"
        case VerdictWord.INCONCLUSIVE if least >= item.level:
            return f"could not be decided: p is {least:.2g} at least with so few seeds, and the level {item.level:.2g}"
        case VerdictWord.INCONCLUSIVE if "rates" in item.evidence.asked:
            return f"seen from about {100 * found.smallest(item.level):.0f} points on (power 80 %, seeds as far apart as here)"
        case VerdictWord.INCONCLUSIVE:
            return f"could have been decided: p is {least:.2g} if all solve it against none"
        case VerdictWord.AS_GOOD:
            return f"loses less than {margin_of(item)}"
        case VerdictWord.WORSE if not found.repeated and found.interval(item.level)[0] > -item.comparison.margin:
            return f"by less than {margin_of(item)}"
        case VerdictWord.HELPED | VerdictWord.FIXED if found.repeated:
            return not_shown(item)
    return ""


def not_shown(item: Verdict) -> str:
    """What no seed may have shown: trainings that come out otherwise are missing from so few."""
    count = len(item.treatment.runs)
    share = (
        f"not shown: what up to {100 * most_failing(0, count):.0f} % of trainings may do that none of these {count} did"
    )
    needed = seeds_for_fixed(item.level)
    solves = item.treatment.solved == count and item.comparison.solved_at != "above chance"
    fewer = item.word is VerdictWord.HELPED and solves and count < needed
    return f"all seeds solve it; to say fixed takes {needed}\n{share}" if fewer else share


def seeds_for_fixed(level: float = ALONE) -> int:
    """How many seeds must solve a task, if all do, for more than half of all trainings to, with confidence 1 - `level`."""
    return next(count for count in range(1, 100) if clopper_pearson(count, count, level)[0] > 0.5)
