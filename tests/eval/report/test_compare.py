"""Logs of lm-evaluation-harness and inspect_ai, written by them (`examples/harness_logs/make.py`), judged by our rules."""

import json
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.report.compare import compare_logs
from remedy.eval.report.logs import LogOptions, read_logs
from remedy.eval.stats import VerdictWord
from remedy.launch.tools import compare
from remedy.settings import UserError
from tests.eval.report.harness_logs import inspect_log, samples, table

LOGS = Path("examples/harness_logs")
# Means and standard errors as the harnesses printed them; of the last two seeds, by their formula.
LM_EVAL = {
    "base": [(8 / 24, 0.0983), (10 / 24, 0.1028), (11 / 24, 0.1039), (6 / 24, 0.0903), (14 / 24, 0.1028)],
    "treated": [(16 / 24, 0.0983), (20 / 24, 0.0777), (18 / 24, 0.0903), (17 / 24, 0.0948), (20 / 24, 0.0777)],
}
INSPECT = {"base": (8 / 24, 0.0983), "treated": (16 / 24, 0.0983)}
HALF = [0, 1] * 12


def test_lm_eval_means_and_errors_are_ours_too() -> None:
    (verdict,) = compare_logs(LOGS / "lm_eval/base", LOGS / "lm_eval/treated").verdicts
    for side, name in ((verdict.baseline, "base"), (verdict.treatment, "treated")):
        for mine, (mean, error) in zip(side.runs, LM_EVAL[name], strict=True):
            assert mine.mean == pytest.approx(mean)
            assert (mine.high - mine.low) / 2 / 1.96 == pytest.approx(
                error, rel=0.15
            )  # theirs: the normal approximation
    assert verdict.difference.seeds == (5, 5)
    assert verdict.difference.examples == 24
    assert verdict.word is VerdictWord.HELPED


def test_what_runs_show_and_what_is_not_known_of_other_trainings_are_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [tmp_path / side for side in ("base", "treated")]
    for side in sides:
        for seed in range(3):
            shutil.copytree(LOGS / "lm_eval" / side.name / f"seed-{seed}", side / f"seed-{seed}")
    said = "In these runs helped. treated in place of base on reverse: 75 % against 40 % right, +35 points ("
    compare(*sides, tmp_path / "out")
    printed = capsys.readouterr().out
    assert printed.startswith(said)
    assert "Of other trainings: not known with 3 seeds; 5 a side would show this difference (power 80 %)." in printed
    assert "Of trainings these seeds could decide nothing: 24 programs cannot show 95%" in printed
    page = (tmp_path / "out" / "report.md").read_text()
    assert f"**{said.replace('. ', '.** ', 1)}" in page
    assert 'class="word inconclusive">In these runs helped<' in (tmp_path / "out" / "report.html").read_text()
    compare(*(side / "seed-0" for side in sides), tmp_path / "single")
    assert "In these runs helped. " in capsys.readouterr().out


def test_epochs_of_a_sample_are_one_cluster() -> None:
    (verdict,) = compare_logs(LOGS / "inspect/base", LOGS / "inspect/treated").verdicts
    assert (verdict.difference.examples, verdict.difference.clusters) == (48, 24)
    for side, (mean, error) in ((verdict.baseline, INSPECT["base"]), (verdict.treatment, INSPECT["treated"])):
        assert side.estimate.mean == pytest.approx(mean)
        assert (side.estimate.high - side.estimate.low) / 2 / 1.96 == pytest.approx(error, rel=0.15)
    assert (verdict.difference.gained, verdict.difference.lost) == (16, 0)
    assert verdict.word is VerdictWord.HELPED


def test_examples_that_no_log_scores_are_counted(tmp_path: Path) -> None:
    """Of a sample without any score, one that another scorer alone has scored, and ones whose scorer failed (NaN, in JSON null)."""
    both, wrong = {"exact": {"value": "C"}, "length": {"value": 3}}, {"exact": {"value": "I"}}
    failed = [{**both, "exact": {"value": value}} for value in (math.nan, None)]
    sides = [
        inspect_log(tmp_path / name, [first, both, None, {"length": both["length"]}, *failed])
        for name, first in (("a.json", wrong), ("b.json", both))
    ]
    assert compare_logs(*sides, LogOptions(metric="exact")).remarks == [
        *(f"{side}: 4 of 6 examples have no score, the first of them '2-1'." for side in sides),
        "b in place of a on reverse: 4 of 6 examples are not scored in every log: left out.",
    ]
    several = inspect_log(tmp_path / "c.json", [{"x": {"value": {"a": value, "b": 1}}} for value in (1, None)])
    assert list(read_logs(several, LogOptions(metric="a"))["right"]) == [True, None]


