"""An exported benchmark: what lies in it, its scorer without this package, and the harnesses' scores beside those of an evaluation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from remedy.eval.benchmark.export import MODULES, SCORER, export_benchmark, freeze
from remedy.eval.benchmark.scorer import read, score_answer, score_trace, wilson
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import run_condition
from remedy.eval.generators import LocalGenerator
from remedy.eval.stats import rate
from remedy.models.encoding import encoded_examples
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import CharacterSettings
from remedy.settings import ConfigError, UserError, build
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
        for row, kept in zip(ran.rows, ran.kept):
            key = f"{condition.slug}/{row['index']}"
            found.written[key], found.right[key] = kept["text"].partition(END)[0], row["right"]
    assert set(found.right.values()) == {True, False}
    return found


def test_the_same_text_has_the_same_score(folder: Path, evaluated: Evaluated) -> None:
    rows = read(folder / "data" / "tracking.jsonl")
    assert {row["id"]: score_trace(evaluated.written[row["id"]], row).right for row in rows} == evaluated.right


def test_the_scorer_needs_python_alone(folder: Path, evaluated: Evaluated, tmp_path: Path) -> None:
    """Without site-packages (-S), nor an environment or the script's own folder (-I)."""
    lines = [json.dumps({"id": key, "written": text}) for key, text in evaluated.written.items()]
    (tmp_path / "outputs.jsonl").write_text("\n".join(lines[1:]))
    command = [sys.executable, "-I", "-S", str(folder / "score.py"), "tracking", str(tmp_path / "outputs.jsonl")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    right = sum(list(evaluated.right.values())[1:7])
    assert said[0].startswith(f"length 3, horizon 1: right {right} of 7, {right / 7:.1%}")
    assert said[-1] == "1 of 14 examples have no output and count as wrong"
    (tmp_path / "outputs.jsonl").write_text("\n".join([*lines, lines[0]]))
    twice = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (twice.returncode, "is there twice" in twice.stderr) == (2, True)
    assert sum(path.stat().st_size for path in folder.rglob("*")) < 5_000_000
    assert {path.stem for path in (folder / SCORER).glob("*.py")} == {
        *(name.rpartition(".")[2] for name in MODULES),
        "__init__",
        "registry",
    }


def test_rows_say_prompt_trace_and_answer_and_the_card_what_there_is(folder: Path) -> None:
    row = read(folder / "data" / "tracking.jsonl")[0]
    assert row["prompt"].startswith(">>> a = ")
    assert row["prompt"].endswith("\n<|frame_sep|>")
    assert "`a=...,b=...,c=...`" in row["question"]
    assert row["trace"].startswith(">>> print('a', a)\na ")
    assert score_trace(row["trace"].rstrip("\n"), row).right
    assert score_answer(f" {row['answer']}\nSo", row)
    assert not score_answer("", row)
    front = (folder / "README.md").read_text().split("---\n")[1]
    (config,) = yaml.safe_load(front)["configs"]
    assert all((folder / file["path"]).exists() for file in config["data_files"])
    assert len(read(folder / "data" / "shots" / "tracking.jsonl")) == 4


def test_separators_within_a_text_are_no_ends_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"written": "a\u2028b\x85"}\n', encoding="utf-8")
    assert read(tmp_path / "a.jsonl") == [{"written": "a\u2028b\x85"}]


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


def test_the_command_writes_to_a_new_folder(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(CONFIG))
    command = ["export-benchmark", tmp_path / "own.yaml", "--out", tmp_path / "out"]
    assert f"benchmark: {tmp_path / 'out' / 'README.md'}" in remedy(command).output
    assert (tmp_path / "out" / "lm_eval" / "own_trace.yaml").exists()
    assert "is not empty: choose a new folder" in remedy(command).errors
    with pytest.raises(UserError, match="not empty"):
        export_benchmark({}, tmp_path)


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


def test_inspect_gives_the_scores_of_remedy_evaluate(folder: Path, evaluated: Evaluated, tmp_path: Path) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect-ai (0.3.285 was tried)")
    from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, get_model, modelapi

    rows = read(folder / "data" / "tracking.jsonl")
    said = {row["prompt"]: evaluated.written[row["id"]] for row in rows}
    said |= {row["question"]: row["answer"] if evaluated.right[row["id"]] else "a=0" for row in rows}

    @modelapi(name="toy")
    class Toy(ModelAPI):
        def __init__(self, model_name: str, base_url: Any = None, api_key: Any = None, config: Any = None) -> None:
            super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())

        async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
            return ModelOutput.from_content(self.model_name, said[input[-1].text])

    for form in ("traces", "answers"):
        (log,) = inspect_ai.eval(
            f"{folder / 'inspect_tasks.py'}@{form}",
            task_args={"name": "tracking"},
            model=get_model("toy/toy"),
            log_dir=str(tmp_path),
            display="none",
        )
        assert log.status == "success", log.error
        values = {sample.id: next(iter(sample.scores.values())).value for sample in log.samples}
        right = {key: bool(value["right"] if isinstance(value, dict) else value) for key, value in values.items()}
        assert right == evaluated.right
