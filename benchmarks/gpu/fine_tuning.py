"""A pretrained model trained on traces with all of its weights, and what it then writes without a fault."""

from __future__ import annotations

import contextlib
import gc
import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.members import device
from benchmarks.gpu.queue import Facts
from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import ROLES
from remedy.models.loading import load_checkpoint
from remedy.models.model_manifest import TRAINING
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.processes import this_process
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.data import encode_rows
from remedy.train.run import train
from remedy.train.validation import Validation

SMOLLM2 = "pretrained/smollm2"
WRITTEN = ("state", "value", "action", "event", "structure")
"""Roles of all that a model writes by itself."""
WORKERS = 8
"""Processes that make examples ahead."""


@cache
def tiny() -> str:
    """Return a pretrained model for rehearsals."""
    from tests.tiny_cwm import write_tiny_cwm

    return str(write_tiny_cwm(Path(tempfile.mkdtemp()) / "tiny"))


@contextlib.contextmanager
def trained(given: Mapping[str, Any]) -> Iterator[tuple[RunConfig, Facts, CausalLM, TraceTokenizer]]:
    """Train by a configuration, in bf16 on a GPU: it, the account of the training, the model and its tokenizer."""
    on_gpu = device().type == "cuda"
    with tempfile.TemporaryDirectory() as folder:
        here = {"name": "gpu", "output": f"{folder}/run", "tracking": {"report_to": []}}
        how = {
            "precision": "bf16" if on_gpu else "fp32",
            "save_steps": 10_000,
            "dataloader_num_workers": WORKERS if on_gpu else 0,
        }
        config = build(RunConfig, {**given, **here, "train": {**given["train"], **how}}, "benchmarks/gpu")
        path = train(config)
        model, reader = load_checkpoint(str(path), precision="bf16" if on_gpu else None)
        yield config, json.loads((path / TRAINING).read_text()), model, reader
        del model
        gc.collect()
        torch.cuda.empty_cache()


def fine_tuned(
    base: str,
    data: Facts,
    tests: Mapping[str, tuple[Facts, tuple[str, ...]]],
    seed: int,
    steps: int,
    rows: int,
    every: int,
    examples: int,
    tokenizer: Mapping[str, Any] = {},
) -> Iterator[Facts]:
    """Train on the data; yield the curve of validation, then each test's share of examples without a fault.

    A test is changes of the data, and roles. An example is without a fault if the model chooses every token of these roles,
    given the true ones before.
    """
    given = {
        "data": data,
        "tokenizer": {"kind": "hf", "name_or_path": base, **tokenizer},
        "model": {"kind": "pretrained", "name_or_path": base},
        "train": {
            "max_steps": steps,
            "batch_size": rows,
            "learning_rate": 2e-4,
            "loss_roles": WRITTEN,
            "evaluate_every": every,
            "validation_examples": examples,
            "seed": seed,
            "data_seed": seed,
            "logging_steps": every,
        },
    }
    with trained(given) as (config, account, model, reader):
        yield {key: account[key] for key in ("steps", "tokens", "flops", "curve")}
        for name, (changes, roles) in tests.items():
            asked = config.data.changed(changes, name)
            found = [[row] for row in encode_rows(asked, reader, "test", range(examples))]
            written = frozenset(ROLES[role] for role in roles)
            figures = Validation(found, reader.pad_id, written, 16).metrics(model, device(), this_process())
            tokens = sum(len(row.ids) for (row,) in found) / examples
            yield {"test": name, "right": round(figures["exact_match"], 4), "tokens": round(tokens, 1)}


def mean_tokens(base: str, data: DataConfig, examples: int) -> float:
    """Tokens of an example."""
    from remedy.models.tokenizer import build_tokenizer
    from remedy.models.tokenizer_backends import HuggingFaceSettings

    reader = build_tokenizer(HuggingFaceSettings(name_or_path=base), data)
    rows = encode_rows(data, reader, "train", range(examples))
    return sum(len(row.ids) for row in rows) / examples
