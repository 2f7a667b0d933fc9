"""A pretrained model that learns in bfloat16 on a CPU: float32 weights in the optimizer and in files, roundings in the model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from remedy.models.cpu_training import ATTENTION
from remedy.settings import load
from remedy.train import run
from remedy.train.config import RunConfig
from remedy.train.masters import MasterWeights
from remedy.train.run import train
from tests.models.test_tokenizer import write_llama
from tests.train.launching import CONFIG, curve, written


def test_updates_below_bfloat16s_steps_add_up() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = MasterWeights([{"params": [weight], "weight_decay": 0.0}], [weight], lr=1e-4)
    for _ in range(50):
        weight.grad = torch.ones(3, dtype=torch.bfloat16)
        optimizer.step()
        optimizer.zero_grad()
    assert weight.dtype == torch.bfloat16
    assert weight.grad is None
    assert torch.equal(weight, torch.full((3,), 0.995).bfloat16())
    with optimizer.restored():
        assert torch.allclose(weight, torch.full((3,), 0.995))
    assert weight.dtype == torch.bfloat16


@pytest.mark.parametrize("lora", [None, {"r": 2}, {"r": 2, "embeddings": "all", "lora_dropout": 0.1}], ids=str)
def test_a_pretrained_model_held_in_bf16_learns_as_in_float32_and_resumes_to_the_bit(
    lora: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_llama(True, tmp_path / "base", bos_token="<s>", eos_token="</s>", pad_token="</s>")
    name = str(tmp_path / "base")
    config = written(
        tmp_path,
        data={**CONFIG["data"], "format": "cwm"},
        tokenizer={"kind": "hf", "name_or_path": name},
        model={"kind": "pretrained", "name_or_path": name, "lora": lora},
        train={"max_steps": 4, "batch_size": 2, "logging_steps": 1, "save_steps": 2, "save_total_limit": 2},
    )
    learnt: list[tuple[Any, ...]] = []
    step = run.RowTrainer.training_step

    def seen(self: run.RowTrainer, model: Any, inputs: dict[str, torch.Tensor], *more: object) -> object:
        attention = self.model.config._attn_implementation  # type: ignore[union-attr]
        learnt.append((self.args.bf16, {p.dtype for p in model.parameters()}, attention))
        return step(self, model, inputs, *more)

    monkeypatch.setattr(run.RowTrainer, "training_step", seen)

    def trained(folder: str, *changes: str, resume: bool = False) -> Path:
        return train(load(RunConfig, config, [f"output={tmp_path / folder}", *changes]), resume=resume)

    exact = trained("fp32")
    learnt.clear()
    whole = trained("whole", "train.precision=bf16")
    dtypes = {torch.bfloat16} if lora else {torch.bfloat16, torch.float32}
    assert learnt == [(lora is None, dtypes, ATTENTION)] * 4
    assert [row[1] for row in curve(whole)] == pytest.approx([row[1] for row in curve(exact)], rel=1e-3)
    saved = load_file(next(whole.glob("*model.safetensors")))
    assert {part.dtype for part in saved.values()} == {torch.float32}

    shutil.copytree(whole, tmp_path / "again", symlinks=True)
    shutil.rmtree(tmp_path / "again" / "checkpoint-4")
    again = load_file(next(trained("again", "train.precision=bf16", resume=True).glob("*model.safetensors")))
    assert len(learnt) == 6
    assert all(torch.equal(saved[name], part) for name, part in again.items())
