"""The guide's commands on doubt, in their order, with a small model that has learnt something; and what they refuse."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from remedy.eval.trust.calibrator import Trust
from remedy.eval.trust.fit import read_evaluated
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
            ended = remedy([*shlex.split(command)[1:], *more], 300)
            assert ended.status == 0, f"{command}\n{ended.errors}"
            (path / f"{shlex.split(command)[1]}.txt").write_text(ended.output)
    yield path
    os.chdir(before)


@pytest.mark.slow
def test_a_calibrator_says_what_it_was_fitted_on_and_what_it_foretells(folder: Path) -> None:
    said = (folder / "calibrate.txt").read_text()
    assert "240 traces of" in said
    assert "(validation)" in said
    assert "signal contradiction is not used: it cannot be told of" in said
    assert "frame number alone:" in said
    trust = Trust.load(folder / "results/trust.json")
    validation = read_evaluated(folder / "results/validation")
    trust.check(validation.identity, "itself")
    assert trust.programs == set(validation.observed.traces["cluster"])
