"""Holds that an experiment's plan says runs, cost and what can be seen, and trains nothing."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from remedy.eval.stats.power import smallest_difference
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import conditions, expand
from remedy.launch.plan import print_plan
from remedy.launch.runner import run
from remedy.settings import ConfigError, build
from tests.eval.made_records import made, write_evaluation
from tests.launch.in_process import remedy

REPOSITORY = Path(__file__).resolve().parents[2]

GROUP: dict[str, Any] = {
    "base": {
        "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}, "format": "symbolic"},
        "tokenizer": {"kind": "symbols"},
        "model": {"hidden_size": 16, "num_attention_heads": 2},
        "train": {"max_steps": 30, "batch_size": 4},
        "tracking": {"report_to": []},
    },
    "runs": {"a": {}, "b": {"train.learning_rate": 0.002}},
    "grid": {"train.seed": [0, 1, 2]},
    "evaluate": {"diagnostics": [{"kind": "permutation", "lengths": [2, 4], "examples": 50}]},
}


def printed(folder: Path, **settings: Any) -> str:
    config = build(ExperimentConfig, {"name": "e", "output": str(folder), "groups": {"g": GROUP}, **settings})
    screen = io.StringIO()
    print_plan(config, "e", console=Console(file=screen, width=200))
    return screen.getvalue()


def test_a_plan_without_comparisons_assumes_nothing(tmp_path: Path) -> None:
    text = printed(tmp_path, groups={"g": {**GROUP, "runs": {"a": {}}, "grid": {"train.seed": [0]}}})
    assert "1 run of 1 variant, " in text
    assert "No comparison gets a verdict" in text
    assert "Assumed" not in text
    assert "What can be decided" not in text


def test_a_plan_says_runs_examples_and_what_can_be_seen_and_trains_nothing(tmp_path: Path) -> None:
    text = printed(tmp_path)
    assert "6 runs of 2 variants" in text
    assert "permutation, length 2, horizon 1, forcing free" in text
    few = "nothing: 50 programs cannot show 95%, even if all are right; 73 can"
    assert text.startswith(f"2 of 2 comparisons can decide {few}.\n")
    assumed = "50 examples, baseline 50%, spread 10"
    assert f"- b (length 4) (3 against 3 seeds, {assumed}): {few}\n" in text
    more = {"diagnostics": [{"kind": "permutation", "lengths": [2, 4], "examples": 80}]}
    text = printed(tmp_path, groups={"g": {**GROUP, "evaluate": more}})
    all_solve = "0 against 90 % of trainings that solve it (with 80 of 80 right, power 73%)"
    assert f"): {all_solve}; corrected for 2: nothing: too few seeds" in " ".join(text.split())
    text = printed(tmp_path, groups={"g": {**GROUP, "grid": {"train.seed": [0, 1, 2, 3, 4]}}})
    alone, corrected = (f"{100 * smallest_difference((5, 5), 50, level=level):.0f} points" for level in (0.05, 0.025))
    assert f"- b (length 4) (5 against 5 seeds, {assumed}): {alone}; corrected for 2: {corrected}\n" in text
    assert list(tmp_path.iterdir()) == []


def test_rates_of_too_few_seeds_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    sides = {side: {"run": run} for side, run in (("baseline", "a"), ("treatment", "b"))}
    asked = {"comparisons": [{"mitigation": "b", "asks": "rates", **sides}]}
    with pytest.raises(ConfigError, match="rates cannot be tested with 3 seeds against 3: train 5 a side"):
        printed(tmp_path, **asked)
    with pytest.raises(ConfigError, match="rates cannot be tested with 3 seeds against 3: train 5 a side"):
        run(build(ExperimentConfig, {"name": "e", "output": str(tmp_path), "groups": {"g": GROUP}, **asked}), "e")
    assert not list(tmp_path.rglob("*.yaml"))
    enough = {"groups": {"g": {**GROUP, "grid": {"train.seed": [0, 1, 2, 3, 4]}}}}
    assert "(5 against 5 seeds, " in printed(tmp_path, **asked, **enough)


def test_executions_of_one_function_count_as_one(tmp_path: Path) -> None:
    """Of 40 executions of 10 functions, as many differences are seen as with 10 programs."""
    path = tmp_path / "own.jsonl"
    codes = [f"def f(x):\n    return x + {number}" for number in range(10)]
    path.write_text("".join(json.dumps({"code": code, "input": str(n)}) + "\n" for code in codes for n in range(4)))
    task = {"kind": "programs", "path": str(path), "tracer": {"isolation": "trusted"}}
    base = {**GROUP["base"], "data": {"task": task}, "tokenizer": {"kind": "chars"}}
    evaluate = {"diagnostics": [{"kind": "programs", "answer_only": [False]}], "split": "all"}
    text = printed(
        tmp_path / "e",
        groups={"g": {**GROUP, "base": base, "evaluate": evaluate, "grid": {"train.seed": [0, 1, 2, 3, 4]}}},
    )
    seen = f"{100 * smallest_difference((5, 5), 10):.0f} points"
    assert (
        f"(5 against 5 seeds, 40 examples in 10 clusters, baseline 50%, spread 10): {seen}; corrected for 2: " in text
    )


def test_states_of_a_program_are_counted_in_its_cluster(tmp_path: Path) -> None:
    """Of 60 programs each of whose 12 lines changes the state, 720 states are compared."""
    path = tmp_path / "own.jsonl"
    lines = "".join(f"    a{line} = x + {line}\n" for line in range(12))
    codes = [f"def f(x):\n{lines}    return a{number % 12} + {number}" for number in range(60)]
    path.write_text("".join(json.dumps({"code": code, "input": "1"}) + "\n" for code in codes))
    task = {"kind": "programs", "path": str(path), "tracer": {"isolation": "trusted"}}
    base = {**GROUP["base"], "data": {"task": task, "format": "cwm"}, "tokenizer": {"kind": "chars"}}
    evaluate = {"diagnostics": [{"kind": "programs", "answer_only": [False]}], "split": "all"}
    sides = {side: {"run": run} for side, run in (("baseline", "a"), ("treatment", "b"))}
    text = printed(
        tmp_path / "e",
        groups={"g": {**GROUP, "base": base, "evaluate": evaluate, "grid": {"train.seed": [0, 1, 2, 3, 4]}}},
        comparisons=[{"mitigation": "b", "metric": "changed_state", **sides}],
    )
    seen = f"{100 * smallest_difference((5, 5), 720 / (1 + 11 * 0.1), spread=0.04):.0f} points"
    assert f"- b (5 against 5 seeds, 720 changed states in 60 clusters, baseline 50%, spread 4): {seen}\n" in text


def test_rates_and_spreads_are_those_of_runs_that_are_done(tmp_path: Path) -> None:
    """A run that was evaluated otherwise does not count."""
    seeds = {"groups": {"g": {**GROUP, "grid": {"train.seed": [0, 1, 2, 3, 4]}}}}
    config = build(ExperimentConfig, {"name": "e", "output": str(tmp_path), **seeds})
    rights = {"a": (10, 20, 30), "b": (40, 41, 42, 0)}
    for variant, counts in rights.items():
        jobs = [job for job in expand(config, "e") if job.variant.startswith(variant)]
        for number, (job, count) in enumerate(zip(jobs, counts)):
            _, condition = conditions(job)
            done = made(
                [place < count for place in range(50)],
                run=job.name,
                labels=condition.labels,
                condition=condition.slug,
            )
            assert job.evaluate is not None
            asked = job.evaluate.asked | ({"split": "all"} if number == 3 else {})
            write_evaluation(job.folder / "evaluation", done, variant=job.variant, evaluation=asked)
    seen = f"{100 * smallest_difference((5, 5), 50, rate=0.4, spread=0.2):.0f} points"
    assert f"- b (length 4) (5 against 5 seeds, 50 examples, baseline 40%*, spread 20*): {seen}" in printed(
        tmp_path, **seeds
    )


@pytest.mark.slow
def test_the_plan_of_a_shipped_experiment_says_its_cost_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    config, output = REPOSITORY / "configs/experiment/quickstart.yaml", f"output={tmp_path}"
    model = "groups.strings.base.model={kind: pretrained, name_or_path: facebook/no-such}"
    in_passes = "groups.strings.base.train.micro_batch_size=4"
    ended = remedy(["run", config, output, model, in_passes, "--plan"], 300)
    assert ended.status == 0, ended.errors
    cost = r"- attention: 4 trainings, each with \d+ k tokens \(\d+% padding\), \d+ G FLOPs, [^,]* s a run, [^,]* s in all, 0\.\d GiB\n"
    assert re.search(cost, ended.output)
    assert re.search(r"- character-strings: 3 trainings, each with [^ ]+ [kM] tokens\n", ended.output)
    assert "character-strings: a step has 16 rows: 1 process x 4 passes x 4 rows." in " ".join(ended.output.split())
    assert "character-strings: not measured: model 'facebook/no-such' cannot be loaded" in " ".join(
        ended.output.split()
    )
    assert "6 trainings could not be measured" in " ".join(ended.output.split())
    assert list(tmp_path.iterdir()) == []
