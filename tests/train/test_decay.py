"""Weight decay leaves decay rates, norms and biases alone, in the optimizer's groups and in what a run saves."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import TrainingArguments

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS
from remedy.train.trainer import RowTrainer
from tests.train.launching import SCRIPT, finished, in_process, start, written

MIXED: dict[str, Any] = {"mixers": list(MIXERS), "num_hidden_layers": len(MIXERS), "qk_norm": True}
LEFT_ALONE = ("A_log", ".D", "bias", "norm", ".shift_", ".k_k", ".k_a", ".r_k")
ZERO = "lora.down.weight"
"""What begins at zero: a first step has nothing to shrink."""


def test_the_optimizers_groups(tmp_path: Path) -> None:
    config = DecoderConfig.from_settings(DecoderSettings.model_validate(MIXED), 20)
    model = DecoderForCausalLM(config)
    arguments = TrainingArguments(output_dir=str(tmp_path), weight_decay=0.3, use_cpu=True, report_to=[])
    groups = RowTrainer(model=model, args=arguments).create_optimizer().param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        alone = any(part in name for part in LEFT_ALONE)
        assert decay[id(parameter)] == (0.0 if alone else 0.3), name
        assert alone or parameter.ndim >= 2, name


def after_a_step(folder: Path, decay: float, deepspeed: bool) -> dict[str, Tensor]:
    """What a run of one step saves; every parameter has had the same gradient, whatever the decay."""
    folder.mkdir()
    train = {"max_steps": 1, "batch_size": 8, "save_steps": 8, "threads": 1, "warmup_ratio": 0.0, "weight_decay": decay}
    if deepspeed:
        train["deepspeed"] = {"stage": 1}
    config = written(folder, model={**MIXED, "hidden_size": 16}, train=train, output=str(folder / "run"))
    if deepspeed:
        finished(start([sys.executable, SCRIPT, config]))
    else:
        in_process(config)
    return load_file(folder / "run" / "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("deepspeed", [False, True])
def test_a_step_with_decay_shrinks_weights_alone(deepspeed: bool, tmp_path: Path) -> None:
    if deepspeed:
        pytest.importorskip("deepspeed")
    without, with_decay = (after_a_step(tmp_path / str(d), d, deepspeed) for d in (0.0, 50.0))
    for name, weights in without.items():
        alone = any(part in name for part in LEFT_ALONE)
        assert torch.equal(weights, with_decay[name]) == (alone or name.endswith(ZERO)), name
