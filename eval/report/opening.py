"""What a report says first, from its verdicts alone: what is cured and by what, what that costs in tokens, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from remedy.eval.report.seeds import solved
from remedy.eval.report.verdicts import ALONE, Verdict
from remedy.eval.report.wording import drawn, in_these_runs, margin_of, rate_of, scope, seeds_of, told_idle
from remedy.eval.stats import VerdictWord
from remedy.eval.stats.differences import SEEDS_A_SIDE
from remedy.eval.stats.words import least_p
from remedy.eval.tables.sections import points

NOTHING = (
    "Nothing is compared here, so nothing is said to cure a failure.",
    "What traces cost in tokens is set against no baseline either.",
    "A verdict takes two recipes, or two runs, that were evaluated on the same programs.",
)
MOST_NAMED = 3
"""Of comparisons with one word, so many are named; the table has all."""
SAME = 1e-9
"""Sides that are nearer to each other than this do not differ."""
MOST_TIMES = 1000
"""What would take more programs than so many times those at hand is not worth a figure."""


def opening(verdicts: Sequence[Verdict]) -> tuple[str, str, str]:
    """Three sentences. Of several comparisons they are on the primary one, if there is one, and else on all together."""
    if not verdicts:
        return NOTHING
    primary = [item for item in verdicts if item.comparison.primary]
    if not primary and len(verdicts) > 1:
        return _outcomes(verdicts), _costs(verdicts), _certainties(verdicts)
    item = (primary or list(verdicts))[0]
    return _outcome(item), _cost(item), _certainty(item, [other for other in verdicts if other is not item])


def _outcome(item: Verdict) -> str:
    """Which failure is cured by what, or that none is; and of what that is said, this run or recipes over seeds."""
    name, failure, where = _name(item), item.comparison.failure, _where(item)
    of = "failure" if failure == "any" else f"failure it is meant for ({failure})"
    match item.word:
        case VerdictWord.FIXED:
            said = f"{name} fixed the {of}{where}"
        case VerdictWord.HELPED:
            said = f"{name} helped, but is not shown to have fixed the {of}{where}"
        case VerdictWord.AS_GOOD:
            said = f"{name} is as good as its baseline{where}: it loses less than {margin_of(item)}, and is not shown to gain anything"
        case VerdictWord.WORSE:
            said = f"{name} is worse than its baseline{where}"
        case _ if failure == "forgetting":
            said = f"Inconclusive: whether {name} forgets more or less than its baseline{where}"
        case _:
            said = f"Inconclusive: whether {name} does anything to the {of}{where}"
    start = "The primary comparison: " if item.comparison.primary else ""
    if "solved" in item.evidence.asked and item.treatment.reachable:
        said += f"; {_solved(item)}"
    idle = f", and {item.without.splitlines()[0]} without a model" if told_idle(item) else ""
    return f"{start}{said}; {rate_of(item.treatment)} of its answers are right, {rate_of(item.baseline)} of the baseline's{idle}."


def _solved(item: Verdict) -> str:
    """`4 of 4 trainings solve it (33 % or more), 0 of 4 of the baseline's`."""
    first, second = (f"{side.solved} of {len(side.runs)}" for side in (item.treatment, item.baseline))
    return f"{first} trainings solve it ({100 * item.treatment.solved_at:.0f} % or more), {second} of the baseline's"


def _where(item: Verdict) -> str:
    return f" ({scope(item)})" if item.found.repeated else f" {scope(item)}"


def _cost(item: Verdict) -> str:
    if math.isnan(item.token_ratio):
        return "What it costs in tokens is not known, since no program has a trace on both sides."
    return f"Its traces have {item.token_ratio:.2f} times the tokens of the baseline's."


def _certainty(item: Verdict, others: Sequence[Verdict]) -> str:
    """The interval, of what it is, what would decide it, and what became of the other comparisons."""
    parts = [f"The difference is {_difference(item)}, on {drawn(item)}, {_scope(item)}"]
    if runs := in_these_runs(item):
        parts.append(runs)
    if item.word is VerdictWord.INCONCLUSIVE:
        parts.append(f"it is not judged: {item.refused}" if item.refused else decisive(item))
    if others:
        parts.append(f"of the other comparisons {_counted(others, lambda word, items: str(word))}")
    return "; ".join(parts) + "."


def _scope(item: Verdict) -> str:
    before, after = item.found.seeds
    if item.found.repeated:
        return f"with {seeds_of(item)}: {solved(item.treatment)} of all, against {solved(item.baseline)}"
    runs = "one training a side" if before == after == 1 else f"{after} trainings against {before}"
    return f"with {runs}, so it is of these runs alone: other seeds may say otherwise"


def decisive(item: Verdict) -> str:
    """What would decide a comparison if the difference is as it was seen."""
    found, margin, seen = item.found, item.comparison.margin, "if the difference is as it was seen"
    nothing_to_lose = item.baseline.estimate.mean <= margin
    centre = found.difference if found.repeated else found.runs.centre
    far = abs(centre) >= (SAME if nothing_to_lose else margin)
    if nothing_to_lose and not far:
        why = f"the baseline has no more right than the {margin_of(item)} that it may lose"
        return f"{seen}, no number of programs decides it: {why}"
    if found.repeated and not item.treatment.reachable and "rates" not in item.evidence.asked:
        return "on so few programs no training can be shown to solve the task"
    if found.repeated and not far:
        count = math.ceil(math.log(item.level) / math.log(1 - margin))
        return f"to show that less than {margin_of(item)} are lost takes {count} seeds a side that all solve the task"
    times = found.times(abs(centre) if far else margin + centre, item.level)
    said = f"about {math.ceil(times):,}" if times <= MOST_TIMES else f"more than {MOST_TIMES:,}"
    if found.repeated:
        return f"{seen} and seeds lie as far apart as here, about {_seeds(item, times):,} a side would mostly tell it from 0"
    end = "tell it from 0" if far else f"show that less than {margin_of(item)} are lost"
    return f"{seen}, {said} times the programs would mostly {end}"


def _seeds(item: Verdict, times: float) -> int:
    """So many times the seeds, and as many as a test of their rates takes to reach the level."""
    found = item.found
    matched = found.same_runs or min(found.seeds) == 1
    count = max(math.ceil(min(times, MOST_TIMES) * (max if matched else min)(found.seeds)), SEEDS_A_SIDE)
    while least_p("rates", (count, count), matched) >= item.level:
        count += 1
    return count


def _outcomes(verdicts: Sequence[Verdict]) -> str:
    """How many comparisons have each word, and which."""

    def said(word: VerdictWord, items: Sequence[Verdict]) -> str:
        if word is VerdictWord.INCONCLUSIVE:
            return str(word)
        named = [f"{_name(item)}{_meant(item)}, {_difference(item)}, {scope(item)}" for item in items[:MOST_NAMED]]
        more = [f"{len(items) - MOST_NAMED} more"] if len(items) > MOST_NAMED else []
        return f"{word} ({'; '.join([*named, *more])})"

    none = "" if any(item.word is VerdictWord.FIXED for item in verdicts) else "none fixed the failure: "
    return f"Of {len(verdicts)} comparisons {none}{_counted(verdicts, said)}."


def _counted(verdicts: Sequence[Verdict], said: Callable[[VerdictWord, Sequence[Verdict]], str]) -> str:
    groups = [(word, [item for item in verdicts if item.word is word]) for word in VerdictWord]
    return ", ".join(f"{len(items)} {said(word, items)}" for word, items in groups if items)


def _costs(verdicts: Sequence[Verdict]) -> str:
    """What the traces cost of those that fixed something; if none did, of those that helped, or else are as good."""
    for word in (VerdictWord.FIXED, VerdictWord.HELPED, VerdictWord.AS_GOOD):
        items = [item for item in verdicts if item.word is word]
        known = [item for item in items if not math.isnan(item.token_ratio)]
        if known:
            named = [f"{item.token_ratio:.2f} with {_name(item)}" for item in known[:MOST_NAMED]]
            rest = len(items) - len(named)
            left = f"; {rest} more in the table" if rest else ""
            return (
                f"Of what is called {word}, traces have so many times the baseline's tokens: {', '.join(named)}{left}."
            )
        if items:
            return (
                f"What it costs in tokens where it is {word} is not known, since no program has a trace on both sides."
            )
    return "Nothing is fixed, helped or as good whose tokens could be set against the baseline's."


def _certainties(verdicts: Sequence[Verdict]) -> str:
    """How many are of recipes, and what would have been seen where nothing is decided."""
    repeated = [item for item in verdicts if item.found.repeated]
    seeds = sorted({count for item in repeated for count in item.found.seeds if count > 1})
    span = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else f"{seeds[0]} seeds" if seeds else ""
    if not repeated:
        said = "All are of single runs alone, and other seeds may say otherwise"
    elif len(repeated) == len(verdicts):
        said = f"All have {span} a side and speak of recipes"
    else:
        said = f"{len(repeated)} of {len(verdicts)} have {span} a side and speak of recipes; the others are of these runs alone"
    impossible = [
        item
        for item in repeated
        if item.word is VerdictWord.INCONCLUSIVE and not item.refused and item.evidence.least >= item.level
    ]
    if impossible:
        said += f"; {len(impossible)} could not have been decided with so few seeds"
    return f"{said}."


def _difference(item: Verdict) -> str:
    low, high = item.found.interval(item.level)
    confidence = "95 %" if item.level == ALONE else f"{100 * (1 - item.level):.2f} %"
    normally = " if seeds vary normally" if item.found.repeated else ""
    return f"{points(item.found.difference)} points, {confidence} interval {points(low)} to {points(high)}{normally}"


def _name(item: Verdict) -> str:
    return f"“{item.comparison.mitigation}”"


def _meant(item: Verdict) -> str:
    return "" if item.comparison.failure == "any" else f" for {item.comparison.failure}"
