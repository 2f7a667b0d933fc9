"""The words of verdicts: the sentence on a comparison, and the cells of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remedy.eval.report.verdicts import ALONE, Verdict
from remedy.eval.stats import BAR, Question, RecipeRate, VerdictWord
from remedy.eval.stats.exact import most_failing
from remedy.eval.stats.power import decidable, seeds_for_fixed
from remedy.eval.tables.sections import WITHOUT, Rows, interval, places, points_of

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
"""The words of a metric: in a sentence, and where it is not right answers."""


def dots(item: Verdict) -> list[list[float]]:
    """Each seed of the baseline and of the treatment as its distance from the baseline's mean, in points; none of one."""
    sides = item.baseline, item.treatment
    if sum(len(side.points) for side in sides) <= 2:
        return [[], []]
    return [[100 * (point - item.baseline.estimate.mean) for point in side.points] for side in sides]


def headline(verdicts: Sequence[Verdict]) -> tuple[VerdictWord | None, str]:
    """The word and the sentence of the leading comparison; a sentence alone without any."""
    if not verdicts:
        return None, NOTHING
    item = leading(verdicts)
    known = f" ({confidence(item)} CI {_signed(item)})"
    aim = "" if item.comparison.failure == "any" else f" (meant for {item.comparison.failure})"
    sides = f"{_mean(item.treatment)} against {_mean(item.baseline)} {METRICS[item.comparison.metric][0]}{aim}"
    refused = f"not judged: {item.refused}" if item.refused else ""
    parts = [sides, difference_of(item) + known, scope(item), like_these(item), refused, item.unplanned]
    return item.word, f"{item.comparison.mitigation}: {', '.join(filter(None, parts))}.{beside_rule(item)}"


def beside_rule(item: Verdict) -> str:
    """A sentence on the treatment beside the best rule without a model, with a space before it; empty where none is known."""
    if item.above is None:
        return ""
    name, share = item.without
    start = "Below what is right without a model:" if item.above.difference < 0 else "Without a model"
    return f" {start} {100 * share:.0f} % ({name}), {points_of(item.above)}."


def leading(verdicts: Sequence[Verdict]) -> Verdict:
    """The primary comparison, or else the one with the least p-value."""
    primary = next((one for one in verdicts if one.comparison.primary), None)
    return primary or min(verdicts, key=lambda one: (one.evidence.p_value, -abs(one.found.difference)))


def counted(verdicts: Sequence[Verdict]) -> str:
    """The words of several comparisons with their counts; empty of one."""
    if len(verdicts) < 2:
        return ""
    which = "primary" if any(item.comparison.primary for item in verdicts) else "clearest"
    counts = {word: sum(item.word is word for item in verdicts) for word in VerdictWord}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"This is the {which} of {len(verdicts)} comparisons: {said}."


def undecidable(item: Verdict) -> str:
    """A sentence on a comparison that could have shown nothing, whatever its runs did; else empty."""
    said = bounds(item)
    return f"It {said}." if item.word is VerdictWord.INCONCLUSIVE and said.startswith("could show nothing") else ""


def confidence(item: Verdict) -> str:
    """The confidence of the interval that a comparison is judged by: `95 %`."""
    return f"{100 * (1 - item.level):.3g} %"


def scope(item: Verdict) -> str:
    """The runs that a verdict speaks of: `4 seeds each`, `3 seeds against a model as it is`, `one run each, not for other seeds`."""
    before, after = item.found.seeds
    if not item.found.of_recipes:
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


def like_these(item: Verdict) -> str:
    """The part of a word on recipes that no seed has shown; empty where nothing is decided, or the word bounds it itself."""
    good = item.word is VerdictWord.AS_GOOD
    if (
        not item.found.of_recipes
        or item.word in (None, VerdictWord.INCONCLUSIVE)
        or (good and item.evidence.asked == "solved")
    ):
        return ""
    loses = f"loses less than {100 * item.comparison.margin:g} points " if good else ""
    count = min(seeds for seeds in item.found.seeds if seeds > 1)
    share = f"up to {100 * most_failing(0, count):.0f} % of all may do what none of {count} did"
    return f"{loses}in trainings like these ({share})"


def drawn(item: Verdict) -> str:
    """The programs of a comparison: `100 programs`, or `100 examples of 40 programs, 10 of them independent`."""
    said = plural(item.programs, "program")
    if item.comparison.metric != "answer":
        return said
    if item.programs != item.found.examples:
        said = f"{item.found.examples} examples of {said}"
    return said if item.found.clusters == item.programs else f"{said}, {item.found.clusters} of them independent"


