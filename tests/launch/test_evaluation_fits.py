"""The 32B code world model on the cards that pages and configurations name: memory of evaluations, and the table of its training."""

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
from remedy.models.flops import PEAK_TFLOPS, TokenCost, token_cost
from remedy.models.tokenizer import build_tokenizer
from remedy.settings import UserError, load
from remedy.train.config import RunConfig
from remedy.train.data import TraceDataset
from remedy.train.division import passes

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


def test_the_cluster_page_follows_its_formulas() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    weights, adapters = cwm()[0], 124_780_544
    assert f"{weights:,} weights, A is {adapters:,}" in page.replace("\n", " ")
    settings = load(RunConfig, ROOT / "configs" / "train" / "cwm_lora.yaml").train
    tokens, steps = settings.batch_size * 1934, settings.total_steps
    rows = []
    for machines in (1, 2, 4, 8):
        gpus = 8 * machines
        rounds = passes(settings.batch_size, settings.micro_batch_size, gpus)
        memory = 2 * weights / gpus + 18 * adapters / gpus + 2e9 + 2 * 64 * 6144 * 8192
        seconds = 6 * weights * tokens / (gpus * PEAK_TFLOPS["H100"] * 1e12)
        received = 2 * rounds * 2 * weights * (1 - 1 / machines)
        hours = steps * seconds * gpus / 3600
        rows.append(
            f"| {machines} | {rounds} | {memory / 1e9:.1f} | {seconds:.2f} | {hours:.1f} | {received / 1e9:.0f} |"
        )
    assert "\n".join(rows) in page


def test_the_mean_row_of_the_cluster_page_is_that_of_the_first_steps() -> None:
    changes = ["tokenizer={kind: llama3, string_tokenization: characters}", "train.deepspeed=null"]
    config = load(RunConfig, ROOT / "configs" / "train" / "cwm_lora.yaml", changes)
    try:
        tokenizer = build_tokenizer(config.tokenizer, config.data)
    except UserError as error:
        pytest.skip(str(error))
    rows = TraceDataset(config, tokenizer).__getitems__(range(64))
    # A tenth of the rows that the page counts.
    assert sum(row.size for row in rows) / len(rows) == pytest.approx(1934, rel=0.25)
