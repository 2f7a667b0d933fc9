"""Training throughput on this machine: every mixer, and our Trainer against a bare PyTorch loop of the same model and batch.

python benchmarks/training.py
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["USE_HUB_KERNELS"] = "0"
import torch

from remedy.models.checkpoint import RemedyConfig
from remedy.models.config import ModelConfig
from remedy.models.decoder import RemedyForCausalLM
from remedy.models.mixers import MIXERS
from remedy.models.tokenizers import build_tokenizer
from remedy.train.config import RunConfig
from remedy.train.data import Collator, TraceDataset
from remedy.train.run import train
from remedy.train.tracking import read_metrics

RUN = {
    "data": {
        "task": {"kind": "permutation", "n": 5, "moves": "swaps", "length": 32},
        "format": "symbolic",
        "context": False,
        "reveal": {"every": 2},
    },
    "tokenizer": {"kind": "symbols"},
    "model": {"mixers": ["deltanet"], "layers": 2, "hidden": 128},
    "train": {"steps": 40, "batch_size": 16, "log_every": 10, "save_every": 1000, "threads": 1},
    "tracking": {"wandb": False},
}


def mixer_rates(batch: int = 16, length: int = 256) -> None:
    """Tokens per second of forward and backward, d = 128, 2 layers."""
    tokens = torch.randint(0, 64, (batch, length))
    for name in MIXERS:
        model = RemedyForCausalLM(RemedyConfig.from_model(ModelConfig(mixers=(name,), hidden=128), 64))  # type: ignore[arg-type]
        seconds = []
        for _ in range(4):
            begin = time.perf_counter()
            model(tokens, labels=tokens).loss.backward()
            seconds.append(time.perf_counter() - begin)
        print(f"{name}: {batch * length / statistics.median(seconds[1:]):,.0f} tokens/s")


def trainer_against_loop() -> None:
    """The same rows, model and optimizer in a loop of six lines."""
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig.model_validate({**RUN, "output": folder})
        output = train(config)
        records = read_metrics(output / "metrics.jsonl")
    ours = statistics.median(r["tokens_per_second"] for r in records[1:])
    wait = statistics.median(r["data_wait"] for r in records[1:])

    tokenizer = build_tokenizer(config.tokenizer, config.data)
    rows = TraceDataset(config.data, tokenizer, config.train)
    collate = Collator(tokenizer.pad_id, config.train.loss_roles())
    model = RemedyForCausalLM(RemedyConfig.from_model(config.model, tokenizer.vocab_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rates = []
    for step in range(config.train.steps):
        begin = time.perf_counter()
        batch = collate(rows.__getitems__(range(step * 16, step * 16 + 16)))
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rates.append(int(batch["attention_mask"].sum()) / (time.perf_counter() - begin))
    bare = statistics.median(rates[10:])
    print(
        f"trainer: {ours:,.0f} tokens/s, {ours / bare:.2f} of a bare loop ({bare:,.0f}); data wait {wait:.1%} of the time"
    )


def main() -> None:
    torch.set_num_threads(1)
    where = f"Python {platform.python_version()}, torch {torch.__version__}, one thread of {os.cpu_count()} cores"
    print(f"{where}, load {os.getloadavg()[0]:.2f}")
    mixer_rates()
    trainer_against_loop()


if __name__ == "__main__":
    main()