def test_a_log_is_not_compared_with_itself(tmp_path: Path) -> None:
    log = table(tmp_path / "a.csv", [1] * 6)
    (tmp_path / "b.csv").symlink_to(log)
    for other in (log, tmp_path, tmp_path / "b.csv"):
        with pytest.raises(UserError, match=r"a\.csv: is on both sides: give logs of two models"):
            compare_logs(log, other)


def test_tasks_share_the_level_and_what_does_not_pair_is_said(tmp_path: Path) -> None:
    right, wrong = [1] * 30 + [0] * 10, [0] * 10 + [1] * 17 + [0] * 13
    before = table(tmp_path / "before.csv", wrong * 2, task=["one"] * 40 + ["two"] * 40)
    after = table(tmp_path / "after.csv", right * 2 + [1], task=["one"] * 40 + ["two"] * 41)
    pd.DataFrame({"id": [1], "right": [1], "task": ["three"]}).to_csv(tmp_path / "more.csv", index=False)
    found = compare_logs(before, after)
    assert max(one.level for one in found.verdicts) <= 0.05
    assert found.remarks == ["two: 1 of 41 examples are not scored in every log: left out."]
    with pytest.raises(UserError, match="share no task"):
        compare_logs(before, tmp_path / "more.csv")


@pytest.mark.parametrize(
    ("right", "columns", "how", "message"),
    [
        ([0.5, 1.0], {}, LogOptions(), "neither right .1. nor wrong .0.: say .*--right-from"),
        ([1, 0], {}, LogOptions(cluster="family"), "has no field 'family'"),
        ([1, 0], {}, LogOptions(metric="acc"), "has no score 'acc'"),
        (["yes", "no"], {}, LogOptions(), "which is no number"),
    ],
)
def test_what_cannot_be_judged_is_said(
    tmp_path: Path, right: list, columns: dict, how: LogOptions, message: str
) -> None:
    path = table(tmp_path / "a.csv", right, **columns)
    with pytest.raises(UserError, match=message):
        compare_logs(path, shutil.copy(path, tmp_path / "b.csv"), how)


@pytest.mark.parametrize(
    ("right", "written"), [(HALF, "x"), ([0] * 12, "x"), ([0, 1] * 30, "")], ids=["texts", "all wrong", "scores"]
)
def test_copies_of_a_log_are_no_seeds_and_no_sides(tmp_path: Path, right: list[int], written: str) -> None:
    one, other = (samples(tmp_path / f"base/samples_t_{date}.jsonl", right, written) for date in (1, 2))
    treated = samples(tmp_path / "treated/samples_t_1.jsonl", [1] * len(right), "x")
    with pytest.raises(UserError, match=rf"{one} and baseline {other} agree on all {len(right)} .*: they are one log"):
        compare_logs(tmp_path / "base", treated)
    with pytest.raises(UserError, match=f"{one} and treatment {other} agree on all .*: both sides are identical"):
        compare_logs(one, other)


@pytest.mark.parametrize(
    ("right", "written"),
    [([1] * 40, "x"), ([0] * 40, ""), ([0, 1] * 9, "x"), ([0, 1] * 29, "")],
    ids=["all right", "all wrong, no texts", "few texts", "few scores"],
)
def test_logs_that_agree_by_what_may_be_chance_are_said(tmp_path: Path, right: list[int], written: str) -> None:
    for seed in range(3):
        samples(tmp_path / f"base/seed-{seed}/samples_t_1.jsonl", right, written)
    samples(tmp_path / "treated/samples_t_1.jsonl", [1, *right[1:-1], 1 - right[-1]], "y")
    (remark,) = compare_logs(tmp_path / "base", tmp_path / "treated").remarks
    first, second = (tmp_path / f"base/seed-{seed}/samples_t_1.jsonl" for seed in (0, 1))
    assert remark == (
        f"treated in place of base on t: baseline {first} and baseline {second} agree on all {len(right)} examples that they "
        "share, and may be one log."
    )


def test_a_copy_with_changes_is_said(tmp_path: Path) -> None:
    one, other, treated = (
        samples(tmp_path / f"{name}/samples_t_1.jsonl", HALF, name[0]) for name in ("a/0", "a/1", "b")
    )
    lines = one.read_text().splitlines()
    other.write_text("\n".join([lines[0].replace("a0", "another"), *lines[1:]][::-1]))
    (remark,) = compare_logs(tmp_path / "a", treated).remarks
    assert f" agree on {len(HALF) - 1} of {len(HALF)} examples that they share, and may be one log." in remark


