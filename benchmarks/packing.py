"""The same examples, of very unequal lengths, in rows of their own with padding, in one piece and in several (by number, and by
length as in training), and packed several to a row: tokens per second of forward, backward and optimizer step that are no padding, in
turns. Seconds are the process's own.

python benchmarks/packing.py [mixer ...]
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["USE_HUB_KERNELS"] = "0"
import torch

from remedy.models.decoder import DecoderForCausalLM
from remedy.models.tokenizer import build_tokenizer
from remedy.train.config import RunConfig
from remedy.train.data import Collator, TraceDataset, by_length
from remedy.train.run import model_config

EXAMPLES, STEPS, PIECES = 16, 6, 4
WAYS = {
    "alone": "rows of their own",
    "pieces": f"in {PIECES} pieces",
    "by length": f"in {PIECES} pieces by length",
    "4": "4 a row",
    "16": "16 a row",
}
MIXERS = ("attention", "deltanet", "mamba", "mamba2", "gru")
# Half of the examples are short.
SHORT: dict[str, Any] = {"task.length": [1, 3]}
RUN: dict[str, Any] = {
    "data": {"task": {"kind": "permutation", "n": 3, "length": [1, 30]}, "format": "repl", "reveal": {"spacing": 4}},
    "mixture": {"short": {"set": SHORT}, "any": {"weight": 1}},
    "tokenizer": {"kind": "chars"},
}
MODEL: dict[str, Any] = {"num_hidden_layers": 2, "hidden_size": 64}


def run_of(mixer: str, pack: int) -> RunConfig:
    train = {"batch_size": EXAMPLES // pack, "pack": pack, "max_steps": STEPS}
    return RunConfig.model_validate({**RUN, "model": {**MODEL, "mixers": [mixer]}, "train": train})


def compared(mixer: str) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Tokens per second of every step but the first, and the share of a batch that is padding, by the way of batching."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    padding = dict.fromkeys(WAYS, 0.0)
    runs = {way: run_of(mixer, int(way) if way.isdecimal() else 1) for way in WAYS}
    run = runs["alone"]
    tokenizer = build_tokenizer(run.tokenizer, run.data)
    collate = Collator(tokenizer.pad_id, run.train.supervised())
    torch.manual_seed(0)
    model = DecoderForCausalLM(model_config(run.model, tokenizer))  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = {way: TraceDataset(one, tokenizer) for way, one in runs.items()}
    for step in range(STEPS):
        for way, one in runs.items():
            size = one.train.batch_size // (1 if way in ("alone", "4", "16") else PIECES)
            first = step * one.train.batch_size
            starts = range(first, first + one.train.batch_size, size)
            pieces = [collate(rows[way].__getitems__(range(start, start + size))) for start in starts]
            begin = time.process_time()
            if way == "by length":
                pieces = by_length(pieces, tokenizer.pad_id)
            count = sum(int((piece["labels"] != -100).sum()) for piece in pieces)
            for piece in pieces:
                model(**piece, num_items_in_batch=count).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            real = sum(int(piece["attention_mask"].sum()) for piece in pieces)
            if step:
                rates[way].append(real / (time.process_time() - begin))
            padding[way] += (1 - real / sum(piece["input_ids"].numel() for piece in pieces)) / STEPS
    return rates, padding


def main() -> None:
    torch.set_num_threads(1)
    where = f"Python {platform.python_version()}, torch {torch.__version__}, one thread of {os.cpu_count()} cores"
    print(
        f"{where}, load {os.getloadavg()[0]:.2f}; {EXAMPLES} examples a step, two layers of width {MODEL['hidden_size']}"
    )
    for mixer in sys.argv[1:] or MIXERS:
        rates, padding = compared(mixer)
        parts = []
        for way, words in WAYS.items():
            ratio = statistics.median(a / b for a, b in zip(rates[way], rates["alone"]))
            parts.append(
                f"{words}: {statistics.median(rates[way]):,.0f} tokens/s ({ratio:.2f} times), {padding[way]:.0%} padding"
            )
        print(f"{mixer}: {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