def plural(count: int, noun: str) -> str:
    """A count of things: `1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def difference_of(item: Verdict) -> str:
    """The difference in a few words: `+62 points`."""
    found = 100 * item.found.difference
    return f"{found:+.0f} points" if round(found) else "0 points"


def _signed(item: Verdict) -> str:
    low, high = item.interval
    return f"{100 * low:+.0f} to {100 * high:+.0f}"


def _mean(side: RecipeRate) -> str:
    mean, low, high = side.estimate[:3]
    return f"{100 * mean:.{places(low, high)}f} %"


def verdict_row(item: Verdict) -> list[str]:
    """One line of the verdict table, under `VERDICT_HEAD`."""
    about = item.comparison
    aim = f"meant for {about.failure}" if about.failure != "any" else ""
    what = METRICS[about.metric][1]
    said = (f"right {what}" if what else "", aim, "the primary comparison" if about.primary else "")
    small = ", ".join(filter(None, said))
    return [_lines(about.mitigation, small), verdict_cell(item), *_sides(item)]


def verdict_cell(item: Verdict) -> str:
    """The word, and in small print the runs that it speaks of, what no seed has shown, what was not planned, the word of these runs
    where nothing is said of their recipes, a floor or a ceiling of both sides, and whether their budgets differ."""
    of_runs = both = ""
    undecided = item.word is VerdictWord.INCONCLUSIVE and item.found.of_recipes
    if undecided and item.of_runs is not VerdictWord.INCONCLUSIVE:
        low, high = item.found.interval_of_runs(item.level)
        of_runs = f"in these runs {item.of_runs} ({100 * low:+.1f} to {100 * high:+.1f})"
    means = item.baseline.estimate.mean, item.treatment.estimate.mean
    if means[0] == means[1] and means[0] in (0.0, 1.0):
        both = f"both at {100 * means[0]:.0f} %: {CEILING if means[0] else FLOOR}"
        known = [loss for loss in item.losses if not math.isnan(loss)]
        both += f"; validation loss {known[1]:.2g} against {known[0]:.2g}" if len(known) == 2 else ""
    unequal = "budgets differ: see Evidence" if any(one.startswith("unequal") for one in item.remarks) else ""
    return _lines(str(item.word).capitalize(), scope(item), like_these(item), item.unplanned, of_runs, both, unequal)


def side_cell(item: Verdict, place: int) -> str:
    """The rate of the baseline (0) or the treatment (1) with its interval, each seed's, and remarks that belong beside it."""
    side = (item.baseline, item.treatment)[place]
    low, high = side.estimate.low, side.estimate.high
    lines = [_mean(side), interval(low, high)]
    if len(side.points) > 1:
        lines.append(f"seeds {', '.join(f'{100 * point:.0f}' for point in side.points)}")
    if cut := item.truncated[place]:
        lines.append(f"{'all' if cut == 1 else f'{100 * cut:.0f} %'} truncated by the limit on tokens")
    name, share = item.without
    if share >= 0.01 and low <= share:
        lines.append(f"{'below' if high < share else 'no better than'} {name} ({share:.0%})")
    return _lines(*lines)


def _sides(item: Verdict) -> list[str]:
    known = _signed(item) + ("" if item.level == ALONE else f" ({confidence(item)})")
    return [side_cell(item, 0), side_cell(item, 1), _lines(difference_of(item), known), tokens_of(item)]


def tokens_of(item: Verdict) -> str:
    """The ratio of the tokens that the models wrote, where they wrote whole traces, and of the true traces'."""
    true = "" if math.isnan(item.token_ratio) else f"x {item.token_ratio:.2f}"
    return true if math.isnan(item.written_ratio) else f"x {item.written_ratio:.2f} written\n{true} in true traces"


def diagnosis_rows(items: Sequence[Verdict]) -> Rows:
    """The table of diagnoses."""
    return [DIAGNOSIS_HEAD, *([item.comparison.mitigation, *_sides(item)] for item in items)]


def evidence_row(item: Verdict) -> list[str]:
    """One line on what a word rests on, under `EVIDENCE_HEAD`."""
    asked, found, (name, share), p = item.evidence.asked, item.found, item.without, item.evidence.p_value
    tests = [
        f"{p:.3f}" if p >= 0.001 else "<\N{NO-BREAK SPACE}0.001",
        OF[asked] if asked else "",
        "" if item.level == ALONE else f"judged at {item.level:.2g}",
    ]
    moved = f"{found.gained:.0f} gained, {found.lost:.0f} lost" if item.comparison.metric == "answer" else ""
    return [
        item.comparison.mitigation,
        _lines(*tests) if asked or not found.of_recipes else "",
        *(solved_of(side) if found.of_recipes else "" for side in (item.baseline, item.treatment)),
        _lines(f"{100 * share:.0f} %", name, points_of(item.above)) if item.above else "",
        _lines(drawn(item) if item.programs else "", moved),
        bounds(item),
        "\n".join(remark.removeprefix("unequal: ").replace("; ", "\n") for remark in item.remarks),
    ]


def solved_of(side: RecipeRate) -> str:
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
        case VerdictWord.INCONCLUSIVE:
            matched = found.matched and max(found.seeds) > 1
            seen = decidable(about.asks, item.baseline.solved_at, found.seeds, matched, found.clusters, item.level)
            return f"could show {seen}" + ("" if seen.startswith("nothing") or "power" in seen else " (power 80 %)")
        case VerdictWord.AS_GOOD:
            return f"loses less than {100 * about.margin:g} points"
        case VerdictWord.WORSE if not found.of_recipes and item.interval[0] > -about.margin:
            return f"by less than {100 * about.margin:g} points"
        case VerdictWord.HELPED | VerdictWord.FIXED if found.of_recipes:
            count, needed = len(item.treatment.runs), seeds_for_fixed(item.level)
            solves = item.treatment.solved == count and about.solved_at != "above chance"
            fewer = item.word is VerdictWord.HELPED and solves and count < needed
            return f"all seeds solve it; to say fixed takes {needed}" if fewer else ""
    return ""


def _lines(*parts: str) -> str:
    return "\n".join(filter(None, parts))
