"""Every shipped evaluation of the 32B code world model fits the card that it names: weights, and keys and values of a full batch."""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, CwmConfig

from remedy.eval.config import EvalConfig
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import expand
from remedy.models.config import PretrainedSettings
from remedy.models.flops import TokenCost, token_cost
from remedy.settings import load

ROOT = Path(__file__).resolve().parents[2]
CWM = "facebook/cwm"
ROOM = 0.9 * 80e9
"""Of a card's bytes; the rest is for CUDA's context, work space and fragments."""
NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes of a 4-bit weight and its doubly quantised scales (Dettmers et al., "QLoRA", 2023, section 3)."""
PROMPT = 1024
"""Tokens before those that are written; CruxEval's and HumanEval's programs have fewer."""
EXPERIMENTS = [ROOT / "configs" / "experiment" / name for name in ("cwm_actions.yaml", "cwm_lora.yaml")]
PAGES = "".join(
    (ROOT / name).read_text() for name in ("README.md", "docs/training.md", "docs/evaluation.md", "docs/serving.md")
).replace("\\\n", " ")
COMMANDS = [
    line.split("  #")[0]
    for line in re.findall(r"^(?:remedy evaluate|torchrun \S+ \d+ launch/evaluate\.py) .*$", PAGES, re.MULTILINE)
    if (CWM in line or "cwm-merged" in line) and "backend." not in line
]


@lru_cache
def cwm() -> tuple[int, int, TokenCost]:
    """Its parameters, those that 4 bits hold, and what a token costs. Transformers' defaults are the 32B model's (its config.json): 64
    layers, 8 heads of keys and values, windows of 8,192."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CwmConfig(), dtype=torch.bfloat16)
    cost = token_cost(model)
    assert cost is not None
    head = model.get_output_embeddings()
    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear) and m is not head)
    return sum(p.numel() for p in model.parameters()), linear, cost


def needed(settings: EvalConfig, four_bit: bool) -> float:
    """Bytes of weights in bf16 or NF4, and of keys and values of rows that all run to the limit."""
    parameters, linear, cost = cwm()
    weights = 2.0 * parameters
    if four_bit:
        weights += (NF4 - 2) * linear
    _, state = cost.at(settings.max_new_tokens + PROMPT)
    return weights + 2 * settings.batch_size * state


def on_one_gpu(experiment: Path) -> list[str]:
    """What its comment changes for a single GPU."""
    (line,) = re.findall(r"^#   remedy run \S+ (.*)$", experiment.read_text(), re.MULTILINE)
    return str(line).split()


@pytest.mark.parametrize("one_gpu", [False, True], ids=["8 GPUs", "1 GPU in 4 bits"])
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda path: path.stem)
def test_experiments_fit(experiment: Path, one_gpu: bool) -> None:
    changes = on_one_gpu(experiment) if one_gpu else []
    jobs = expand(load(ExperimentConfig, experiment, changes), "x")
    models = [job.train.model for job in jobs]
    assert all(isinstance(model, PretrainedSettings) and model.name_or_path == CWM for model in models)
    for job, model in zip(jobs, models):
        assert isinstance(model, PretrainedSettings)
        assert model.load_in_4bit == bool(changes)
        assert needed(job.evaluate, model.load_in_4bit) < ROOM


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_fit(command: str) -> None:
    words = shlex.split(command)
    config = next(word for word in words if word.startswith("configs/"))
    settings = load(EvalConfig, ROOT / config, [word for word in words if re.match(r"[\w.]+=", word)])
    assert needed(settings, four_bit=False) < ROOM
