"""Holds that a report's first sentences say what its verdicts say, and nothing else."""

import math
import re
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.eval.report.opening import MOST_NAMED, NOTHING, decisive, opening
from remedy.eval.report.verdicts import Comparison, Side, Verdict
from remedy.eval.report.wording import verdict_row
from remedy.eval.stats import VerdictWord, compare, levels, over_seeds, weigh


def verdict(before: Any, after: Any, ratio: float = 0.5, level: float = 0.05, **settings: Any) -> Verdict:
    sides = {"baseline": Side(run="a"), "treatment": Side(run="b")}
    comparison = Comparison.model_validate({"mitigation": "M", **sides, **settings})
    baseline, treatment = (np.atleast_2d(np.asarray(side, dtype=float)) for side in (before, after))
    found = compare(baseline, treatment)
    first, second = over_seeds(baseline), over_seeds(treatment)
    evidence, inconclusive = weigh(found, first, second), VerdictWord.INCONCLUSIVE
    item = Verdict(
        comparison, found, first, second, evidence, level, ratio, inconclusive, inconclusive, baseline.shape[1], ""
    )
    return item.judged(level)


BAD, GOOD = [False] * 99 + [True], [True] * 100


def test_one_comparison_of_two_runs() -> None:
    assert opening([verdict(BAD, GOOD, 0.42, failure="strings")]) == (
        "“M” fixed the failure it is meant for (strings) in this run; 100 % of its answers are right, 1 % of the baseline's.",
        "Its traces have 0.42 times the tokens of the baseline's.",
        "The difference is +99.0 points, 95 % interval +93.2 to +100.0, on 100 programs, with one training a side, so it is of these "
        "runs alone: other seeds may say otherwise.",
    )


def test_a_primary_comparison_of_recipes_among_others() -> None:
    primary = verdict([BAD] * 6, [GOOD] * 6, math.nan, primary=True)
    first, cost, sure = opening([verdict(GOOD, BAD), primary, verdict(GOOD, GOOD), verdict(GOOD, GOOD)])
    assert first.startswith("The primary comparison: “M” fixed the failure (6 seeds against 6); 100 % of its answers")
    assert cost == "What it costs in tokens is not known, since no program has a trace on both sides."
    assert "with 6 seeds against 6: solved 6 of 6, 54 to 100 % of all, against solved 0 of 6, 0 to 46 %" in sure
    assert sure.endswith("; of the other comparisons 2 as good, 1 worse.")


def test_nothing_compared() -> None:
    assert opening([]) == NOTHING


def test_many_comparisons_are_counted_and_the_first_few_named() -> None:
    many = [verdict(BAD, GOOD, mitigation=f"m{n}") for n in range(5)] + [verdict(GOOD[:9], GOOD[:8] + [False])]
    outcome, cost, sure = opening(many)
    assert outcome.startswith("Of 6 comparisons 5 fixed (“m0”, +99.0 points, 95 % interval")
    assert outcome.count(", in this run") == 3
    assert outcome.endswith("; 2 more), 1 inconclusive.")
    assert cost == (
        "Of what is called fixed, traces have so many times the baseline's tokens: 0.50 with “m0”, 0.50 with “m1”, 0.50 with “m2”; "
        "2 more in the table."
    )
    assert sure.startswith("All are of single runs alone, and other seeds may say otherwise.")
    none = opening(many[-1:] * 2)
    assert none[0] == "Of 2 comparisons none fixed the failure: 2 inconclusive."
    assert none[1] == "Nothing is fixed, helped or as good whose tokens could be set against the baseline's."


def test_what_would_decide_a_comparison_mostly_does() -> None:
    """Of runs that truly differ by as much as was seen, so many times the programs show it about four times in five."""
    generator = np.random.default_rng(0)
    seen = verdict([True] * 50 + [False] * 50, [True] * 43 + [False] * 45 + [True] * 12)
    assert seen.word is VerdictWord.INCONCLUSIVE
    times = int(re.findall(r"about (\d+) times the programs would mostly tell it from 0", decisive(seen))[0])
    rates = [0.43, 0.07, 0.12, 0.38]  # right on both sides, lost, gained, wrong on both
    told = 0
    for _ in range(200):
        kinds = generator.choice(4, 100 * times, p=rates)
        told += verdict(kinds < 2, (kinds == 0) | (kinds == 2)).word is VerdictWord.HELPED
    assert 0.72 < told / 200 < 0.95


SIDES = st.tuples(st.integers(1, 7), st.sampled_from([0.0, 0.3, 0.5, 0.9, 0.97, 1.0]))


