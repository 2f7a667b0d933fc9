"""Holds that a variant, or a run, is compared with its baseline on the same programs, and what is said of it."""

import math
from typing import Any

import pandas as pd
import pytest

from remedy.eval.report.comparison import Comparison
from remedy.eval.report.verdicts import Verdict, compute_verdicts
from remedy.eval.report.wording import (
    EVIDENCE_HEAD,
    evidence_row,
    headline,
    side_cell,
    tokens_of,
    verdict_cell,
    verdict_row,
)
from remedy.eval.stats import VerdictWord
from remedy.eval.tables.sections import WITHOUT
from remedy.settings import ConfigError
from tests.eval.made_records import made, together

WORSE, BETTER = [False] * 99 + [True], [True] * 100


def comparison(baseline: dict[str, Any], treatment: dict[str, Any], **settings: Any) -> Comparison:
    return Comparison.model_validate({"mitigation": "m", "baseline": baseline, "treatment": treatment, **settings})


def verdict_of(records: Any, before: str, after: str, **settings: Any) -> Verdict:
    return compute_verdicts([comparison({"run": before}, {"run": after}, **settings)], records)[0]


def test_the_verdict_of_two_runs() -> None:
    _, records = together(made(WORSE, run="a", tokens_state=100), made(BETTER, run="b", tokens_state=42))
    found = verdict_of(records, "a", "b")
    assert found.word is VerdictWord.FIXED
    assert (found.difference.gained, found.difference.lost, found.difference.examples) == (99, 0, 100)
    assert found.token_ratio == pytest.approx((42 + 15) / (100 + 15))
    assert verdict_of(records, "b", "a").word is VerdictWord.WORSE
    assert verdict_of(records, "b", "b").word is VerdictWord.AS_GOOD
    assert verdict_cell(found) == "In these runs fixed\none run each, not for other seeds"


def evidence(item: Verdict) -> dict[str, str]:
    return dict(zip(EVIDENCE_HEAD, evidence_row(item), strict=True))


def test_the_runs_of_a_variant_are_compared_together() -> None:
    parts = [made(WORSE, run=f"a-{seed}") for seed in range(6)] + [made(BETTER, run=f"b-{seed}") for seed in range(6)]
    variants = {f"{name}-{seed}": name for name in "ab" for seed in range(6)}
    _, records = together(*parts, variants=variants)
    found = verdict_of(records, "a", "b")
    assert (found.difference.seeds, found.difference.of_recipes, found.word) == ((6, 6), True, VerdictWord.FIXED)
    like_these = "in trainings like these (up to {} % of all may do what none of {} did)".format
    assert verdict_cell(found) == f"Fixed\n6 seeds each\n{like_these(39, 6)}"
    assert headline([found])[1].endswith(f", 6 seeds each, {like_these(39, 6)}.")
    about = evidence(found)
    assert about["p"] == "0.002\nthe seeds' rates"
    assert about["With it solved"] == "6 of 6\n54 to 100 % of all"
    assert side_cell(found, 1).endswith("seeds 100, 100, 100, 100, 100, 100")
    # One of its runs can be named too; then the words are of these runs.
    assert verdict_cell(verdict_of(records, "a", "b-0")) == "In these runs fixed\n1 run against 6, not for other seeds"
    # Three seeds can be told apart by how many solve the task; two cannot.
    few = verdict_of(records[records["run"].str.endswith(("0", "1", "2"))], "a", "b")
    assert verdict_cell(few) == f"Helped\n3 seeds each\n{like_these(63, 3)}"
    assert evidence(few)["Bounds"] == "all seeds solve it; to say fixed takes 6"
    assert evidence(few)["p"] == "0.031\nsolved trainings"
    two = verdict_of(records[records["run"].str.endswith(("0", "1"))], "a", "b")
    assert verdict_cell(two) == "Inconclusive\n2 seeds each\nin these runs fixed (+93.2 to +100.0)"
    assert evidence(two)["Bounds"] == "could show nothing: too few seeds"
    with pytest.raises(ConfigError, match="asks does nothing: a side has one seed"):
        verdict_of(records, "a", "b-0", asks="solved")
    with pytest.raises(ConfigError, match="solved_at: no guess is known for these programs"):
        verdict_of(records, "a", "b", solved_at="above chance")
    with pytest.raises(ConfigError, match=r"asks: rates cannot be tested with 2 seeds against 2: train 5 a side"):
        verdict_of(records[records["run"].str.endswith(("0", "1"))], "a", "b", asks="rates")


