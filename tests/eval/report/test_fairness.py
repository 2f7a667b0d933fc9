"""What may be compared: sides that were evaluated alike, that are different models, and of which no planned run is missing."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from remedy.checksums import read_json
from remedy.eval.report.comparison import Comparison
from remedy.eval.report.fairness import same_weights, unequal
from remedy.eval.report.page import compose, report
from remedy.eval.report.planned import write_plan, write_runs
from remedy.eval.report.verdicts import Verdict
from remedy.eval.report.wording import evidence_row
from remedy.eval.stats import VerdictWord
from remedy.settings import UserError
from tests.eval.made_records import made, write_evaluation
from tests.eval.report.test_runs import TRAINING

LABELS = {"length": 4, "horizon": 4}
ASKED: dict[str, Any] = {"max_new_tokens": 4096, "batch_size": 100, "split": "test", "set": {}, "threads": 1}
VLLM = {"server": "vllm", "version": "0.32.0", "model": "m", "longest": 4096, "batch_invariant": "on"}


def compared(folder: Path, cut: tuple[float, float], *limits: int, **request: Any) -> Verdict:
    """The verdict on a run that is always right against one that never is, of which these shares are truncated by these limits."""
    folders = [
        write_evaluation(
            folder / run,
            made([right] * 100, run=run, labels=LABELS, truncated=[number < 100 * share for number in range(100)]),
            evaluation={**ASKED, "max_new_tokens": limit},
            **request,
        )
        for run, right, share, limit in zip("ab", (False, True), cut, limits)
    ]
    return compose(folders).verdicts[0]


@pytest.mark.parametrize(
    ("cut", "limits", "judged", "said"),
    [
        ((1.0, 0.0), (4, 4096), False, "100 % of the baseline's and 0 % of the treatment's examples are truncated"),
        ((0.04, 0.0), (600, 4096), True, "max_new_tokens 4,096 against 600"),
        ((1.0, 0.0), (600, 600), True, ""),  # the failure that sparse states are to cure
    ],
)
def test_a_side_that_its_own_limit_cuts_is_not_judged(
    tmp_path: Path, cut: tuple[float, float], limits: tuple[int, int], judged: bool, said: str
) -> None:
    found = compared(tmp_path, cut, *limits)
    assert (found.word is not VerdictWord.INCONCLUSIVE) is judged
    assert bool(found.refused) is not judged
    assert said in "\n".join(evidence_row(found))
    assert ("max_new_tokens" in evidence_row(found)[-1]) is (limits[0] != limits[1])


def read_as(precision: str, **evaluation: Any) -> Mapping[str, Any]:
    return {"evaluation": {**ASKED, **evaluation}, "reading": {"precision": precision}}


@pytest.mark.parametrize(
    ("baseline", "treatment", "says"),
    [
        ({"evaluation": ASKED}, {"evaluation": {**ASKED, "threads": 8, "set": {"reveal.spacing": 4}}}, []),
        (read_as("float32"), read_as("bfloat16"), ["precision bfloat16 against float32"]),
        (read_as("float32"), {"evaluation": ASKED}, []),  # of one side it is not known
        (read_as("float32"), read_as("float32", batch_size=8), []),  # rounds alike, but for ties
        (read_as("bfloat16"), read_as("bfloat16", batch_size=8), ["batch_size 8 against 100"]),
        (
            {"evaluation": ASKED, "backend": VLLM},
            {"evaluation": ASKED, "backend": {**VLLM, "longest": 2048}},
            ["longest sequence of the server 2,048 against 4,096"],
        ),
        ({}, {"quantization": "nf4"}, ["weights in 4 bits (NF4) against as they are"]),
        ({}, {"checkpoint": {"parameters": 7}}, []),  # of one side it is not known
        ({"checkpoint": {"parameters": 9}}, {"checkpoint": {"parameters": 7}}, ["parameters 7 against 9"]),
        (
            {"evaluation": ASKED},
            {"evaluation": {**ASKED, "max_new_tokens": 4, "new_limit": True}},
            ["max_new_tokens 4 against 4,096"],
        ),
    ],
)
def test_evaluations_that_differ_are_said_to(baseline: Any, treatment: Any, says: list[str]) -> None:
    assert unequal([baseline], [treatment]) == says
    assert unequal([baseline] * 3, [treatment] * 2) == says
    assert bool(unequal([treatment], [baseline])) == bool(says)


def test_vocabularies_of_equal_settings_that_differ_are_said() -> None:
    def run(size: int, fingerprint: str) -> dict[str, Any]:
        return {"checkpoint": {"tokenizer": {"kind": "bpe", "vocab_size": size}, "tokenizer_fingerprint": fingerprint}}

    assert unequal([run(400, "1")], [run(400, "1")]) == unequal([run(400, "1")], [run(500, "2")]) == []
    assert unequal([run(400, "1")], [run(400, "2")]) == [
        "vocabularies, each trained on its own run's text by the same settings"
    ]


def test_one_model_under_two_names_is_named() -> None:
    def run(name: str, weights: str) -> dict[str, Any]:
        return {"run": name, "checkpoint": {"weights": weights}}

    assert same_weights([run("a", "1")], [run("a", "1")]) == []  # two conditions of a run
    assert same_weights([run("a", "1"), run("b", "2")], [run("c", "3")]) == []
    assert same_weights([run("a", "1")], [run("c", "1")]) == ["the same weights: a and c"]
    assert same_weights([run("a", "1"), run("b", "1")], [run("c", "3")]) == ["the same weights: a and b"]


def experiment(folder: Path) -> Path:
    """Two recipes of three seeds, evaluated where an experiment has them."""
    for variant, right in (("a", False), ("b", True)):
        for seed in range(3):
            run = f"{variant},seed={seed}"
            rows = made([right] * 100, run=run, labels=LABELS)
            write_evaluation(folder / "group" / run / "evaluation", rows, variant=variant)
    runs = sorted(path.parent for path in folder.glob("group/*/evaluation"))
    write_runs(folder, {f"group/{run.name}": {"run": run.name, "variant": run.name[0]} for run in runs})
    return folder


def test_nothing_is_judged_of_a_recipe_until_all_of_its_planned_runs_are_there(tmp_path: Path) -> None:
    folder = experiment(tmp_path)
    whole = compose([folder])
    assert (whole.remarks[:-1], whole.verdicts[0].refused) == ([], "")
    assert whole.verdicts[0].word is not VerdictWord.INCONCLUSIVE
    with pytest.raises(UserError, match="--partial does nothing, since no run is missing"):
        compose([folder], partial=True)
    chosen = [folder / "group" / f"{run},seed={seed}" for run in "ab" for seed in (0, 2)]  # the worst ones left out
    (verdict,) = compose(chosen).verdicts
    assert (verdict.word, verdict.refused) == (
        VerdictWord.INCONCLUSIVE,
        "missing: a,seed=1; b,seed=1 (--partial judges the others)",
    )
    shutil.rmtree(folder / "group" / "b,seed=1" / "evaluation")
    lacking = compose([folder])
    assert lacking.remarks[0] == "Missing: b,seed=1; no recipe is judged without all of its runs."
    assert ["b,seed=1", "all"] in next(one for one in lacking.sections if one.title == "Missing").rows
    assert lacking.verdicts[0].refused
    judged = compose([folder], partial=True)
    assert judged.remarks[0] == "Missing: b,seed=1; recipes are judged without it (--partial)."
    assert not judged.verdicts[0].refused


def test_what_departs_from_the_plan_is_said_at_the_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, plan = experiment(tmp_path / "<i>"), tmp_path / "<i>" / "plan.json"
    sides = {"baseline": {"run": "a", "where": LABELS}, "treatment": {"run": "b", "where": LABELS}}
    of_states = {"mitigation": "n", **sides, "metric": "state", "margin": 0.05}
    first = Comparison.model_validate({"mitigation": "m", **sides, "primary": True})
    second = Comparison.model_validate(of_states)

    def departs(*comparisons: Comparison) -> str:
        return compose([folder], comparisons).verdicts[0].unplanned.partition(" UTC: ")[2]

    def planned(seeds: int) -> None:
        write_plan(folder, (first, second), {f"{name},seed={seed}": seed for name in "ab" for seed in range(seeds)})

    assert departs(first) == ""
    planned(3)
    written = plan.read_bytes()
    assert departs(first.model_copy(update={"mitigation": "another name"}), second) == ""
    assert departs(first) == "1 of the planned comparisons left out"
    other = first.model_copy(update={"solved_at": 0.5, "primary": False})
    assert departs(other, second) == "solved_at 0.5, planned 0.95, primary False, planned True"
    back = first.model_copy(update={"baseline": first.treatment, "treatment": first.baseline, "primary": False})
    assert departs(back, first, second) == "this comparison was not planned"
    planned(2)
    assert plan.read_bytes() == written
    assert "plan.json: others were planned on 20" in caplog.text
    plan.unlink()
    planned(2)
    page = report([folder], tmp_path / "report", (first, second))
    more = "UTC: 2 runs with seeds that were not planned: a,seed=2; b,seed=2"
    names = ("report.html", "report.md", "report.json")
    assert all(more in (page.parent / name).read_text() for name in names)
    assert f"m: not as planned on {read_json(plan, '')['time'][:-3]}{more}" in caplog.text
    plan.write_text("{}")
    with pytest.raises(UserError, match=r"plan.json: is damaged .*: put it back as it was before the runs"):
        compose([folder], [first])


CHOSEN = {"chosen": {"train.learning_rate": 0.004}}


@pytest.mark.parametrize(
    ("baseline", "treatment", "says"),
    [
        ({}, {}, []),
        ({}, {"tokens": 1_230_000, "flops": 3.5e12, "seed": 1}, []),
        ({}, {"steps": 1600, "examples": 51_200}, ["steps 1,600 against 800", "examples 51,200 against 25,600"]),
        ({}, {"tokens": 400_000}, ["tokens 400,000 against 1,200,000"]),
        ({}, {"flops": 5e12}, ["FLOPs 5e+12 against 3.4e+12"]),
        ({}, {"learning_rate": 0.002}, ["learning rate 0.002 against 0.004"]),
        ({}, CHOSEN, ["learning rate chosen on validation against 0.004"]),
        (CHOSEN, {"learning_rate": 0.002, "chosen": {"train.learning_rate": 0.002}}, []),
        (None, {}, ["only the treatment was trained here"]),
        ({"steps": 0, "examples": 0, "tokens": 0, "flops": 0.0}, {}, ["only the treatment was trained here"]),
    ],
)
def test_what_is_unequal_is_said_and_nothing_else(
    baseline: dict[str, Any] | None, treatment: dict[str, Any] | None, says: list[str]
) -> None:
    sides = [[{"training": None if side is None else {**TRAINING, **side}}] for side in (baseline, treatment)]
    assert unequal(*sides) == says
    assert bool(unequal(*reversed(sides))) == bool(says)
    assert unequal(sides[0] * 3, sides[1] * 2) == says
