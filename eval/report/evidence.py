"""The evidence of verdicts: tests, solved trainings, and what a comparison could have said."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remedy.eval.report.comparison import NUMBERS
from remedy.eval.report.verdicts import ALONE, Verdict
from remedy.eval.report.wording import drawn
from remedy.eval.stats import BAR, Question, Repeated, VerdictWord, clopper_pearson, power_of_solved, rate
from remedy.eval.stats.differences import RUNS_ON_BOTH, SEEDS_A_SIDE
from remedy.eval.stats.exact import most_failing
from remedy.eval.stats.power import RATE, SPREAD, smallest_difference
from remedy.eval.stats.words import least_p
from remedy.eval.tables.sections import WITHOUT, interval

OF: dict[Question, str] = {"solved": "solved trainings", "rates": "the seeds' rates"}
EVIDENCE_HEAD = ["Compared", "p", "Baseline solved", "With it solved", WITHOUT, "Programs", "Bounds", "Unequal"]


def evidence_row(item: Verdict) -> list[str]:
    """One line on what a word rests on, under `EVIDENCE_HEAD`."""
    asked, found, (name, share) = item.evidence.asked, item.found, item.without
    p = item.evidence.p_value
    tests = [
        f"{p:.3f}" if p >= 0.001 else "<\N{NO-BREAK SPACE}0.001",
        " and ".join(OF[question] for question in asked),
        "level shared" if len(asked) > 1 else "",
        "" if item.level == ALONE else f"judged at {item.level:.2g}",
    ]
    rates = found.repeated and item.comparison.metric not in NUMBERS
    moved = f"{found.gained:.0f} gained, {found.lost:.0f} lost" if item.comparison.metric == "answer" else ""
    return [
        item.comparison.mitigation,
        "\n".join(filter(None, tests)) if asked or not found.repeated else "",
        *(solved_of(side) if rates else "" for side in (item.baseline, item.treatment)),
        f"{100 * share:.0f} %\n{name}" if name else "",
        "\n".join(filter(None, [drawn(item) if item.programs else "", moved])),
        bounds(item),
        "\n".join(remark.removeprefix("unequal: ").replace("; ", "\n") for remark in item.remarks),
    ]


def solved_of(side: Repeated) -> str:
    """The trainings that solve the task, and the share of all trainings that would: `3 of 4`, `19 to 99 % of all`."""
    at = "" if side.solved_at == BAR else f" (at {100 * side.solved_at:.0f} %)"
    if not side.reachable:
        return f"unknown: too few programs{at}"
    return f"{side.solved} of {len(side.runs)}{at}\n{interval(*side.share)} of all"


def bounds(item: Verdict) -> str:
    """The bounds of a word: what the comparison could have said, and what it takes to say more."""
    found, about = item.found, item.comparison
    match item.word:
        case VerdictWord.INCONCLUSIVE if item.refused:
            return f"not judged: {item.refused}"
        case VerdictWord.INCONCLUSIVE if about.metric in NUMBERS:
            few = about.metric == "loss" and not item.evidence.tests
            return f"losses are judged from {SEEDS_A_SIDE} seeds a side on" if few else ""
        case VerdictWord.INCONCLUSIVE:
            matched = found.same_runs or min(found.seeds) == 1 < max(found.seeds)
            seen = decidable(about.asks, item.baseline.solved_at, found.seeds, matched, found.clusters, item.level)
            return f"could show {seen}" + ("" if seen.startswith("nothing") or "power" in seen else " (power 80 %)")
        case VerdictWord.AS_GOOD:
            return f"loses less than {100 * about.margin:g} points"
        case VerdictWord.WORSE if not found.repeated and item.interval[0] > -about.margin:
            return f"by less than {100 * about.margin:g} points"
        case VerdictWord.HELPED | VerdictWord.FIXED if found.repeated and about.metric not in NUMBERS:
            return _not_shown(item)
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
        return f"nothing: {clusters} programs cannot show {solved_at:.0%}, even if all are right; {programs_for(solved_at)} can"
    if all(least_p(question, (whole[0], whole[1]), matched) >= level for question in asks):
        return "nothing: too few seeds"
    if "rates" in asks:
        return points_seen
    if matched:
        return "trainings that solve it on one side alone"
    return f"0 against 90 % of trainings that solve it (power {power_of_solved((0.0, 0.9), (whole[0], whole[1]), level):.0%})"


def programs_for(solved_at: float) -> int:
    """The programs that show a rate of `solved_at` if all are right."""
    least, most = 0, 1
    while rate([True] * most).low < solved_at:
        least, most = most, 2 * most
    return next(count for count in range(least + 1, most + 1) if rate([True] * count).low >= solved_at)


def undecidable(item: Verdict) -> str:
    """A sentence on a comparison that could have shown nothing, whatever its runs did; else empty."""
    said = bounds(item)
    return f"It {said}." if item.word is VerdictWord.INCONCLUSIVE and said.startswith("could show nothing") else ""


def _not_shown(item: Verdict) -> str:
    """The share of trainings that may come out otherwise, though none of these did."""
    count, needed = len(item.treatment.runs), seeds_for_fixed(item.level)
    share = f"up to {100 * most_failing(0, count):.0f} % of trainings may do what none of these {count} did"
    solves = item.treatment.solved == count and item.comparison.solved_at != "above chance"
    fewer = item.word is VerdictWord.HELPED and solves and count < needed
    return f"all seeds solve it; to say fixed takes {needed}\n{share}" if fewer else share


def seeds_for_fixed(level: float = ALONE) -> int:
    """The seeds that must solve a task, if all do, for more than half of all trainings to, with confidence 1 - `level`."""
    return next(count for count in range(1, 100) if clopper_pearson(count, count, level)[0] > 0.5)
