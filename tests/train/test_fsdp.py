"""FSDP2 on two processes: their figures are those of one, and a run goes on from its checkpoint."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from remedy.models.loading import load_checkpoint
from remedy.settings import ConfigError, UserError, build
from remedy.train.config import RunConfig
from remedy.train.tracking import read_metrics
from tests.models.test_tokenizer import write_llama
from tests.train.launching import CONFIG, finished, in_process, start, written

DRIVER = str(Path(__file__).with_name("fsdp_driver.py"))
FIGURES = (  # all but speeds
    "step",
    "loss",
    "grad_norm",
    "learning_rate",
    "eval_loss",
    "eval_right_state",
    "tokens",
)


def figures(run: Path) -> list[list[Any]]:
    records = read_metrics(run / "metrics.jsonl")
    return [
        [pytest.approx(record[name], abs=1e-5, rel=1e-5) for name in FIGURES if name in record] for record in records
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["decoder", "adapters"])
def test_two_processes_have_the_figures_of_one_and_go_on_from_a_checkpoint(model: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {}
    if model == "adapters":
        write_llama(False, tmp_path / "tiny")
        name = str(tmp_path / "tiny")
        changes["model"] = {"kind": "pretrained", "name_or_path": name, "lora": {"r": 4, "lora_dropout": 0.0}}
        changes["tokenizer"] = {"kind": "hf", "name_or_path": name}
    steps = {
        "max_steps": 6,
        "logging_steps": 1,
        "save_steps": 3,
        "evaluate_every": 3,
        "validation_examples": 5,
        "micro_batch_size": 2,
    }
    config = written(tmp_path, train={**CONFIG["train"], **steps}, **changes)
    one, two = in_process(config, f"output={tmp_path / 'one'}"), tmp_path / "two"
    command = [DRIVER, config, f"output={two}", "train.fsdp={}"]
    finished(start(command, 2))
    assert figures(two) == figures(one)
    weights, expected = (dict(load_checkpoint(str(run))[0].named_parameters()) for run in (two, one))
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        assert weight.detach().numpy() == pytest.approx(expected[name].detach().numpy(), abs=1e-5), name

    shutil.rmtree(two / "checkpoint-6")
    for file in (two / "complete.json", *two.glob("*.safetensors")):
        file.unlink()
    finished(start([*command, "--resume"], 2))
    assert figures(two) == figures(one)


def test_fsdp_where_it_would_divide_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"train.fsdp needs GPUs: .* use train.deepspeed=\{stage: 3\} here"):
        in_process(written(tmp_path), f"output={tmp_path / 'run'}", "train.fsdp={}")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(UserError, match=r"accelerate launch was given FSDP, which is read from train.fsdp here"):
        in_process(written(tmp_path), f"output={tmp_path / 'run'}")
    with pytest.raises(ConfigError, match="deepspeed and fsdp both divide a run"):
        build(RunConfig, {**CONFIG, "train": {"deepspeed": {}, "fsdp": {}}})
