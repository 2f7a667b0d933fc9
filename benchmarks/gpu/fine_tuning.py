"""A pretrained model trained on traces with all of its weights, and what it then writes without a fault."""

from __future__ import annotations

import gc
import json
import shutil
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
from remedy.processes import this_process
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.data import encode_rows
from remedy.train.run import train
from remedy.train.validation import Validation

SMOLLM2 = "pretrained/smollm2"
WRITTEN = ("state", "value", "action", "event", "structure")
"""Roles of all that a model writes by itself."""


@cache
def tiny() -> str:
    """A pretrained model for rehearsals."""
    from tests.tiny_cwm import write_tiny_cwm

    return str(write_tiny_cwm(Path(tempfile.mkdtemp()) / "tiny"))


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
    """Train in bf16 on the data; yields the curve of validation, and then for each test (changes of the data, roles) the share of its
    examples of which the model chooses every token of the roles, given the true ones before: what it writes without a fault."""
    with tempfile.TemporaryDirectory() as folder:
        config = build(
            RunConfig,
            {
                "name": "gpu",
                "output": f"{folder}/run",
                "data": data,
                "tokenizer": {"kind": "hf", "name_or_path": base, **tokenizer},
                "model": {"kind": "pretrained", "name_or_path": base},
                "train": {
                    "max_steps": steps,
                    "batch_size": rows,
                    "learning_rate": 2e-4,
                    "precision": "bf16" if device().type == "cuda" else "fp32",
                    "loss_roles": WRITTEN,
                    "evaluate_every": every,
                    "validation_examples": examples,
                    "seed": seed,
                    "data_seed": seed,
                    "logging_steps": every,
                    "save_steps": 10_000,
                    "dataloader_num_workers": 8 if device().type == "cuda" else 0,
                },
                "tracking": {"wandb": False},
            },
            "benchmarks/gpu",
        )
        trained = train(config)
        account = json.loads((trained / TRAINING).read_text())
        yield {key: account[key] for key in ("steps", "tokens", "flops", "curve")}
        model, reader = load_checkpoint(str(trained), precision="bf16" if device().type == "cuda" else None)
        for name, (changes, roles) in tests.items():
            asked = config.data.changed(changes, name)
            found = [[row] for row in encode_rows(asked, reader, "test", range(examples))]
            written = frozenset(ROLES[role] for role in roles)
            figures = Validation(found, reader.pad_id, written, 16).figures(model, device(), this_process())
            tokens = sum(len(row.ids) for (row,) in found) / examples
            yield {"test": name, "right": round(figures["exact_match"], 4), "tokens": round(tokens, 1)}
        del model
        gc.collect()
        torch.cuda.empty_cache()
        shutil.rmtree(trained)


def mean_tokens(base: str, data: DataConfig, examples: int) -> float:
    """Tokens of an example."""
    from remedy.models.tokenizer import build_tokenizer
    from remedy.models.tokenizer_backends import HuggingFaceSettings

    reader = build_tokenizer(HuggingFaceSettings(name_or_path=base), data)
    rows = encode_rows(data, reader, "train", range(examples))
    return sum(len(row.ids) for row in rows) / examples
