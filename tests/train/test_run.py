"""Training runs in real processes: killed and resumed, on two processes, tracked, and stopped by what a user can put right; and what
weight decay leaves alone."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import TrainingArguments

from remedy.models.loading import load_checkpoint
from remedy.models.mixers import MIXERS
from remedy.models.model_manifest import check_model, read_training
from remedy.models.tokenizer import build_tokenizer
from remedy.owner import owned
from remedy.settings import UserError, build, load
from remedy.train import run
from remedy.train.config import RunConfig
from remedy.train.processes import SIGNALS
from remedy.train.run import build_model, train
from remedy.train.tracking import read_metrics
from remedy.train.trainer import RowTrainer
from tests.models.test_tokenizer import write_llama
from tests.train.launching import CONFIG, SCRIPT, curve, finished, in_process, start, written


@pytest.mark.slow
def test_killed_and_resumed_the_loss_curve_is_the_same_to_the_bit(tmp_path: Path) -> None:
    # Long enough that the kill surely comes before the end, however busy the machine.
    config = written(
        tmp_path, train={**CONFIG["train"], "max_steps": 80}, tracking={"report_to": [], "peak_tflops": 0.1}
    )
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    in_process(config, f"output={whole}")
    assert [step for step, *_ in curve(whole)] == list(range(2, 81, 2))
    record = read_metrics(whole / "metrics.jsonl")[-1]
    assert record["tokens_per_second"] > 0
    assert 0 <= record["data_wait"] <= 1
    assert 0 < record["mfu"] < 1

    process = start([SCRIPT, config, f"output={killed}"])
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and not any(r["step"] >= 12 for r in read_metrics(killed / "metrics.jsonl")):
        time.sleep(0.002)
    process.kill()
    finished(process, -signal.SIGKILL)
    assert not (killed / "model.safetensors").exists()

    with pytest.raises(UserError, match="pass --resume to continue it"):
        in_process(config, f"output={killed}")
    other = load(RunConfig, config, [f"output={killed}", "train.learning_rate=0.5"])
    with pytest.raises(UserError, match=r"train\.learning_rate is 0\.5 but was 0\.001"):
        train(other, resume=True)
    train(load(RunConfig, config, [f"output={killed}"]), resume=True)
    assert curve(killed) == curve(whole)
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_folder_is_one_runs_and_its_weights_are_of_one_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out = written(tmp_path, train={**CONFIG["train"], "max_steps": 2, "save_steps": 2}), tmp_path / "run"
    with owned(out), pytest.raises(UserError, match=rf"{out}: process {os.getpid()} on .* is writing there"):
        in_process(config, f"output={out}")
    in_process(config, f"output={out}")
    shutil.copytree(out / "checkpoint-2", tmp_path / "other" / "checkpoint-2")
    other = load(RunConfig, config, [f"output={tmp_path / 'other'}", "train.seed=9"])
    with pytest.raises(UserError, match=r"train\.seed is 9 but was 0 in .*other/checkpoint-2/config\.yaml"):
        train(other, resume=True)

    kept = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    shutil.rmtree(out / "checkpoint-2")  # to save room
    for seed, resume in ((9, False), (0, False), (0, True)):
        with pytest.raises(UserError, match=r"already holds a model|finished model, and none of its checkpoints"):
            train(load(RunConfig, config, [f"output={out}", f"train.seed={seed}"]), resume)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == kept

    build, untrained = run.build_model, tmp_path / "untrained"

    def meanwhile(*given: Any) -> Any:
        (untrained / "config.yaml").write_bytes(kept["config.yaml"])  # of another run
        return build(*given)

    monkeypatch.setattr(run, "build_model", meanwhile)
    with pytest.raises(UserError, match=r"config\.yaml: was changed while this run trained"):
        in_process(config, f"output={untrained}", "train.max_steps=0")
    with pytest.raises(UserError, match=r"has no complete\.json"):
        check_model(untrained)


@pytest.mark.slow
def test_two_processes_give_the_figures_of_one_and_make_one_tracked_run(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    changes = {**CONFIG["train"], "evaluate_every": 4, "validation_examples": 13, "keep_best": "loss", "max_steps": 8}
    config = written(tmp_path, train=changes)
    one, two = tmp_path / "one", tmp_path / "two"
    in_process(config, f"output={one}")
    words = [SCRIPT, config, f"output={two}", "train.deepspeed.stage=3", "tracking.report_to=[wandb]"]
    finished(start(words, 2, WANDB_MODE="offline"))
    speed = ("tokens_per_second", "data_wait", "grad_norm")
    for alone, together in zip(*(read_metrics(folder / "metrics.jsonl") for folder in (one, two)), strict=True):
        for name in alone.keys() - set(speed):
            assert together[name] == pytest.approx(alone[name], rel=1e-4, abs=1e-4), name
    accounts = [read_training(folder) for folder in (one, two)]
    assert accounts[0]["tokens"] == accounts[1]["tokens"]  # type: ignore[index]
    load_checkpoint(str(two))
    assert len(list(two.glob("wandb/offline-run-*"))) == 1
    assert (
        yaml.safe_load((two / "config.yaml").read_text())["train"]["adam_beta2"] == 0.98
    )  # all is written, as it is resolved


def test_other_trackers_get_the_metrics_of_training_and_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path / 'mlruns'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database takes the whole of MLflow
    settings = {**CONFIG["train"], "max_steps": 4, "evaluate_every": 4, "validation_examples": 4}
    in_process(
        written(tmp_path, train=settings), f"output={tmp_path / 'run'}", "tracking.report_to=[tensorboard,mlflow]"
    )
    records = read_metrics(tmp_path / "run" / "metrics.jsonl")
    losses = [(record["step"], pytest.approx(record["loss"])) for record in records if "loss" in record]
    assert [step for step, _ in losses] == [2, 4]

    (events,) = (tmp_path / "run" / "runs").glob("*")
    board = accumulator.EventAccumulator(str(events))
    board.Reload()
    assert [(point.step, point.value) for point in board.Scalars("train/loss")] == losses
    assert "eval/right_state" in board.Tags()["scalars"]

    (tracked,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
    assert (tracked.info.run_name, tracked.info.status) == ("tiny", "FINISHED")
    points = mlflow.MlflowClient().get_metric_history(tracked.info.run_id, "loss")
    assert [(point.step, point.value) for point in points] == losses
    assert "eval_right_state" in tracked.data.metrics


def test_a_tracker_that_is_not_installed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISABLE_MLFLOW_INTEGRATION", "true")  # for Transformers it is missing then
    with pytest.raises(UserError, match=r"tracking.report_to: mlflow is not installed"):
        in_process(written(tmp_path), f"output={tmp_path / 'run'}", "tracking.report_to=[mlflow]")


def test_a_metrics_file_cut_in_the_middle_of_a_line_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"step": 1, "loss": 2.0}) + '\n{"step": 2, "lo')
    assert read_metrics(path) == [{"step": 1, "loss": 2.0}]


def test_a_loss_that_is_no_number_stops_the_run_and_names_step_and_examples(tmp_path: Path) -> None:
    settings = {
        **CONFIG["train"],
        "learning_rate": 100.0,
        "weight_decay": 10.0,  # each step multiplies the weights by 1 - 1000
        "warmup_ratio": 0.5,
        "max_steps": 20,
        "save_steps": 1,
        "logging_steps": 5,
    }
    config = RunConfig.model_validate({**CONFIG, "output": str(tmp_path / "run"), "train": settings})
    handlers = [signal.getsignal(number) for number in (*SIGNALS, signal.SIGINT)]
    with pytest.raises(UserError) as stopped:
        train(config)
    assert [signal.getsignal(number) for number in (*SIGNALS, signal.SIGINT)] == handlers
    message = str(stopped.value)
    step = int(message.removeprefix("step ").split(":")[0])
    assert step > 1
    assert f"(train examples {8 * (step - 1)} to {8 * step - 1})" in message
    assert f"checkpoint-{step - 1} is the last good checkpoint" in message
    assert (tmp_path / "run" / "latest").resolve().name == f"checkpoint-{step - 1}"


def test_a_world_that_does_not_divide_the_batch_says_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "3"}.items():
        monkeypatch.setenv(key, value)
    config = RunConfig.model_validate({**CONFIG, "output": str(tmp_path / "run")})
    with pytest.raises(UserError, match=r"batch_size \(8\) is not a multiple of 3 processes; choose a multiple of 3"):
        train(config)


@pytest.mark.parametrize(("precision", "rounded"), [("fp32", False), ("bf16", True)])
def test_bf16_on_a_cpu_is_computed_at_few_widths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, rounded: bool
) -> None:
    widths: list[int] = []
    step = run.RowTrainer.training_step

    def seen(self: run.RowTrainer, model: torch.nn.Module, inputs: dict[str, torch.Tensor], *more: object) -> object:
        widths.append(inputs["labels"].shape[1])
        return step(self, model, inputs, *more)

    monkeypatch.setattr(run.RowTrainer, "training_step", seen)
    train(load(RunConfig, written(tmp_path), [f"output={tmp_path / 'run'}", f"train.precision={precision}"]))
    assert widths
    assert all(width % 16 == 0 for width in widths) == rounded


def test_a_run_is_lengthened_on_resume_and_goes_on_by_the_new_schedule(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    short = {**CONFIG["train"], "max_steps": 3, "logging_steps": 1}
    config, out, whole = written(tmp_path, train=short), tmp_path / "run", tmp_path / "whole"
    train(load(RunConfig, config, [f"output={out}"]))
    train(load(RunConfig, config, [f"output={whole}", "train.max_steps=6"]))
    with caplog.at_level("INFO", "remedy"):
        train(load(RunConfig, config, [f"output={out}", "train.max_steps=6"]), resume=True)
    assert "6 steps in place of 3: from step 3 on the learning rate is" in caplog.text
    rates = [[record["learning_rate"] for record in read_metrics(folder / "metrics.jsonl")] for folder in (out, whole)]
    assert rates[0][3:] == rates[1][3:]
    assert load(RunConfig, out / "config.yaml").train.max_steps == 6
    check_model(out)
    with pytest.raises(UserError, match=r"max_steps is 4, and .*checkpoint-6 is at step 6 already"):
        train(load(RunConfig, config, [f"output={out}", "train.max_steps=4"]), resume=True)


MIXED: dict[str, Any] = {"mixers": list(MIXERS), "num_hidden_layers": len(MIXERS), "qk_norm": True}
LEFT_ALONE = ("A_log", ".D", "bias", "norm", ".shift_", ".k_k", ".k_a", ".r_k")


def test_the_optimizers_groups(tmp_path: Path) -> None:
    config = build(
        RunConfig, {"data": {"task": {"kind": "permutation"}}, "tokenizer": {"kind": "chars"}, "model": MIXED}
    )
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    model: Any = build_model(config, tokenizer)
    arguments = TrainingArguments(output_dir=str(tmp_path), weight_decay=0.3, use_cpu=True, report_to=[])
    groups = RowTrainer(config, tokenizer, model=model, args=arguments).create_optimizer().param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        alone = any(part in name for part in LEFT_ALONE)
        assert decay[id(parameter)] == (0.0 if alone else 0.3), name
        assert alone or parameter.ndim >= 2, name


def test_what_training_needs_at_its_end_is_tried_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that takes no file of the model's size, and of a model that cannot be saved."""
    config, out = written(tmp_path, model={**CONFIG["model"], "hidden_size": 64}), tmp_path / "run"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: .*run/\.trial-"):
            in_process(config, f"output={out}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def shared(config: RunConfig, tokenizer: Any) -> Any:
        model: Any = build_model(config, tokenizer)
        first, second = model.layers[:2]
        second.mlp.down_proj.weight = first.mlp.down_proj.weight
        return model

    monkeypatch.setattr(run, "build_model", shared)
    with pytest.raises(UserError, match="run: the model cannot be saved and read again") as refused:
        in_process(config, f"output={out}")
    assert "\n" not in str(refused.value)
    assert sorted(path.name for path in out.iterdir()) == ["config.yaml"]


@pytest.mark.parametrize("lora", [None, {"r": 2}, {"r": 2, "embeddings": "all"}], ids=str)
@pytest.mark.parametrize("saved", [run.SAVED, 0])
def test_pretrained_models_are_tried_with_their_weights_and_without(
    lora: dict[str, Any] | None, saved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_llama(False, tmp_path / "base", bos_token="<s>", eos_token="</s>", pad_token="</s>")
    name = str(tmp_path / "base")
    changes = {
        "data": {**CONFIG["data"], "format": "cwm"},
        "tokenizer": {"kind": "hf", "name_or_path": name},
        "model": {"kind": "pretrained", "name_or_path": name, "lora": lora},
    }
    config = load(RunConfig, written(tmp_path, **changes), [f"output={tmp_path / 'run'}"])
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    model = build_model(config, tokenizer)
    monkeypatch.setattr(run, "SAVED", saved)
    Path(config.output).mkdir()
    before = torch.get_rng_state()
    run.try_saving(config, model, tokenizer)
    assert torch.equal(torch.get_rng_state(), before)
    assert not list(Path(config.output).iterdir())
