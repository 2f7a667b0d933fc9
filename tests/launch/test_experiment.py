"""Experiments: how groups become runs, what is refused before anything is trained, and how progress is shown."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from remedy.checksums import read_json
from remedy.launch.experiment import ExperimentConfig, Group, members
from remedy.launch.jobs import Job, expand, prepare
from remedy.launch.runner import record_plan
from remedy.models.config import DecoderSettings
from remedy.settings import ConfigError, UserError, apply_changes, build, load
from tests.eval.made_records import made, write_evaluation
from tests.launch.in_process import remedy
from tests.launch.sweep import SWEEP

BASE: dict[str, Any] = {
    "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}, "format": "symbolic"},
    "tokenizer": {"kind": "symbols"},
    "train": {"curriculum": [{"steps": 2, "set": {"task.length": 2}}, {"steps": 8, "set": {"task.length": 4}}]},
}
EXPERIMENT: dict[str, Any] = {
    "name": "e",
    "output": "runs/e",
    "groups": {
        "g": {
            "base": BASE,
            "runs": {"a": {}, "b": {"tracking.report_to": [], "train.curriculum.1.set": {"task.length": 3}}},
            "evaluate": {"diagnostics": [{"kind": "permutation", "lengths": [2], "examples": 20}]},
            "evaluate_runs": {"b": {"diagnostics.0.lengths": [5]}},
        }
    },
}


def experiment(**changes: Any) -> ExperimentConfig:
    return build(ExperimentConfig, apply_changes(EXPERIMENT, {k.replace("__", "."): v for k, v in changes.items()}))


def test_runs_and_their_evaluations_are_changed_in_one_grammar() -> None:
    a, b = expand(experiment(), "e")
    assert [job.train.train.curriculum[1].set for job in (a, b)] == [{"task.length": 4}, {"task.length": 3}]
    assert [job.evaluate.model_dump()["diagnostics"][0]["lengths"] for job in (a, b)] == [(2,), (5,)]
    assert (a.train.tracking.group, a.train.tracking.tags) == ("e", ("g", "a"))
    assert b.train.tracking.group is None  # not tracked


def test_an_experiment_is_tried_out_by_two_overrides() -> None:
    for job in expand(experiment(max_steps=5, max_examples=4), "e"):
        assert job.train.train.stage_ends() == [1, 5]
        assert job.evaluate is not None
        assert job.evaluate.model_dump()["diagnostics"][0]["examples"] == 4
    with pytest.raises(ConfigError, match=r"e: groups\.g\.runs\.a: .*max_steps \(1\) must be at least 2: one for each"):
        expand(experiment(max_steps=1), "e")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        *((name, None) for name in ("", "..", "a\n")),
        ("../../x", "x"),
        ("a b,seed=1", "a-b-seed-1"),
        ("x=[1, 2]", "x-1-2"),
    ],
)
def test_folders_of_runs_are_inside_the_experiments_and_safe_in_a_shell(name: str, part: str | None) -> None:
    group = {**EXPERIMENT["groups"]["g"], "evaluate_runs": {}}
    for groups in ({name: {**group, "runs": {"a": {}}}}, {"g": {**group, "runs": {name: {}}}}):
        config = build(ExperimentConfig, {**EXPERIMENT, "groups": groups})
        if part is None:
            with pytest.raises(ConfigError, match="cannot name the folder of a group or run"):
                expand(config, "e")
        else:
            (job,) = expand(config, "e")
            assert job.folder in (Path("runs/e/g", part), Path("runs/e", part, "a"))


def test_a_base_may_hold_what_one_of_its_runs_does_not_use(tmp_path: Path) -> None:
    base = {"data": {"task": {"kind": "permutation"}}, "model": {"num_attention_heads": 2}}
    runs: dict[str, Any] = {"a": {"model.mixers": ["attention"]}, "g": {"model.mixers": ["gru"]}}
    evaluate = {"diagnostics": [{"kind": "permutation", "lengths": [2]}]}

    def jobs(**changes: Any) -> list[Job]:
        group = {"base": base, "runs": {**runs, **changes}, "evaluate": evaluate}
        return expand(build(ExperimentConfig, {"name": "e", "output": str(tmp_path), "groups": {"x": group}}), "e.yaml")

    attention, gru = (job.train.model for job in jobs())
    assert isinstance(attention, DecoderSettings)
    assert isinstance(gru, DecoderSettings)
    assert (attention.num_attention_heads, gru.num_attention_heads) == (2, None)
    with pytest.raises(ConfigError, match=r"groups\.x\.runs\.g: model: num_attention_heads 2 does nothing with"):
        jobs(g={"model.mixers": ["gru"], "model.num_attention_heads": 2})


SIDE = {"run": "a"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"groups.g.runs.a": {"train.seed": 1}, "groups.g.grid": {"train.seed": [2]}}, "since `grid` sets it"),
        ({"groups.g.evaluate.load_in_4bit": True}, "groups.g.runs.a: evaluate.load_in_4bit is for pretrained models"),
        (
            {"comparisons": [{"mitigation": "m", "baseline": SIDE, "treatment": {"run": "bb"}}]},
            "comparisons.0.treatment.run: no variant or run 'bb'; ",
        ),
        (
            {"comparisons": [{"mitigation": "m", "baseline": {**SIDE, "where": {"lengh": 2}}, "treatment": SIDE}]},
            "comparisons.0.baseline.where: records of 'a' have no label 'lengh'; did you mean 'length'?",
        ),
        ({"groups.g.seeds": [1], "groups.g.runs.a": {"train.data_seed": 3}}, "since `seeds` sets it"),
        ({"groups.g.runs": {"a/b": {}, "a-b": {}}, "groups.g.evaluate_runs": {}}, "would share runs/e/g/a-b: rename"),
    ],
)
def test_what_would_do_nothing_is_refused_before_training(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        expand(build(ExperimentConfig, apply_changes(EXPERIMENT, changes)), "e")
    assert says in str(refused.value)


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    job = expand(experiment(output=str(tmp_path)), "e")[0]
    prepare(job)
    prepare(job)
    path = job.folder / "train.yaml"
    written = path.read_text()
    for other in (written.replace("n: 3", "n: 4"), written[: len(written) // 2]):
        path.write_text(other)
        with pytest.raises(UserError, match="holds a run of other settings; delete it or choose another output"):
            prepare(job)


def test_what_is_compared_is_written_down_before_the_runs_and_not_after_them(tmp_path: Path) -> None:
    config = experiment(output=str(tmp_path / "early"), groups__g__evaluate_runs={})
    record_plan(config, expand(config, "e"))
    plan = read_json(tmp_path / "early" / "plan.json", "")
    assert [one["treatment"]["run"] for one in plan["comparisons"]] == ["b"]
    assert plan["seeds"] == {"a": 0, "b": 0}
    late = experiment(output=str(tmp_path / "late"))
    jobs = expand(late, "e")
    write_evaluation(jobs[0].folder / "evaluation", made([True] * 20, run="a", labels={"length": 2, "horizon": 2}))
    record_plan(late, jobs)
    assert not (tmp_path / "late" / "plan.json").exists()


def test_runs_that_differ_in_their_seeds_alone_are_one_variant() -> None:
    changes: dict[str, Any] = {"a": {}, "again": {"train.seed": 1}, "b": {"data.seed": 1}, "c": {"train.batch_size": 8}}
    jobs = expand(experiment(groups__g__runs=changes, groups__g__evaluate_runs={}), "e")
    assert {job.name: job.variant for job in jobs} == {"a": "a", "again": "a", "b": "b", "c": "c"}


def test_the_baseline_is_the_run_that_is_marked() -> None:
    def marked(**runs: Any) -> ExperimentConfig:
        return experiment(groups__g__runs=runs, groups__g__evaluate_runs={})

    config = marked(a={}, b={"train.batch_size": 8, "baseline": True})
    assert config.baselines == ["b"]
    assert [job.name for job in expand(config, "e")] == ["a", "b"]
    swept = experiment(
        groups__g__runs={"b": {"baseline": True}}, groups__g__evaluate_runs={}, groups__g__grid={"train.seed": [3, 4]}
    )
    assert swept.baselines == ["b,seed=3"]
    for runs in ({"a": {"baseline": True}, "b": {"baseline": True}}, {"a": {"baseline": "yes"}}):
        with pytest.raises(ConfigError, match="write `baseline: true` at one run"):
            marked(**runs)


def test_an_experiment_says_which_of_its_runs_are_missing_and_judges_without_them_if_it_is_told(tmp_path: Path) -> None:
    path, output = tmp_path / "e.yaml", tmp_path / "e"
    tracked = {"output": str(output), "groups.g.seeds": [0, 1], "groups.g.base.tracking": {"report_to": []}}
    path.write_text(yaml.safe_dump(apply_changes(EXPERIMENT, tracked)))
    jobs = expand(load(ExperimentConfig, path), "e")
    assert "no evaluation or measurement found there" in remedy(["run", path, "--report-only"]).errors
    for job in jobs[:-1]:
        rows = made([job.variant == "b"] * 20, run=job.name, labels={"length": 4, "horizon": 4})
        write_evaluation(job.folder / "evaluation", rows, variant=job.variant)

    def reported(*words: str) -> str:
        assert remedy(["run", path, "--report-only", *words]).status == 0
        return (output / "report" / "report.md").read_text()

    assert "not judged: missing: b,seed=1 (--partial judges the others)" in reported()
    assert "Missing: b,seed=1; recipes are judged without it (--partial)." in reported("--partial")
    assert "--partial does nothing without --report-only" in remedy(["run", path, "--partial"]).errors


def test_a_grid_is_every_combination_and_a_seed_is_no_part_of_the_variant() -> None:
    group = Group(
        base={}, evaluate={}, runs={"a": {"x": 1}, "b": {}}, grid={"model.mixers": (["gru"],), "train.seed": (0, 1)}
    )
    found = members(group)
    assert [m.name for m in found] == [f"{run},mixers=gru,seed={seed}" for run in "ab" for seed in (0, 1)]
    assert [m.variant for m in found] == ["a,mixers=gru"] * 2 + ["b,mixers=gru"] * 2
    assert found[0].changes == {"x": 1, "model.mixers": ["gru"], "train.seed": 0}


def test_seeds_of_a_group_initialise_and_order_the_data_and_another_world_is_another_variant() -> None:
    swaps = {**SWEEP["groups"]["swaps"], "grid": {"data.seed": [5, 6]}, "seeds": [0, 1]}
    jobs = expand(ExperimentConfig.model_validate({**SWEEP, "groups": {"swaps": swaps}}), "s")
    assert (jobs[1].name, jobs[1].variant) == ("data.seed=5,seed=1", "data.seed=5")
    assert [(job.train.train.seed, job.train.train.data_seed, job.train.data.seed) for job in jobs] == [
        (seed, seed, world) for world in (5, 6) for seed in (0, 1)
    ]