def test_more_than_a_guess_is_no_failure_that_is_gone() -> None:
    names = [(name, seed) for name in "ab" for seed in range(6)]
    parts = [made(BETTER if name == "b" else WORSE, run=f"{name}-{seed}", chance=0.3) for name, seed in names]
    _, records = together(*parts, variants={f"{name}-{seed}": name for name, seed in names})
    found = verdict_of(records, "a", "b", solved_at="above chance", asks="rates")
    assert (found.word, found.of_runs, found.treatment.solved_at) == (VerdictWord.HELPED, VerdictWord.HELPED, 0.3)
    assert evidence(found)["With it solved"] == "6 of 6 (at 30 %)\n54 to 100 % of all"
    assert evidence(found)["p"] == "0.002\nthe seeds' rates"


def test_as_good_as_a_guess_is_no_word() -> None:
    right = [True] * 40 + [False] * 60
    for chance, word in ((0.4, VerdictWord.INCONCLUSIVE), (0.1, VerdictWord.AS_GOOD)):
        names = [(name, seed) for name in "ab" for seed in range(5)]
        parts = [
            made(right, run=f"{name}-{seed}", chance=chance, true_answer=[*map(str, range(100))])
            for name, seed in names
        ]
        _, records = together(*parts, variants={f"{name}-{seed}": name for name, seed in names})
        found = verdict_of(records, "a", "b", margin=0.05)
        assert found.word is word
    assert verdict_cell(found).splitlines()[2] == (
        "loses less than 5 points in trainings like these (up to 45 % of all may do what none of 5 did)"
    )


def test_a_model_as_it_is_is_compared_with_all_seeds_of_a_recipe() -> None:
    """Harm has a word, and it is of the recipe: the model that was not trained would be the same beside other seeds."""
    knows = [True] * 90 + [False] * 10
    forgot = [[number % 10 < kept for number in range(100)] for kept in (4, 5, 5, 4, 5, 3)]
    parts = [made(knows, run="base"), *(made(right, run=f"b-{seed}") for seed, right in enumerate(forgot))]
    _, records = together(*parts, variants={f"b-{seed}": "b" for seed in range(6)} | {"base": "base"})
    compared = [comparison({"run": "base"}, {"run": "b"}, failure="forgetting")]
    (of_runs,), (of_recipe,) = compute_verdicts(compared, records), compute_verdicts(compared, records, ["base"])
    assert verdict_cell(of_runs).splitlines()[:2] == ["In these runs worse", "6 runs against 1, not for other seeds"]
    assert verdict_cell(of_recipe).splitlines()[:2] == ["Worse", "6 seeds against a model as it is"]
    assert of_recipe.difference.seeds == (1, 6)
    assert of_recipe.difference.mean == of_runs.difference.mean
    # Seeds that disagree say nothing of the recipe, whatever they say of themselves.
    apart = [[True] * 100, [True] * 60 + [False] * 40, [False] * 100]
    parts[1:] = [made(right, run=f"b-{seed}") for seed, right in enumerate(apart)]
    _, records = together(*parts, variants={f"b-{seed}": "b" for seed in range(3)} | {"base": "base"})
    assert compute_verdicts(compared, records)[0].word is VerdictWord.WORSE
    assert compute_verdicts(compared, records, ["base"])[0].word is VerdictWord.INCONCLUSIVE


