"""A helper of tests that register something of their own: the whole way from a configuration to records."""

from pathlib import Path
from typing import Any

import pandas as pd

from remedy.eval.checkpoint import for_checkpoint
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.records.folder import RECORDS
from remedy.models.loading import load_checkpoint
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.tracking import read_metrics


def trained_and_evaluated(folder: Path, **sections: Any) -> pd.DataFrame:
    """Train two steps on swaps of three variables, with these sections of the run changed, and evaluate what was saved."""
    run = {
        "output": str(folder / "run"),
        "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 2}, "format": "repl"},
        "model": {"num_hidden_layers": 1, "hidden_size": 16},
        "train": {"max_steps": 2, "batch_size": 4, "logging_steps": 1, "threads": 1},
        "tracking": {"wandb": False},
    }
    train(build(RunConfig, run | sections, "run"))
    assert len(read_metrics(folder / "run" / "metrics.jsonl")) == 2
    model, tokenizer = load_checkpoint(str(folder / "run"), "cpu")
    diagnostic = {"kind": "permutation", "lengths": [2], "forcing": ["action_forced"], "examples": 2}
    config = build(EvalConfig, {"diagnostics": [diagnostic]}, "evaluation")
    subject = for_checkpoint(str(folder / "run"), config)
    evaluate(model, tokenizer, subject, config, folder / "evaluation", "run")
    return pd.concat(pd.read_parquet(path) for path in (folder / "evaluation" / RECORDS).glob("*.parquet"))
