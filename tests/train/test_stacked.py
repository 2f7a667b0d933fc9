"""Seeds that are trained at once leave what each alone would have left, and one that is lost leaves the others."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from remedy.models.model_manifest import check_model, read_training
from remedy.settings import UserError, build
from remedy.train import stacked
from remedy.train.config import RunConfig
from remedy.train.processes import TrainingStopped
from remedy.train.run import train
from remedy.train.stacked import Member, train_stacked
from remedy.train.tracking import read_metrics
from tests.train.launching import CONFIG

VALIDATED = {"evaluate_every": 6, "validation_examples": 20, "keep_best": "loss"}


def recipe(folder: Path, **changes: Any) -> list[RunConfig]:
    """Two seeds of a small Transformer."""
    model = {"mixers": ["attention"], "hidden_size": 16, "num_attention_heads": 2}
    settings = {**CONFIG, "model": model, "output": str(folder), "train": {**CONFIG["train"], "stacked": 2, **changes}}
    return build(RunConfig, settings, "test").runs()


def alone(folder: Path, config: RunConfig) -> Path:
    return train(config.changed({"output": str(folder / config.name)}))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def figures(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, without those of its speed."""
    speed = ("tokens_per_second", "data_wait")
    return [
        {key: value for key, value in one.items() if key not in speed} for one in read_metrics(folder / "metrics.jsonl")
    ]


def same_run(one: Path, other: Path) -> None:
    """To rounding, and with the same files."""
    assert files(one) == files(other)
    check_model(one)
    for mine, theirs in zip(figures(one), figures(other), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5), mine["step"]
    for name, weights in load_file(one / "model.safetensors").items():
        torch.testing.assert_close(weights, load_file(other / "model.safetensors")[name], rtol=0, atol=1e-4)
    accounts = [read_training(one), read_training(other)]
    for key in ("steps", "examples", "tokens", "flops", "seed", "data_seed", "kept_step", "stopped_early"):
        assert accounts[0][key] == accounts[1][key], key  # type: ignore[index, literal-required]


def test_each_seed_is_the_run_that_it_is_alone_also_when_cut_off_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = recipe(tmp_path / "whole", **VALIDATED)
    assert [(c.train.seed, c.train.data_seed, Path(c.output).name) for c in configs] == [
        (0, 0, "seed-0"),
        (1, 1, "seed-1"),
    ]
    train_stacked("tiny", configs)
    for config in configs:
        same_run(Path(config.output), alone(tmp_path, config))

    cut = recipe(tmp_path / "cut", **VALIDATED)
    stepped, again = Member.stepped, list[bool]()

    def cut_off(self: Member, *given: Any) -> None:
        stepped(self, *given)
        if self.state.global_step == 11 and not again:
            again.append(True)
            raise KeyboardInterrupt
        if self.state.global_step == 17:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(Member, "stepped", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train_stacked("tiny", cut)
        with pytest.raises(
            TrainingStopped, match="SIGTERM after step 18 of 24, with a checkpoint; go on with: the same"
        ):
            train_stacked("tiny", cut, resume=True)
    assert all((Path(config.output) / "checkpoint-18").exists() for config in cut)
    with pytest.raises(UserError, match="pass --resume"):
        train_stacked("tiny", cut)
    assert not (Path(cut[0].output) / "complete.json").exists()
    train_stacked("tiny", cut, resume=True)
    for one, other in zip(reversed(cut), reversed(configs)):
        assert figures(Path(one.output)) == figures(Path(other.output))
        weights = [(Path(config.output) / "model.safetensors").read_bytes() for config in (one, other)]
        assert weights[0] == weights[1]
    assert read_training(Path(cut[0].output))["kept_step"] == 24  # type: ignore[index]
    for config in cut:
        (Path(config.output) / "complete.json").unlink()
    train_stacked("tiny", cut, resume=True)
    check_model(Path(cut[0].output))
    assert (Path(cut[0].output) / "model.safetensors").read_bytes() == weights[0]
    # A checkpoint is one that the run alone could have made, and go on from.
    (Path(cut[1].output) / "complete.json").unlink()
    train(cut[1], resume=True)
    check_model(Path(cut[1].output))


def test_a_seed_that_is_lost_leaves_the_others_and_says_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = recipe(tmp_path / "lost", max_steps=8, **VALIDATED)
    build_model = stacked.build_model

    def broken(config: RunConfig, *args: Any) -> Any:
        model: Any = build_model(config, *args)
        if config.train.seed == 1:
            model.lm_head.weight.data[0, 0] = math.nan
        return model

    monkeypatch.setattr(stacked, "build_model", broken)
    monkeypatch.setattr("remedy.models.stacked._check_logits", lambda *_: None)
    says = r"tiny,seed=1: step 1: the loss is NaN or infinite \(train examples \d+ to \d+\); no checkpoint was written before"
    with pytest.raises(UserError, match=says):
        train_stacked("tiny", configs)
    same_run(Path(configs[0].output), alone(tmp_path, configs[0]))
    assert (Path(configs[1].output) / "diverged.txt").exists()
    assert not (Path(configs[1].output) / "model.safetensors").exists()
    before = (Path(configs[0].output) / "model.safetensors").stat().st_mtime_ns
    with pytest.raises(UserError, match=says):
        train_stacked("tiny", configs, resume=True)
    assert (Path(configs[0].output) / "model.safetensors").stat().st_mtime_ns == before
