"""Our Trainer against a bare PyTorch loop of the same model, rows and optimizer, in turns, and how long it waits for data.

python benchmarks/training.py
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["USE_HUB_KERNELS"] = "0"
os.environ.setdefault("TQDM_DISABLE", "1")
import torch

from remedy.models.decoder import DecoderForCausalLM, parameter_count
from remedy.models.tokenizer import build_tokenizer
from remedy.train.config import RunConfig
from remedy.train.data import Collator, TraceDataset
from remedy.train.run import model_config, train
from remedy.train.tracking import read_metrics

ROUNDS, STEPS = 4, 4
RUN: dict[str, Any] = {
    "data": {
        "task": {
            "kind": "composition",
            "functions": ["mirror_str", "rotate_str", "repeat_str", "add_prefix"],
            "depth": 1,
            "input_length": [2, 5],
        },
        "format": "cwm",
        "reveal": {"locals": "diff"},
    },
    "tokenizer": {"kind": "bpe", "vocab_size": 1024},
    "model": {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 6},
    "train": {"max_steps": STEPS, "batch_size": 8, "logging_steps": 1, "save_steps": 1000, "threads": 1},
    "tracking": {"report_to": []},
}


def trainer_rates() -> tuple[list[float], list[float]]:
    """Tokens per second, and the share of time spent on data, of every step but the first."""
    with tempfile.TemporaryDirectory() as folder:
        records = read_metrics(train(RunConfig.model_validate({**RUN, "output": folder})) / "metrics.jsonl")
    return [r["tokens_per_second"] for r in records[1:]], [r["data_wait"] for r in records[1:]]


def loop_rates() -> tuple[list[float], int]:
    """Measure the same steps in a loop of six lines; also return the model's size."""
    config = RunConfig.model_validate(RUN)
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    rows = TraceDataset(config, tokenizer)
    collate = Collator(tokenizer.pad_id, config.train.supervised())
    model = DecoderForCausalLM(model_config(config.model, tokenizer))  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    size, rates = config.train.batch_size, []
    for step in range(STEPS):
        begin = time.perf_counter()
        batch = collate(rows.__getitems__(range(step * size, (step + 1) * size)))
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rates.append(int(batch["attention_mask"].sum()) / (time.perf_counter() - begin))
    return rates[1:], parameter_count(model)


def main() -> None:
    torch.set_num_threads(1)
    where = f"Python {platform.python_version()}, torch {torch.__version__}, one thread of {os.cpu_count()} cores"
    print(f"{where}, load {os.getloadavg()[0]:.2f}")
    ratios, waits, ours, bare = [], [], [], []
    for _ in range(ROUNDS):
        mine, wait = trainer_rates()
        other, size = loop_rates()
        # The steps hold the same rows, and so the same padding: compared step by step.
        ratios += [a / b for a, b in zip(mine, other)]
        waits += wait
        ours += mine
        bare += other
    print(
        f"{size:,} parameters: Trainer {statistics.median(ours):,.0f} tokens/s, bare loop {statistics.median(bare):,.0f}; ratio "
        f"{statistics.median(ratios):.3f} (quartiles {', '.join(f'{q:.3f}' for q in statistics.quantiles(ratios, n=4))})"
    )
    print(
        f"waiting for data: {statistics.median(waits):.2%} of the time (examples made on the fly in the same process)"
    )


if __name__ == "__main__":
    main()
