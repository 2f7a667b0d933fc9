"""Every shipped configuration is valid: its settings, the runs of an experiment with what they are asked, and a first example."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.splits import SPLITS
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.loops import LoopsTask
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.eval.config import EvalConfig
from remedy.eval.costs.measure import MeasureConfig
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.generate import GenerateConfig
from remedy.launch.jobs import expand, trials
from remedy.launch.plan import check_programs
from remedy.launch.reference import SETTINGS
from remedy.launch.train import given_programs
from remedy.settings import Settings, UserError, load
from remedy.train.config import RunConfig

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "configs").rglob("*.yaml"))
KINDS: dict[str, type[Settings]] = {
    "data": GenerateConfig,
    "train": RunConfig,
    "evaluate": EvalConfig,
    "benchmark": EvalConfig,
    "measure": MeasureConfig,
    "experiment": ExperimentConfig,
    "study": ExperimentConfig,
}


def is_quick(data: DataConfig) -> bool:
    if isinstance(data.task, PermutationTask):
        return data.task.length_range()[1] < 100
    return isinstance(data.task, LoopsTask) or (
        isinstance(data.task, CompositionTask) and data.task.input_length[1] < 50
    )


def no_benchmark(*arguments: Any, **options: Any) -> Any:
    raise OSError("no hub here")


def test_every_configuration_begins_with_a_comment() -> None:
    assert [file.name for file in FILES if not file.read_text(encoding="utf-8").startswith("# ")] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_shipped_configurations_are_valid(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    rows = [{"code": "def f(x):\n    return x", "input": "1", "split": split} for split in SPLITS]
    for name in ("programs.jsonl", "others.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("datasets.load_dataset", no_benchmark)
    config: Any = load(KINDS[file.parent.name], file)
    drawn = config.stage_data() if isinstance(config, RunConfig) else [config.data] if hasattr(config, "data") else []
    try:
        if isinstance(config, ExperimentConfig):
            jobs = [*trials(config, file.name), *expand(config, file.name)]
            check_programs(jobs)
            drawn = [job.train.data for job in jobs[:2]]
        elif isinstance(config, RunConfig):
            given_programs(config)
        for data in filter(is_quick, drawn):
            example(data.changed({"reveal.max_tokens": None}), "train", 0)
    except UserError as error:
        if "no hub here" not in str(error):
            raise


def test_settings_are_read_without_what_takes_seconds_to_import() -> None:
    """Also every run of an experiment: a mistake in it is reported at once."""
    late = {"torch", "transformers", "pandas", "scipy", "matplotlib", "datasets", "deepspeed"}
    files = {
        "train": "train/strings.yaml",
        "generate": "data/strings.yaml",
        "evaluate": "evaluate/composition.yaml",
        "measure": "measure/programs.yaml",
        "run": "study/groups.yaml",
    }
    assert files.keys() == SETTINGS.keys()
    code = (
        "import sys; from remedy.launch import cli, jobs, reference; from remedy.settings import load\n"
        f"for command, file in {files}.items():\n"
        "    settings = load(reference.settings_class(command), f'configs/{file}')\n"
        "    reference.as_help(type(settings))\n"
        f"jobs.expand(settings, ''); print({late} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stderr
