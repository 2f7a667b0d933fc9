"""A state that is written down and read anew: after every k commands the model writes the values of all variables, forgets everything,
and goes on from what it wrote, as from the beginning of a new session.

python -m benchmarks.restarts RUN ... [--every 64 256] [--lengths 1024 16384] [--programs 1000]

RUN: of configs/experiment/horizon.yaml, or its `model` folder.

The commands are given, and nothing else: a value that was written wrong stays so. What it costs are the tokens of the states that are
written and of the beginnings that they are read from, beside the commands'. With k of the program's length it is read in one
piece.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
from torch import Tensor

from benchmarks.sessions import Programs, opened, programs
from remedy.eval.stats import rate

TOKENS = 16_384
"""Read together at most."""


def written(model: Any, rows: Tensor, names: Tensor) -> Tensor:
    """The values (B, n) that a model writes after rows (B, t), each after its variable's name (B, n) and what it wrote before."""
    cache, feed, values = model.new_cache(), rows, []
    for name in names.T:
        logits = model(input_ids=torch.cat([feed, name[:, None]], 1), past_key_values=cache, use_cache=True).logits
        feed = logits[:, -1:].argmax(-1)
        values.append(feed[:, 0])
    return torch.stack(values, 1)


def ends_of(model: Any, given: Programs, every: int) -> Tensor:
    """The values (B, n) at the end, where they are written and read anew after so many commands."""
    begins = given.begins.clone()
    for commands in given.commands.split(every, dim=1):
        values = written(model, torch.cat([begins, commands], 1), given.ends[:, ::2])
        for places in given.values:
            begins[:, places] = values
    return values


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--every", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 16384])
    parser.add_argument("--programs", type=int, default=1000)
    args = parser.parse_args()
    print("| run | commands | state written after every | right | 95 % interval | tokens a command |")
    print("|---|---|---|---|---|---|")
    for run in args.runs:
        found = opened(run)
        for length in args.lengths:
            for every in args.every:
                right: list[bool] = []
                batch = max(1, TOKENS // every)
                for start in range(0, args.programs, batch):
                    given = programs(found, length, range(start, min(start + batch, args.programs)))
                    right += (ends_of(found.model, given, every) == given.ends[:, 1::2]).all(1).tolist()
                states = given.begins.shape[1] + given.ends.shape[1]  # the one that is read and the one that is written
                share = rate(right)
                print(
                    f"| {run} | {length:,} | {f'{every:,}' if every < length else 'none'} | {sum(right)} of {len(right)} "
                    f"| {share.low:.1%} to {share.high:.1%} | {1 + -(-length // every) * states / length:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
