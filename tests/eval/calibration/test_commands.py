"""The guide's commands on doubt, in their order, with a small model that has learnt something; and what they refuse."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from remedy.eval.calibration.calibrator import Trust, read_evaluated
from tests.launch.in_process import remedy
from tests.test_readme import COMMANDS, ROOT, TRUST

RUN = {
    "name": "tiny",
    "output": "runs/permutation",
    "data": {
        "task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 8]},
        "format": "symbolic",
        "context": False,
        "reveal": {"spacing": 1},
    },
    "tokenizer": {"kind": "symbols"},
    "model": {"mixers": ["gru"], "num_hidden_layers": 1, "hidden_size": 48},
    "train": {"batch_size": 32, "learning_rate": 1e-2, "max_steps": 200, "loss_roles": ["state"], "threads": 1},
    "tracking": {"wandb": False},
}
SMALLER = ["diagnostics.0.lengths=[6, 12]", "diagnostics.0.spacings=[2]", "diagnostics.0.examples=120", "threads=1"]
LONGER = "diagnostics.0.lengths=[6, 12, 24]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder laid out like the checkout, with a trained model, in which the guide's commands were run."""
    path = tmp_path_factory.mktemp("checkout")
    (path / "configs").symlink_to(ROOT / "configs")
    (path / "tiny.yaml").write_text(yaml.safe_dump(RUN))
    before = Path.cwd()
    os.chdir(path)
    done = remedy(["train", "tiny.yaml"], 300)
    assert done.status == 0, done.errors
    for command in COMMANDS:
        if "configs/evaluate/trust.yaml" in command or command in TRUST:
            more = SMALLER if "configs/" in command else []
            words = [LONGER if "lengths=" in word else word for word in shlex.split(command)[1:]]
            ended = remedy([*words, *(one for one in more if LONGER not in words or "lengths" not in one)], 300)
            assert ended.status == 0, f"{command}\n{ended.errors}"
            (path / f"{Path(shlex.split(command)[-1]).stem}.txt").write_text(ended.output)
    yield path
    os.chdir(before)


@pytest.mark.slow
def test_a_calibrator_says_what_it_was_fitted_on_and_what_it_foretells(folder: Path) -> None:
    said = (folder / "trust.txt").read_text()
    assert "240 traces of" in said
    assert "(validation)" in said
    assert "signal contradiction is not used: it cannot be told of" in said
    assert "believed at a risk of 5%: judged by" in said
    trust = Trust.load(folder / "results/trust.json")
    validation = read_evaluated(folder / "results/validation")
    trust.check(validation.identity, "itself")
    assert trust.programs == set(validation.observed.traces["cluster"])


@pytest.mark.slow
def test_the_report_judges_it_on_other_programs(folder: Path) -> None:
    text = (folder / "results/doubt/report.md").read_text()
    for title in ("how far traces are believed", "what foretells the first error", "whole traces accepted"):
        assert f"Permutation programs: {title}" in text
    assert "length 24<br>unlike the calibration's" in text
    assert "length 6<br>unlike" not in text
    assert not re.search(r"Left out: [\d,]+ traces", text)
    figures = {path.name for path in (folder / "results/doubt/figures").iterdir()}
    assert {
        f"permutation-programs-{name}.png"
        for name in ("hazards-and-first-errors", "what-is-accepted-and-how-often-it-is-wrong")
    } <= figures


@pytest.mark.slow
def test_what_it_cannot_judge_is_one_line(folder: Path) -> None:
    """Another model, other traces, the programs it was fitted on, and no calibrator at all."""

    def refused(*arguments: object) -> str:
        ended = remedy(arguments, 120)
        assert ended.status == 2, ended.errors
        assert len(ended.errors.strip().splitlines()[-1:]) == 1
        return ended.errors

    fed = ["diagnostics.0.forcing=[teacher_forced]", *SMALLER]
    done = remedy(["evaluate", "runs/permutation", "configs/evaluate/trust.yaml", *fed, "--out", "results/fed"], 120)
    assert done.status == 0
    assert "its forcing feeds states or values" in refused("calibrate", "results/fed", "--out", "results/none.json")
    assert "it is of forcing action_forced and not teacher_forced" in refused(
        "report", "results/fed", "--trust", "results/trust.json", "--out", "results/none"
    )
    assert "the calibrator was fitted on its program (240)" in refused(
        "report", "results/validation", "--trust", "results/trust.json", "--out", "results/none"
    )
    assert not (folder / "results/none").exists()
    assert not (folder / "results/none.json").exists()
