"""Utilisation of a GPU by training at 280M and 1.2B parameters, with packed rows, DeepSpeed and 4 bits.

60 steps of `remedy train`'s own function in bf16, of random weights: neither speed nor memory asks for others. MFU is that of
`metrics.jsonl`; the goal for 280M is 50 %. Packed are the same sessions, of unequal lengths, that rows of their own have.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
import yaml

from benchmarks.gpu.fine_tuning import tiny
from benchmarks.gpu.members import device
from benchmarks.gpu.queue import Cell, Facts
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.tracking import METRICS

STEPS, EVERY = 60, 10
LLAMA: dict[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
"""The shape of Llama-3.2-1B."""
CASES: dict[str, tuple[Facts, Facts, bool]] = {
    "280m compiled": ({"size": "280m"}, {"batch_size": 16, "torch_compile": True}, False),
    "280m": ({"size": "280m"}, {"batch_size": 16}, False),
    "280m compiled, 64 rows": ({"size": "280m"}, {"batch_size": 64, "torch_compile": True}, False),
    "280m, uneven rows": ({"size": "280m"}, {"batch_size": 32}, True),
    "280m, uneven rows packed by four": ({"size": "280m"}, {"batch_size": 8, "pack": 4}, True),
    "280m mamba2": ({"size": "280m", "mixers": ["mamba2"]}, {"batch_size": 16}, False),
    "280m gated deltanet and attention": (
        {"size": "280m", "mixers": ["gated_deltanet", "attention"]},
        {"batch_size": 16},
        False,
    ),
    "1.2B lora, 4 bits": ({"lora": {"r": 16}, "load_in_4bit": True}, {"batch_size": 8}, False),
}
"""What is trained, how, and whether its rows differ in length."""


def cells(rehearse: bool) -> list[Cell]:
    """Utilisation, packed rows and DeepSpeed before other mixers."""
    if rehearse:
        names = ("280m", "280m, uneven rows packed by four")
        return [Cell(name, {"name": name, "steps": 2, "size": "tiny", "commands": 4}) for name in names]
    names = list(CASES)
    every = [Cell(name, {"name": name}, 110.0 if "compiled" in name else 75.0, apart=True) for name in names]
    return [*every[:5], Cell("280m deepspeed", {"name": "280m", "launched": True}, 150.0), *every[5:]]


def measure(
    name: str, steps: int = STEPS, size: str = "280m", commands: int = 95, launched: bool = False
) -> Iterator[Facts]:
    with tempfile.TemporaryDirectory() as folder:
        config = _settings(name, steps, size, commands, Path(folder))
        yield from _launched(config, folder) if launched else _here(config)


def _settings(name: str, steps: int, size: str, commands: int, folder: Path) -> RunConfig:
    """Return a run over whole states of five variables."""
    model, how, uneven = CASES[name]
    tokenizer: Facts = {"kind": "symbols"}
    if "size" in model:
        model = {**model, "size": size}
    else:
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).to(torch.bfloat16).save_pretrained(
            folder / "llama"
        )
        model = {"kind": "pretrained", "name_or_path": str(folder / "llama"), **model}
        tokenizer = {"kind": "hf", "name_or_path": tiny()}
    task = {
        "kind": "permutation",
        "n": 5,
        "moves": "swaps",
        "length": [1, commands] if uneven else commands,
        "distinct_values": True,
    }
    data = {"task": task, "format": "symbolic", "context": False, "reveal": {"spacing": 1}}
    half = "bf16" if device().type == "cuda" else "fp32"
    training = {"max_steps": steps, "logging_steps": min(EVERY, steps), "save_steps": 10_000, "precision": half, **how}
    training |= {"loss_roles": ["state"], "dataloader_num_workers": 4 if device().type == "cuda" else 0}
    given = {"name": "gpu", "output": str(folder / "run"), "data": data, "tokenizer": tokenizer, "model": model}
    given |= {"train": training, "tracking": {"report_to": []}}
    return build(RunConfig, given, "benchmarks/gpu/large.py")


def _here(config: RunConfig) -> Iterator[Facts]:
    begin = time.perf_counter()
    found = _speeds(train(config))
    found["train_s"] = round(time.perf_counter() - begin, 1)
    if device().type == "cuda":
        found["measured_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    yield found


def _launched(config: RunConfig, folder: str) -> Iterator[Facts]:
    """Yield the same under the `deepspeed` launcher, ZeRO-2."""
    path = Path(folder) / "run.yaml"
    given = config.model_dump(mode="json", exclude_unset=True)
    given["train"]["deepspeed"] = {"stage": 2}
    path.write_text(yaml.safe_dump(given))
    command = [sys.executable, "-m", "deepspeed.launcher.runner", "--num_gpus", "1", "launch/train.py", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["."] + [part for part in sys.path if part])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=140, check=False)
    if done.returncode:
        raise RuntimeError(f"{done.returncode}: {(done.stderr.strip().splitlines() or ['nothing said'])[-1]}")
    yield _speeds(Path(config.output))


def _speeds(run: Path) -> Facts:
    """Medians of its records, the first left out."""
    records = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    found: Facts = {}
    for name in ("tokens_per_second", "mfu"):
        figures = [record[name] for record in records if name in record]
        if figures:
            found[name] = round(statistics.median(figures[1:] or figures), 4)
    return found
