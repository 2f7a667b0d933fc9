"""Speed of a generator with drafts against the plain loop, both measured in turn in one run, token for token.

python benchmarks/decoding.py CHECKPOINT [--set KEY=VALUE ...] [--forcing NAME ...] [--batch N ...] [--examples N]
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

from remedy.data_gen.config import DataConfig
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.checkpoint import for_checkpoint
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.constraints import starts_of
from remedy.eval.decoding.forcings import FORCINGS, constraint_of
from remedy.eval.generators.base import DecodingOptions, ModelOutput, Request, Writer, make_requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.eval.generators.speculative import LocalGenerator
from remedy.models.chunks import CachedModel
from remedy.models.encoding import encoded_examples
from remedy.models.loading import load_checkpoint
from remedy.models.reader import ModelReader
from remedy.settings import apply_changes, build, parse_overrides


class Measured(NamedTuple):
    """Seconds of the processor, model calls and what was written."""

    seconds: float
    calls: int
    tokens: int
    written: list[ModelOutput]


def measure(generator: Writer, model: CachedModel, requests: Sequence[Request], options: DecodingOptions) -> Measured:
    """Have the examples written once."""
    gc.collect()
    calls, tokens, begin = model.calls, model.tokens, time.process_time()
    written = generator.generate(requests, options)
    return Measured(time.process_time() - begin, model.calls - calls, model.tokens - tokens, written)


def compare(
    local: LocalGenerator,
    asked: Sequence[Request],
    options: DecodingOptions,
    batch: int,
    repeats: int,
) -> str:
    """Measure a row of the table: both ways in turn."""
    loop = LoopGenerator(local.reader, local.tokenizer, batch)
    rounds = []
    for _ in range(repeats):
        fresh = LocalGenerator(local.reader, local.tokenizer, batch)
        rounds.append(tuple(measure(way, local.reader.cached, asked, options) for way in (loop, fresh)))
    ratio = statistics.median(a.seconds / b.seconds for a, b in rounds)
    slow, fast = rounds[0]
    tokens = sum(len(run.ids) for one in fast.written for run in one.runs)
    same = sum(_same(a, b) for a, b in zip(slow.written, fast.written))
    ties = sum(one.near_ties for one in fast.written)
    right = sum(
        all(run.ids == list(example.ids[run.start : run.stop]) for run in one.runs)
        for (example, *_), one in zip(asked, slow.written)
    )
    rates = [tokens / statistics.median(both[way].seconds for both in rounds) for way in (0, 1)]
    return (
        f"{batch} | {right}/{len(asked)} | {tokens:,} | {rates[0]:,.0f} | {rates[1]:,.0f} | **{ratio:.1f}** | "
        f"{slow.calls:,} | {fast.calls:,} | {fast.calls / slow.calls:.3f} | {fast.tokens / slow.tokens:.2f} | "
        f"{same}/{len(asked)} | {ties}"
    )


def _same(one: ModelOutput, other: ModelOutput) -> bool:
    return [(run.ids, run.complete) for run in one.runs] == [(run.ids, run.complete) for run in other.runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--forcing", nargs="*", default=["free", "action_forced", "state_forced"])
    parser.add_argument("--batch", nargs="*", type=int, default=[1, 8, 32])
    parser.add_argument("--examples", type=int, default=32, help="at most; of batches of one, an eighth")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--name", default="")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    config = build(EvalConfig, {"diagnostics": [{"kind": "programs"}]}, "benchmark")
    changes = apply_changes(for_checkpoint(asked.checkpoint, config).data.model_dump(), parse_overrides(asked.set))
    data = build(DataConfig, changes, "data")
    model, tokenizer = load_checkpoint(asked.checkpoint)
    made = encoded_examples(data, tokenizer, "test", range(asked.examples))
    examples = [truth for _, truth in made]
    lengths = sorted(len(one.ids) for one in examples)
    local = LocalGenerator(ModelReader(model, asked.name or asked.checkpoint), tokenizer)
    print(f"{asked.name or asked.checkpoint}: {local.report()}; tokens {lengths[0]} to {lengths[-1]}")
    print(f"Python {platform.python_version()}, torch {torch.__version__}, one thread, load {os.getloadavg()[0]:.1f}")
    print(
        "forcing | batch | right | tokens written | loop tokens/s | drafts tokens/s | faster | loop calls | drafts calls | share | "
        "tokens read | same | near ties"
    )
    for forcing in asked.forcing:
        for batch in asked.batch:
            constraint = constraint_of(forcing)
            one_token = FORMATS[data.format].one_token
            options = DecodingOptions(
                FORCINGS[forcing], one_token, 2 * lengths[-1], memory=data.memory, constraint=constraint
            )
            some = made[: max(batch, asked.examples // 8)]
            starts = starts_of(constraint, [one for one, _ in some], data, tokenizer) if constraint else ()
            asked_now = make_requests([truth for _, truth in some], starts)
            print(f"{forcing} | {compare(local, asked_now, options, batch, asked.repeats)}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