def test_comparisons_share_the_level_of_one_but_for_the_primary() -> None:
    before, after = [True] * 50 + [False] * 50, [True] * 50 + [False] * 43 + [True] * 7
    _, records = together(made(before, run="a"), made(after, run="b"))
    alone = verdict_of(records, "a", "b")
    assert (alone.word, alone.level) == (VerdictWord.HELPED, 0.05)
    assert 0.05 / 6 < alone.evidence.p_value < 0.05
    sides = {"run": "a"}, {"run": "b"}
    six = compute_verdicts([comparison(*sides)] * 6, records)
    assert {(one.word, one.level) for one in six} == {(VerdictWord.AS_GOOD, 0.05 / 6)}
    assert "judged at 0.0083" in evidence(six[0])["p"]
    assert "(99.2 %)" in verdict_row(six[0])[4]
    first, *rest = compute_verdicts([comparison(*sides, primary=True), *[comparison(*sides)] * 6], records)
    assert (first.word, first.level) == (VerdictWord.HELPED, 0.05)
    assert {one.level for one in rest} == {0.05 / 6}
    with pytest.raises(ConfigError, match="'m' and 'm' are both primary"):
        compute_verdicts([comparison(*sides, primary=True)] * 2, records)


def test_sides_that_are_fed_different_roles_are_a_diagnosis() -> None:
    free, fed = ({"forcing": name} for name in ("free", "action_forced"))
    _, records = together(made(WORSE, labels=free), made(BETTER, labels=fed))
    sides = {"run": "run", "where": free}, {"run": "run", "where": fed}
    (found,) = compute_verdicts([comparison(*sides)], records)
    assert found.word is None
    assert found.difference.mean == pytest.approx(0.99)
    for setting in ({"primary": True}, {"margin": 0.1}, {"solved_at": 0.5}, {"asks": "solved"}):
        with pytest.raises(ConfigError, match=f"{next(iter(setting))} does nothing: its sides are fed different roles"):
            comparison(*sides, **setting)
    _, records = together(made(WORSE, run="a", labels=free), made(BETTER, run="b", labels=fed))
    with pytest.raises(ConfigError, match="primary does nothing: its sides are fed different roles"):
        verdict_of(records, "a", "b", primary=True)


def test_examples_are_paired_and_those_not_written_cost_nothing() -> None:
    before = made([False, False, True], run="a")
    changed = {"example": ["0002", "0001"], "cluster": ["0002", "0001"], "index": [2, 1], "tokens_state": [8, 0]}
    after = made([True, True], run="b", **changed).assign(tokens_structure=0, tokens_action=[1, 0], tokens_value=0)
    _, records = together(before, after)
    found = verdict_of(records, "a", "b")
    assert (found.difference.examples, found.difference.gained) == (2, 1)
    assert found.token_ratio == pytest.approx(9 / 23)
    tokens = ("tokens_structure", "tokens_action", "tokens_query", "tokens_state", "tokens_value")
    assert math.isnan(verdict_of(records.assign(**dict.fromkeys(tokens, 0)), "a", "b").token_ratio)


def test_what_a_comparison_lacks_is_said() -> None:
    _, records = together(
        *(
            made(WORSE, run="first", labels={"length": n, "forcing": f})
            for n in (3, 6)
            for f in ("free", "action_forced")
        )
    )
    full = {"length": 3, "forcing": "free"}
    for where, run, says in (
        (full, "frist", "did you mean 'first'"),
        ({**full, "lenght": 3}, "first", "did you mean 'length'"),
        ({"length": 7}, "first", "has no records"),
        ({"length": 3}, "first", r"leaves several conditions .* also fix \['forcing'\]"),
    ):
        with pytest.raises(ConfigError, match=says):
            compute_verdicts([comparison({"run": run, "where": where}, {"run": "first", "where": where})], records)
    with pytest.raises(ConfigError, match=r"no program in common \(length 6 against 3\)"):
        comparison({"run": "first", "where": full}, {"run": "first", "where": {**full, "length": 6}})
    other = made(WORSE, run="other", example=[f"x{n}" for n in range(100)])
    _, records = together(made(WORSE, run="first"), other)
    with pytest.raises(ConfigError, match="share no example"):
        verdict_of(records, "first", "other")


def frames(run: str, share: float, **columns: Any) -> Any:
    return made([False] * 40, run=run, states=10, state_exact=share, actions=5, action_exact=0.6, **columns)


