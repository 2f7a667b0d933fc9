"""An exported benchmark: what lies in it, its scorer without this package, and the harnesses' scores beside those of an evaluation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from remedy.eval.benchmark import export
from remedy.eval.benchmark.export import PACKAGE, export_benchmark, freeze
from remedy.eval.benchmark.scorer import read, score_answer, score_trace, wilson
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import run_condition
from remedy.eval.generators.speculative import LocalGenerator
from remedy.eval.report.logs import LogOptions, read_logs
from remedy.eval.stats import rate
from remedy.models.encoding import encoded_examples
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import CharacterSettings
from remedy.settings import ConfigError, build
from tests.launch.in_process import remedy
from tests.mock_models import KINDS, Mock, mistaken, sequences

END = "<|end_of_text|>"
CONFIG: dict[str, Any] = {
    "set": {"task": {"kind": "permutation", "n": 3, "length": 4}, "format": "repl"},
    "diagnostics": [{"kind": "permutation", "lengths": [3, 5], "examples": 7}],
}


class Evaluated(NamedTuple):
    """What `remedy evaluate` says of a model, by example: what it wrote, and whether that is right."""

    written: dict[str, str]
    right: dict[str, bool]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "benchmark"
    export_benchmark({"tracking": build(EvalConfig, CONFIG, "test")}, out)
    return out


@pytest.fixture(scope="module")
def site(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The benchmark installed, offline, to a folder for PYTHONPATH (inspect_ai goes by the folder's name)."""
    site, source = tmp_path_factory.mktemp("site") / "site-packages", tmp_path_factory.mktemp("source")
    shutil.copytree(folder, source, dirs_exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([*pip, str(site), str(source)], check=True)
    return site


@pytest.fixture(scope="module")
def evaluated() -> Evaluated:
    """A model that is right, or wrong in one way or another, from example to example, and its last trace is cut."""
    config = build(EvalConfig, CONFIG, "test")
    found = Evaluated({}, {})
    for condition in config.diagnostics[0].conditions(freeze("tracking", config).data, "test"):
        tokenizer = build_tokenizer(CharacterSettings(), condition.data)
        truths = [t for _, t in encoded_examples(condition.data, tokenizer, "test", range(condition.examples))]
        kinds = [kind for kind in KINDS if "event" not in kind.name]
        ids = [
            mistaken(truth, kinds[i % len(kinds)].wrong("free"), kinds[i % len(kinds)].once, tokenizer)
            for i, truth in enumerate(truths)
        ]
        ids[-1][-9:] = [tokenizer.eos_id] * 9
        known = [one for pair in zip(truths, ids) for one in sequences(*pair, condition, tokenizer.special_ids)]
        generator = LocalGenerator(ModelReader(Mock(known, tokenizer.vocab_size)), tokenizer)
        ran = run_condition(generator, tokenizer, condition, config)
        for row, kept in zip(ran.rows, ran.generations):
            key = f"{condition.slug}/{row['index']}"
            found.written[key], found.right[key] = kept["text"].partition(END)[0], row["right"]
    assert set(found.right.values()) == {True, False}
    return found


def test_the_same_text_has_the_same_score(folder: Path, evaluated: Evaluated) -> None:
    rows = read(folder / "data" / "tracking.jsonl")
    assert {row["id"]: score_trace(evaluated.written[row["id"]], row).right for row in rows} == evaluated.right


def test_the_scorer_needs_python_alone(folder: Path, site: Path, evaluated: Evaluated, tmp_path: Path) -> None:
    """Without site-packages (-S): in the folder as it is, and installed, which needs no other package."""
    lines = [json.dumps({"id": key, "written": text}) for key, text in evaluated.written.items()]
    (tmp_path / "outputs.jsonl").write_text("\n".join(lines[1:]))
    command = [sys.executable, "-S", "-m", PACKAGE, "tracking", str(tmp_path / "outputs.jsonl")]

    def run(place: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=place, env={}, capture_output=True, text=True, check=False)

    said = run(folder).stdout.splitlines()
    assert run(site).stdout.splitlines() == said
    right = sum(list(evaluated.right.values())[1:7])
    assert said[0].startswith(f"length 3, horizon 1: right {right} of 7, {right / 7:.1%}")
    assert said[-1] == "1 of 14 examples have no output and count as wrong"
    (tmp_path / "outputs.jsonl").write_text("\n".join([*lines, lines[0]]))
    twice = run(folder)
    assert (twice.returncode, "is there twice" in twice.stderr) == (2, True)
    (tmp_path / "outputs.jsonl").write_text(json.dumps({"id": next(iter(evaluated.written)), "written": None}))
    assert "is no text: leave out what has no output" in run(folder).stderr


def test_rows_say_prompt_trace_and_answer_and_the_card_what_there_is(folder: Path) -> None:
    row = read(folder / "data" / "tracking.jsonl")[0]
    assert row["prompt"].startswith(">>> a = ")
    assert row["prompt"].endswith("\n<|frame_sep|>")
    assert "`a=...,b=...,c=...`" in row["question"]
    assert row["trace"].startswith(">>> print('a', a)\na ")
    assert score_trace(row["trace"].rstrip("\n"), row).right
    assert score_answer(f" {row['answer']}\nSo", row)
    assert not score_answer("", row)
    card = (folder / "README.md").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    assert all((folder / file["path"]).exists() for file in front["configs"][0]["data_files"])
    assert front["license"] == "mit"
    assert len(read(folder / "data" / "shots" / "tracking.jsonl")) == 4


def programs(folder: Path) -> list[str]:
    """A command's words that export own programs, as if they were CruxEval's: one whose trace is long, and one that runs long."""
    codes = ["return x + 1", "x = [x] * 5000\n    return 2", "for i in range(99): x = 2\n    return x"]
    lines = [{"code": f"def f(x):\n    {code}", "input": "1", "output": "2", "id": at} for at, code in enumerate(codes)]
    (folder / "own.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return ["export-benchmark", "configs/benchmark/cruxeval.yaml", f"cruxeval.set.task.path={folder / 'own.jsonl'}"]


def test_published_programs_come_from_a_file_with_licence_and_what_is_left_out(tmp_path: Path) -> None:
    command = [*programs(tmp_path), "cruxeval.set.task.tracer.max_frames=50", "--out", tmp_path / "out"]
    assert remedy(command).status == 0
    (row,) = read(tmp_path / "out" / "data" / "cruxeval.jsonl")
    assert (row["answer"], score_trace(row["trace"], row).right) == ("2", True)
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"MIT, https://github.com/facebookresearch/cruxeval | 1 {export.TOO_LONG}, 1 frames |" in card
    assert "Copyright (c) 2023 Meta" in (tmp_path / "out" / "LICENSE").read_text()
    assert "humaneval.set.task.path=FILE" in card
    assert "cruxeval.set.task.path=FILE" not in card
    settings = (tmp_path / "out" / "evaluate" / "cruxeval.yaml").read_text()
    assert str(tmp_path) not in settings  # others have it elsewhere
    assert "is not empty: choose a new folder" in remedy(command).errors
    assert "cruxevla.split=all: changes no configuration" in remedy([*command, "cruxevla.split=all"]).errors


@pytest.mark.parametrize("licence", ["Apache-2.0", "MITRE's own"])
def test_only_what_is_under_mit_is_said_to_be_and_no_place_or_licence_acts(
    licence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"{licence[:5]}.jsonl"  # what was read stays in memory by its path
    own = {"code": "def f(x): return x", "input": "1", "id": "a", "licence": f"{licence} |<b>\n# x"}
    rows = [{**own, "id": "b", "licence": "MIT"}, own]
    (tmp_path / name).write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    task = {"kind": "programs", "path": name}
    config = {"set": {"task": task, "format": "repl"}, "diagnostics": [{"kind": "programs", "answer_only": [False]}]}
    config["diagnostics"][0]["forcing"] = ["free"]
    card = export_benchmark({"no": build(EvalConfig, config, "test")}, tmp_path / "out").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    assert ("license" in front, front["configs"][0]["config_name"]) == (False, "no")
    assert f"{licence} \\|&lt;b> # x" in card
    assert f"not under this licence: {licence}" in (tmp_path / "out" / "LICENSE").read_text()
    assert 'name: "no"' in (tmp_path / "out" / "lm_eval" / "no_trace.yaml").read_text()
    config["set"]["task"] = {**task, "path": str(tmp_path / name)}  # type: ignore[index]
    with pytest.raises(ConfigError, match="is a place on this machine"):
        export_benchmark({"no": build(EvalConfig, config, "test")}, tmp_path / "other")


@pytest.mark.parametrize(("right", "of"), [(0, 9), (4, 9), (9, 9)])
def test_wilson_is_the_interval_of_reports(right: int, of: int) -> None:
    found = rate([True] * right + [False] * (of - right))
    assert wilson(right, of) == pytest.approx((found.low, found.high), abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"set.format": "cwm"}, "format is 'cwm', and a benchmark in text needs 'repl'"),
        ({"set": {"format": "repl"}}, "set: needs the data configuration with its task"),
        ({"diagnostics.0.forcing": ["action_forced"]}, "other harnesses decode freely"),
    ],
)
def test_what_has_no_text_form_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    config = build(EvalConfig, CONFIG, "test").changed(changes)
    with pytest.raises(ConfigError, match=says):
        export_benchmark({"x": config}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lm_eval_gives_the_scores_of_remedy_evaluate(folder: Path, evaluated: Evaluated) -> None:
    lm_eval = pytest.importorskip("lm_eval", reason="needs lm-eval (0.4.13 was tried)")
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    rows = read(folder / "data" / "tracking.jsonl")
    said = {row["prompt"]: evaluated.written[row["id"]] for row in rows}
    said |= {row["question"]: row["answer"] if evaluated.right[row["id"]] else "a=0" for row in rows}

    class Toy(LM):
        def loglikelihood(self, requests: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return [said[request.args[0]] for request in requests]

    names = ["tracking_trace", "tracking_answer"]
    tasks = TaskManager(include_path=str(folder / "lm_eval"), include_defaults=False)
    found = lm_eval.simple_evaluate(model=Toy(), tasks=names, task_manager=tasks, log_samples=True)
    for name in names:
        scores = {sample["doc"]["id"]: bool(sample["right"]) for sample in found["samples"][name]}
        assert scores == evaluated.right


def test_inspect_gives_the_scores_of_remedy_evaluate(
    folder: Path, site: Path, evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed tasks, which inspect_ai finds by their entry point."""
    inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect-ai (0.3.285 was tried)")
    from inspect_ai.model import ModelAPI, ModelOutput, get_model

    monkeypatch.syspath_prepend(str(site))
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:  # lm-eval's, from the folder
        monkeypatch.delitem(sys.modules, name)
    rows = read(folder / "data" / "tracking.jsonl")
    said = {row["prompt"]: evaluated.written[row["id"]] for row in rows}
    said |= {row["question"]: row["answer"] if evaluated.right[row["id"]] else "a=0" for row in rows}

    async def count_tokens(*_: Any) -> int:  # the real one downloads a vocabulary
        return 1

    monkeypatch.setattr(ModelAPI, "count_tokens", count_tokens)

    def reply(input: Any, *_: Any) -> ModelOutput:
        return ModelOutput.from_content("mockllm", said[input[-1].text])

    model = get_model("mockllm/model", custom_outputs=reply)
    for form in ("traces", "answers"):
        (log,) = inspect_ai.eval(
            f"{PACKAGE}/{form}", task_args={"name": "tracking"}, model=model, log_dir=str(tmp_path), display="none"
        )
        assert log.status == "success", log.error
        values = {sample.id: next(iter(sample.scores.values())).value for sample in log.samples}
        right = {key: bool(value["right"] if isinstance(value, dict) else value) for key, value in values.items()}
        assert right == evaluated.right
        found = read_logs(Path(log.location), LogOptions(metric="right" if form == "traces" else ""))
        assert list(found["right"]) == [evaluated.right[sample.id] for sample in log.samples]