@st.composite
def reports(draw: st.DrawFn) -> list[Verdict]:
    """The verdicts of a report, made up: any sizes, seeds, rates, failures, one primary or none."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 6))
    primary = draw(st.integers(-1, count - 1))
    found = []
    for number in range(count):
        (first, low), (second, high) = draw(SIDES), draw(SIDES)
        programs = draw(st.sampled_from([1, 2, 30, 400]))
        if number == primary:
            first, second = (1, 1) if draw(st.booleans()) else (first, second)
        sides = [generator.random((seeds, programs)) < rate for seeds, rate in ((first, low), (second, high))]
        ratio = draw(st.sampled_from([math.nan, 0.25, 1.0, 3.0]))
        failure = draw(st.sampled_from(["any", "strings", "token budget", "wrong action", "lost state"]))
        found.append(verdict(*sides, ratio, mitigation=f"m{number}", failure=failure, primary=number == primary))
    shared = levels([item.evidence.p_value for item in found], 0.05)
    return [item if item.comparison.primary else item.judged(level) for item, level in zip(found, shared)]


ONE = {
    VerdictWord.FIXED: "” fixed the failure",
    VerdictWord.HELPED: " helped, but is not shown to have fixed the failure",
    VerdictWord.AS_GOOD: " is as good as its baseline",
    VerdictWord.WORSE: " is worse than its baseline",
    VerdictWord.INCONCLUSIVE: "Inconclusive: whether ",
}


@settings(max_examples=80, deadline=None)
@given(reports())
def test_the_sentences_never_contradict_the_table(verdicts: list[Verdict]) -> None:
    outcome, cost, sure = opening(verdicts)
    assert all(
        sentence.endswith(".") and "nan" not in sentence and "inf" not in sentence for sentence in (outcome, cost, sure)
    )
    primary = [item for item in verdicts if item.comparison.primary]
    if primary or len(verdicts) == 1:
        check_one((primary or verdicts)[0], outcome, cost, sure)
        return
    for kind in VerdictWord:
        items = [item for item in verdicts if item.word is kind]
        counts = re.findall(rf"(\d+) {kind}\b", outcome)
        assert counts == ([str(len(items))] if items else [])
        for item in items[:MOST_NAMED] if kind is not VerdictWord.INCONCLUSIVE else ():
            row = verdict_row(item)
            assert f"“{row[0]}”{'' if row[8] == 'any' else f' for {row[8]}'}, {row[5].splitlines()[0]}, " in outcome
            normally = " if seeds vary normally" if item.found.repeated else ""
            assert f"{row[5].splitlines()[1].split(' (')[0]}{normally}, {row[1].splitlines()[1]}" in outcome
    assert ("none fixed" in outcome) == all(item.word is not VerdictWord.FIXED for item in verdicts)
    for ratio, name in re.findall(r"([\d.]+) with “(m\d)”", cost):
        (item,) = [one for one in verdicts if one.comparison.mitigation == name]
        assert verdict_row(item)[7] == f"x {ratio}"
        assert item.word is not None
        assert f"called {item.word}," in cost
    assert ("All are of single runs" in sure) == (not any(item.found.repeated for item in verdicts))
    assert (re.match(r"All have \d", sure) is not None) == all(item.found.repeated for item in verdicts)
    impossible = [
        item for item in verdicts if item.word is VerdictWord.INCONCLUSIVE and item.evidence.least >= item.level
    ]
    assert ("could not have been decided" in sure) == bool(impossible)


def check_one(item: Verdict, outcome: str, cost: str, sure: str) -> None:
    """The sentences on one comparison, against its line of the table."""
    row = verdict_row(item)
    assert [kind for kind, said in ONE.items() if said in outcome] == [item.word]
    assert row[1].splitlines()[1] in outcome.split("; ")[0]
    assert outcome.startswith("The primary comparison: ") == ("the primary comparison" in row[0])
    assert re.findall(r"([\d.]+ %) of its answers are right, ([\d.]+ %) of", outcome) == [
        (row[3].splitlines()[0], row[2].splitlines()[0])
    ]
    assert (f"({row[8]})" in outcome) == (
        row[8] != "any" and item.word in (VerdictWord.FIXED, VerdictWord.HELPED, VerdictWord.INCONCLUSIVE)
    )
    assert re.findall(r"([\d.]+) times", cost) == ([row[7][2:]] if row[7] else [])
    assert row[5].splitlines()[0] in sure
    assert row[5].splitlines()[1].split(" (")[0] in sure
    assert item.found.repeated == ("of these runs alone" not in sure)
    said = (
        "if the difference is as it was seen",
        "a side that all solve the task",
        "no training can be shown to solve",
    )
    assert any(one in sure for one in said) == (item.word is VerdictWord.INCONCLUSIVE)


def test_sides_that_are_alike_are_decided_by_more_programs_unless_there_is_nothing_to_lose() -> None:
    few, none = [True] * 3, [False] * 400
    assert "show that less than 2 points are lost" in decisive(verdict(few, few))
    assert verdict(none, none).word is VerdictWord.INCONCLUSIVE
    assert "no more right than the 2 points that it may lose" in decisive(verdict(none, none))
    some = [True] * 3 + [False] * 397
    assert verdict(none, some).word is VerdictWord.INCONCLUSIVE
    assert "tell it from 0" in decisive(verdict(none, some))