def test_frames_are_compared_as_the_examples_of_their_programs() -> None:
    names = [(name, seed) for name in "ab" for seed in range(5)]
    parts = [frames(f"{name}-{seed}", 0.9 if name == "b" else 0.5) for name, seed in names]
    _, records = together(*parts, variants={f"{name}-{seed}": name for name, seed in names})
    found = verdict_of(records, "a", "b", metric="state")
    assert (found.word, found.difference.examples, found.difference.clusters) == (VerdictWord.HELPED, 400, 40)
    assert found.difference.mean == pytest.approx(0.4)
    assert headline([found])[1].startswith("m: 90 % against 50 % states right, +40 points")
    assert verdict_of(records, "a", "b", metric="action").difference.mean == 0
    with pytest.raises(ConfigError, match="metric state: the sides show other numbers of states"):
        verdict_of(
            together(frames("a", 0.5), frames("b", 0.9, tokens_query=1).assign(states=9))[1], "a", "b", metric="state"
        )
    with pytest.raises(ConfigError, match="solved_at: no guess is known for a state"):
        comparison({"run": "a"}, {"run": "b"}, metric="state", solved_at="above chance")


def counted(run: str, changed: int, unchanged: int) -> Any:
    """Programs of 10 states, of which 2 change; so many of either kind are right."""
    kinds = {"changed_states": 2, "unchanged_states": 8, "changed_states_right": changed}
    return frames(run, (changed + unchanged) / 10, **kinds, unchanged_states_right=unchanged)


def test_changed_states_are_compared_by_themselves_and_the_rule_stands_beside_all_of_them() -> None:
    _, records = together(counted("a", 1, 4), counted("b", 0, 7), counted("c", 2, 8))
    found = verdict_of(records, "a", "b", metric="state")
    assert (found.word, found.best_rule) == (VerdictWord.HELPED, ("nothing changed", 0.8))
    assert found.above_rule is not None
    low, high = found.above_rule.interval()
    assert found.above_rule.mean == pytest.approx(-0.1)
    assert -0.2 < low < -0.1 < high < 0
    said = "Below what is right without a model: 80 % (nothing changed), -10 points ("
    assert headline([found])[1].split(", one run each, not for other seeds. ")[1].startswith(said)
    assert evidence(found)[WITHOUT].startswith("80 %\nnothing changed\n-10 points (")
    assert "below nothing changed (80%)" in side_cell(found, 1)
    changed = verdict_of(records, "a", "b", metric="changed_state")
    assert (changed.word, changed.above_rule) == (VerdictWord.WORSE, None)
    assert (changed.baseline.estimate.mean, changed.difference.examples, changed.programs) == (0.5, 80, 40)
    assert "changed states right" in headline([changed])[1]
    assert (
        headline([verdict_of(records, "b", "c", metric="state")])[1]
        .split("seeds. ")[1]
        .startswith("Without a model 80")
    )


def test_changed_states_are_refused_where_none_are_counted() -> None:
    old = together(counted("a", 1, 4), counted("b", 0, 7))[1].drop(columns=["changed_states", "changed_states_right"])
    with pytest.raises(
        ConfigError, match=r"metric changed_state: records of 'a' do not count changed states.*evaluate"
    ):
        verdict_of(old, "a", "b", metric="changed_state")
    mixed = pd.concat([old, together(counted("c", 1, 4))[1]], ignore_index=True)
    with pytest.raises(ConfigError, match="records of 'a' do not count changed states"):
        verdict_of(mixed, "c", "a", metric="changed_state")
    assert verdict_of(mixed.drop(columns="unchanged_states"), "c", "a", metric="state").above_rule is None
    none = together(*(frames(run, 0.5, changed_states=0, changed_states_right=0) for run in "ab"))[1]
    with pytest.raises(ConfigError, match="these programs have no changed states"):
        verdict_of(none, "a", "b", metric="changed_state")
    fed = together(*(frames(run, 0.5, changed_states_right=math.nan) for run in "ab"))[1]
    with pytest.raises(ConfigError, match="has no own changed states: they are fed"):
        verdict_of(fed, "a", "b", metric="changed_state")


def test_tokens_are_those_that_were_written_where_a_model_writes_whole_traces() -> None:
    sides = (made(WORSE, run="a", tokens_state=100), made(BETTER, run="b", tokens_state=42, written_tokens=8))
    assert tokens_of(verdict_of(together(*sides)[1], "a", "b")) == "x 0.80 written\nx 0.50 in true traces"
    fed = [side.assign(forcing="action_forced") for side in sides]
    assert tokens_of(verdict_of(together(*fed)[1], "a", "b")) == "x 0.50"
