"""The same examples, of very unequal lengths, in rows of their own with padding and packed several to a row: tokens per second of
forward, backward and optimizer step that are no padding, in turns.

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
from remedy.train.data import Collator, TraceDataset
from remedy.train.run import model_config

EXAMPLES, STEPS, PACKS = 16, 6, (1, 4, 16)
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


def compared(mixer: str) -> tuple[dict[int, list[float]], dict[int, float]]:
    """Tokens per second of every step but the first, and the share of a batch that is padding, by examples in a row."""
    rates: dict[int, list[float]] = {pack: [] for pack in PACKS}
    padding = dict.fromkeys(PACKS, 0.0)
    runs = {pack: run_of(mixer, pack) for pack in PACKS}
    tokenizer = build_tokenizer(runs[1].tokenizer, runs[1].data)
    collate = Collator(tokenizer.pad_id, runs[1].train.supervised())
    torch.manual_seed(0)
    model = DecoderForCausalLM(model_config(runs[1].model, tokenizer))  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = {pack: TraceDataset(run, tokenizer) for pack, run in runs.items()}
    for step in range(STEPS):
        for pack in PACKS:
            size = EXAMPLES // pack
            batch = collate(rows[pack].__getitems__(range(step * size, (step + 1) * size)))
            real = int(batch["attention_mask"].sum())
            begin = time.perf_counter()
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step:
                rates[pack].append(real / (time.perf_counter() - begin))
            padding[pack] += (1 - real / batch["input_ids"].numel()) / STEPS
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
        for pack in PACKS:
            ratio = statistics.median(a / b for a, b in zip(rates[pack], rates[1]))
            parts.append(
                f"{pack} a row: {statistics.median(rates[pack]):,.0f} tokens/s ({ratio:.2f} times), {padding[pack]:.0%} padding"
            )
        print(f"{mixer}: {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
