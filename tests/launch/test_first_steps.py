"""What a new user does first: looks at a file, asks what there is, writes an experiment over programs of their own."""

import json
from pathlib import Path

import pytest

from remedy.data_gen.tasks import TASKS
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.generate import generate
from remedy.launch.init import init
from remedy.launch.jobs import expand
from remedy.launch.plan import check_programs, print_plan
from remedy.settings import ConfigError, UserError, dump, load
from tests.launch.in_process import remedy

ROOT = Path(__file__).resolve().parents[2]


def shown(source: Path, *words: object) -> str:
    done = remedy(["show", source, *words])
    return done.output or done.errors


def own(folder: Path, functions: int = 3, name: str = "mine.jsonl") -> Path:
    rows = [{"code": f"def f(x):\n    return x + {n}", "input": str(x)} for n in range(functions) for x in range(20)]
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_a_data_set_and_their_examples_are_shown(tmp_path: Path) -> None:
    text = shown(ROOT / "examples" / "reverse.py", "reveal.locals=diff", "format=cwm_numbers")
    assert "format: cwm_numbers" in text
    assert "answer: 'cba'" in text
    (tmp_path / "data.yaml").write_text(f"data: {{task: {{kind: programs, path: {own(tmp_path)}, split_by: program}}}}")
    generate(str(tmp_path / "data.yaml"), [], tmp_path / "set", "0/1", 1)
    data, kept = tmp_path / "data.yaml", tmp_path / "set"
    assert "split: train" in shown(kept, "--index", 47)
    assert "split: test" in shown(kept, "--split", "test")
    assert shown(kept, "--index", 3).split("\n", 2)[2] == shown(data, "--index", 3).split("\n", 2)[2]
    assert "no example 99 of split train, counted from 0; there are test 6, train 48" in shown(kept, "--index", 99)
    assert f"is the folder of no data set, run or evaluation; below it are {kept}" in shown(tmp_path)


@pytest.mark.parametrize(
    ("functions", "rule", "name"),
    [(3, "split_by: program", "2024-01-01.jsonl"), (40, "split_by: function", "mine.jsonl")],
)
def test_the_experiment_that_init_writes_is_one_that_runs(
    functions: int, rule: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    init(str(own(tmp_path, functions, name)), path)
    said = capsys.readouterr().out
    assert f"{20 * functions:,} programs of {functions} functions" in said
    assert rule in path.read_text()
    experiment = load(ExperimentConfig, path)
    jobs = expand(experiment, "mine.yaml")
    check_programs(jobs)
    tested = jobs[0].train.data.task.clusters("test", 100)
    assert tested == (3 if functions == 3 else 12)  # executions of one function count once
    assert {one.solved_at for one in experiment.comparisons} == {0.5}
    decides = (
        "No training can solve it: 3 test functions cannot show 50%, even if all are right; with 22 more"
        if functions == 3
        else "A training solves it (solved_at 0.5) with 10 of 12 test functions right; with 13 more"
    )
    assert said.splitlines()[1].startswith(decides)
    assert f"# {said.splitlines()[1]}" in path.read_text()
    assert said.splitlines()[0] in capsys.readouterr().out
    assert {job.variant for job in jobs} == {"baseline", "characters", "sparse"}
    with pytest.raises(UserError, match=r"mine\.yaml: is there already"):
        init(str(own(tmp_path)), path)


def test_rows_that_have_no_trace_are_listed_and_an_experiment_over_none_other_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = own(tmp_path), tmp_path / "bad.jsonl"
    row = json.dumps({"code": "def g(x):\n    return x", "input": "1"})
    bad.write_text("\n".join([row, *good.read_text().splitlines()[:20], row]))
    init(str(bad), tmp_path / "bad.yaml")
    said = capsys.readouterr().out.splitlines()
    assert said[1] == f"{bad}: 2 of 22 programs have no trace; correct them, or they are left out:"
    assert said[2].startswith(
        f"call: {bad}:1: the call raised NameError(\"name 'f' is not defined\") before f ran; check that"
    )
    print_plan(load(ExperimentConfig, tmp_path / "bad.yaml"), "bad.yaml")
    assert said[1] in capsys.readouterr().out
    (tmp_path / "data.yaml").write_text(f"data: {{task: {{kind: programs, path: {bad}, split_by: program}}}}")
    generate(str(tmp_path / "data.yaml"), [], tmp_path / "set", "0/1", 1)
    assert said[1] in capsys.readouterr().out
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("\n".join([row.replace('"1"', f'"{n}"') for n in range(79)]))
    monkeypatch.setattr("remedy.data_gen.examples.TRIED", 40)
    says = (
        r"wrong\.jsonl: 40 of 40 programs that were tried, of 79, have no trace; .*\ncall: .*wrong\.jsonl:1: the call"
    )
    with pytest.raises(UserError, match=says):
        init(str(wrong), tmp_path / "none.yaml")
    assert not (tmp_path / "none.yaml").exists()


def test_a_task_of_ones_own_is_named_in_the_file_and_known_to_every_run(tmp_path: Path) -> None:
    module = str(ROOT / "examples" / "plugins" / "countdown.py")
    base = {"data": {"task": {"kind": "countdown"}}}
    evaluate = {"diagnostics": [{"kind": "programs", "answer_only": [False]}]}
    group = {"base": base, "runs": {"a": {}}, "evaluate": evaluate}
    path = tmp_path / "e.yaml"
    path.write_text(json.dumps({"name": "e", "output": "runs/e", "plugins": [module], "groups": {"g": group}}))
    try:
        (job,) = expand(load(ExperimentConfig, path), "e.yaml")
        assert job.train.data.task.kind == "countdown"
        assert job.train.plugins == (module,)
        assert f"plugins:\n- {module}" in dump(job.train)
    finally:
        TASKS.pop("countdown", None)
    with pytest.raises(ConfigError, match=r"plugins: own_task cannot be imported .ModuleNotFoundError"):
        load(ExperimentConfig, path, ["plugins=[own_task]"])
