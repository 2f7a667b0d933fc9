"""Every shipped configuration is valid, up to where its command's work begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.permutation import PermutationTask
from tests.launch.in_process import remedy

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "configs").rglob("*.yaml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run's, in which commands stop where their work would begin, after a first example."""
    import remedy.eval.benchmark.export
    import remedy.eval.checkpoint
    import remedy.eval.costs.measure
    import remedy.launch.generate
    import remedy.train.run

    def no_benchmark(*arguments: Any, **options: Any) -> Any:
        raise OSError("no hub here")

    monkeypatch.setattr("datasets.load_dataset", no_benchmark)
    monkeypatch.setattr(remedy.launch.generate, "build_tokenizer", lambda tokenizer, data: stop(data))
    monkeypatch.setattr(remedy.train.run, "train", lambda config, resume: [stop(d) for d in config.stage_data()])
    monkeypatch.setattr(remedy.eval.checkpoint, "load_checkpoint", lambda *_: stop())
    monkeypatch.setattr(remedy.eval.benchmark.export, "freeze", lambda name, config: stop())
    monkeypatch.setattr(remedy.eval.costs.measure, "measure", lambda *arguments: stop())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    rows = [
        {"code": "def f(x):\n    return x", "input": "1", "split": split} for split in ("train", "validation", "test")
    ]
    (tmp_path / "programs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("data: {task: {kind: permutation, length: 4}}")
    return tmp_path


class Reached(SystemExit):
    """The command got as far as its work."""


def stop(data: DataConfig | None = None) -> None:
    """Leaves, after drawing an example if that is quick."""
    if data is not None and _is_quick(data):
        example(data.changed({"reveal.max_tokens": None}), "train", 0)
    raise Reached(0)


def _is_quick(data: DataConfig) -> bool:
    if isinstance(data.task, PermutationTask):
        return data.task.length_range()[1] < 100
    return isinstance(data.task, CompositionTask) and data.task.input_length[1] < 50


def command(file: Path, written: Path) -> list[str]:
    """The words that a configuration is given to, as its folder says."""
    kind = file.parent.name
    words: dict[str, list[str]] = {
        "data": ["generate", str(written), "--out", "shards"],
        "train": ["train", str(written)],
        "evaluate": ["evaluate", "run", str(written), "--out", "evaluation"],
        "benchmark": ["export-benchmark", str(written), "--out", "benchmark"],
        "measure": ["measure", str(written), "--out", "measured"],
        "experiment": ["run", str(written), "--slurm", "scripts"],
        "study": ["run", str(written), "--slurm", "scripts"],
    }
    return words[kind]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_shipped_configurations_get_as_far_as_their_work(file: Path, folder: Path) -> None:
    ended = remedy(command(file, file))
    needs = "no hub here" in ended.errors or "needs data.task" in ended.errors
    assert ended.status == 0 or needs, ended.errors