def test_equal_scores_of_other_answers_are_two_logs(tmp_path: Path) -> None:
    one, other = (samples(tmp_path / f"{side}/samples_t_1.jsonl", [0, 1] * 40, side) for side in ("a", "b"))
    assert compare_logs(one, other).remarks == []


def test_a_task_in_which_a_treatment_changes_nothing_is_one_of_several(tmp_path: Path) -> None:
    for side, right in (("a", HALF), ("b", [1] * 24)):
        samples(tmp_path / side / "samples_same_1.jsonl", HALF, "x")
        samples(tmp_path / side / "samples_other_1.jsonl", right, "x")
    found = compare_logs(tmp_path / "a", tmp_path / "b")
    assert [len(found.verdicts), len(found.remarks)] == [2, 1]
    assert "agree on all 24 examples" in found.remarks[0]


def test_a_column_seed_says_that_rows_are_trainings(tmp_path: Path) -> None:
    seeds: list[object] = [1] * 60 + [2] * 60
    before = table(tmp_path / "before.csv", [0, 1] * 60, id=[*range(60)] * 2, seed=seeds)
    after = table(tmp_path / "after.csv", [1] * 120, id=[*range(60)] * 2, seed=seeds)
    found = compare_logs(before, after)
    assert found.verdicts[0].difference.seeds == (2, 2)
    assert "before.csv 1 and baseline " in found.remarks[0]


def test_other_prompts_and_settings_of_lm_eval_are_said(tmp_path: Path) -> None:
    for side, shots, limit, temperature in (("a", 0, None, 0.0), ("b", 5, None, 0.7)):
        folder = tmp_path / side
        samples(folder / "samples_t_1.jsonl", [0, 1] if side == "a" else [1, 1], side, prompt_hash=f"{shots}-shot")
        about = {"config": {"limit": limit}, "n-shot": {"t": shots}}
        generation = {"until": ["\n"], "temperature": temperature}
        (folder / "results_1.json").write_text(
            json.dumps(about | {"configs": {"t": {"generation_kwargs": generation}}})
        )
    one, other = (
        f"{run} {tmp_path / side / 'samples_t_1.jsonl'}" for run, side in (("baseline", "a"), ("treatment", "b"))
    )
    assert compare_logs(tmp_path / "a", tmp_path / "b").remarks == [
        f"b in place of a on t: n-shot is 0 in {one}, and 5 in {other}.",
        f"b in place of a on t: temperature is 0.0 in {one}, and 0.7 in {other}.",
        f"b in place of a on t: the prompt differs on 2 of 2 examples: that of '0-00000000' is 0-shot in {one}, and 5-shot in {other}.",
    ]


def test_other_prompts_and_settings_of_inspect_ai_are_said(tmp_path: Path) -> None:
    for side, temperature in (("a", 0), ("b", 1)):
        path = inspect_log(
            tmp_path / f"{side}.json", [{"exact": {"value": value}} for value in ("IC" if side == "a" else "CC")]
        )
        log = json.loads(path.read_text())
        log["eval"] |= {
            "config": {"limit": 2} if side == "a" else {},
            "model_generate_config": {"temperature": temperature},
        }
        asked = {"role": "user", "content": f"As {side}?"}
        shot, answer = ({"role": "assistant", "source": source, "content": "x"} for source in ("input", "generate"))
        for sample in log["samples"]:
            sample["messages"] = [asked, shot, answer, {"role": "tool", "content": side}]
        path.write_text(json.dumps(log))
    remarks = [line.partition(": ")[2] for line in compare_logs(tmp_path / "a.json", tmp_path / "b.json").remarks]
    one, other = f"in baseline {tmp_path}/a.json", f"in treatment {tmp_path}/b.json"
    assert remarks == [
        f"limit is 2 {one}, and not set {other}.",
        f"temperature is 0 {one}, and 1 {other}.",
        f"the prompt differs on 2 of 2 examples: that of '0-1' is ['As a?', 'x'] {one}, and ['As b?', 'x'] {other}.",
    ]


def test_names_in_logs_do_not_act_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = []
    for side, right in (("before", [0, 0, 1]), ("after", [1, 0, 1])):
        rows = [{"id": f"{n}\u202e", "right": one, "task": "\x1b]0;x\x07"} for n, one in enumerate(right)]
        sides.append(tmp_path / f"{side}.jsonl")
        sides[-1].write_text("".join(json.dumps(row) + "\n" for row in rows[len(sides) - 1 :]))
    compare(*sides, tmp_path / "out")
    said = capsys.readouterr().out
    assert "\\x1b]0;x\\x07" in said
    assert all(line.isprintable() for line in said.splitlines())
