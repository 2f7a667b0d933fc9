"""However a configuration is broken, a command says so in short lines and with status 2, or it is none; nothing ends in a traceback.

The mutations of a run are fixed; `REMEDY_FUZZ_SEED=5 REMEDY_FUZZ_COUNT=5000 pytest -m slow tests/launch/test_fuzzed_configurations.py`
draws others.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.settings import MISTAKES
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.launch.console import LONGEST
from tests.launch.in_process import remedy
from tests.launch.mutations import mutated

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "configs").rglob("*.yaml"))
SEED = int(os.environ.get("REMEDY_FUZZ_SEED", "0"))
COUNT = int(os.environ.get("REMEDY_FUZZ_COUNT", "1000"))
PARTS = 10
TRACE = "format: cwm\nreveal: {spacing: 4, locals: diff}\nstring_encoding: plain\ntracer: {max_frames: 1000}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run's, in which commands stop where their work would begin, after a first example."""
    import remedy.eval.checkpoint
    import remedy.eval.costs.measure
    import remedy.launch.generate
    import remedy.launch.trace
    import remedy.train.run

    def no_benchmark(*arguments: Any, **options: Any) -> Any:
        raise OSError("no hub here")

    monkeypatch.setattr("datasets.load_dataset", no_benchmark)
    monkeypatch.setattr(remedy.launch.generate, "build_tokenizer", lambda tokenizer, data: stop(data))
    monkeypatch.setattr(remedy.train.run, "train", lambda config, resume: [stop(d) for d in config.stage_data()])
    monkeypatch.setattr(remedy.eval.checkpoint, "load_checkpoint", lambda *_: stop())
    monkeypatch.setattr(remedy.eval.costs.measure, "measure", lambda *arguments: stop())
    monkeypatch.setattr(remedy.launch.trace, "Sandbox", lambda config: stop())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
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
        "measure": ["measure", str(written), "--out", "measured"],
        "experiment": ["sweep", str(written), "--slurm", "scripts"],
    }
    return words[kind]


def check(arguments: list[str], name: str) -> int | None:
    """Run a command, and hold its end to what is promised."""
    ended = remedy(arguments)
    what = f"{name}: {arguments}\n{ended.errors[-3000:]}"
    assert ended.status in (0, 2), what
    lines = ended.errors.splitlines()
    assert "Traceback" not in ended.errors, what
    if ended.status == 2 and not lines[0].startswith("Usage:"):
        assert ended.errors.startswith("error: "), what
        assert len(lines) <= MISTAKES + 1, what
        assert all(len(line) <= len("error: ") + LONGEST and line.isprintable() for line in lines), what
    return ended.status


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_broken_configurations_are_refused_in_short_lines(part: int, folder: Path) -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in FILES}
    ends = []
    for number in range(part, COUNT, PARTS):
        name = f"{SEED}/{number}"
        draws = random.Random(name)
        file = draws.choice(FILES)
        mutation = mutated(texts[file], list(texts.values()), draws)
        written = folder / f"{number}.yaml"
        written.write_bytes(mutation.file)
        ends.append(check([*command(file, written), *mutation.overrides], name))
        written.unlink()
    assert 0 in ends or len(ends) < 50
    assert ends.count(2) > len(ends) / 4


@pytest.mark.slow
def test_broken_settings_of_trace_are_refused_in_short_lines(folder: Path) -> None:
    for number in range(COUNT // 10):
        name = f"{SEED}/trace/{number}"
        mutation = mutated(TRACE, [TRACE], random.Random(name))
        check(["trace", str(ROOT / "examples" / "reverse.py"), *mutation.overrides], name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_shipped_configurations_get_as_far_as_their_work(file: Path, folder: Path) -> None:
    ended = remedy(command(file, file))
    needs = "no hub here" in ended.errors or "needs data.task" in ended.errors
    assert ended.status == 0 or needs, ended.errors
