"""A task that is written and registered outside the package is generated, trained on, evaluated and reported like any other."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from remedy import rng
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.splits import SPLITS, split_of, text_hash
from remedy.data_gen.tasks import TASKS, Drawn, Task
from remedy.eval.checkpoint import for_checkpoint
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.report.page import report
from remedy.models.loading import load_checkpoint
from remedy.settings import ConfigError, build
from remedy.train.config import RunConfig
from remedy.train.run import train

CODE = "def f(n):\n    while n:\n        n -= 1\n    return n"


class CountdownTask(Task):
    """Programs that count down."""

    kind: Literal["countdown"] = "countdown"
    high: int = Field(default=40, ge=30)
    """The largest number to count down from."""

    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        found = []
        for index in indices:
            for attempt in range(100):
                key = rng.key(seed, SPLITS[split].stream, index, attempt)
                number = rng.Draws(key).integer(0, self.high)
                program = Program.from_call(CODE, str(number))
                if split_of(text_hash(program.code)) == split:
                    break
            found.append(Drawn(program, program.code, key, {"from": number}))
        return found

    def describe(self) -> str:
        return "Countdowns: a loop that ends at zero"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    TASKS.register("countdown")(CountdownTask)
    yield
    del TASKS["countdown"]


DATA = {"task": {"kind": "countdown", "high": 35}, "reveal": {"locals": "diff"}}


def test_its_examples_are_like_those_of_any_task() -> None:
    found = examples(build(DataConfig, DATA, "x"), "test", range(3))
    assert [(e.outcome, e.answer) for e in found] == [("ok", "0")] * 3
    assert all(e.slices["frame_count"] == 2 * int(e.slices["from"]) + 7 for e in found)


def test_it_is_chosen_by_name() -> None:
    with pytest.raises(ConfigError, match="unknown task 'countdwn'; did you mean 'countdown'"):
        build(DataConfig, {"task": {"kind": "countdwn"}}, "x")
    with pytest.raises(ConfigError, match=r"unknown key 'task\.hihg'; did you mean 'high'"):
        build(DataConfig, {"task": {"kind": "countdown", "hihg": 50}}, "x")


@pytest.mark.slow
def test_it_is_trained_on_evaluated_and_reported(tmp_path: Path) -> None:
    run = build(
        RunConfig,
        {
            "output": str(tmp_path / "run"),
            "data": DATA,
            "tokenizer": {"kind": "chars"},
            "model": {"num_hidden_layers": 1, "hidden_size": 16, "mixers": ["gru"]},
            "train": {"max_steps": 2, "batch_size": 2, "threads": 1},
            "tracking": {"wandb": False},
        },
        "x",
    )
    train(run)
    diagnostic = {"kind": "programs", "examples": 2, "forcing": ["action_forced"]}
    settings = build(EvalConfig, {"diagnostics": [diagnostic]}, "x")
    subject = for_checkpoint(run.output, settings)
    assert isinstance(subject.data.task, CountdownTask)
    model, tokenizer = load_checkpoint(run.output)
    summary = evaluate(model, tokenizer, subject, settings, tmp_path / "evaluated", "countdown run")
    assert {found["labels"]["benchmark"] for found in json.loads(summary.read_text())["conditions"]} == {"countdown"}
    page = report([tmp_path / "evaluated"], tmp_path / "report").read_text()
    assert "countdown run" in page
