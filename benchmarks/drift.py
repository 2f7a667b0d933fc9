"""How far a state drifts with the number of commands: every head's state after a long program, against that after a
short one with the same result.

python -m benchmarks.drift RUN ... [--lengths 64 1024] [--programs 20]    RUN: of configs/experiment/horizon.yaml, or its `model` folder

By length: how many answers are right, by how much the true value's logit is above the next at the worst of an answer's values, and
of the heads that drift least the distance of the two states, the short one's length being 1. A head whose commands are nearly but not
quite what the group asks for, by an error in no direction of its own, drifts like a random walk, as the square root of the length; one
that fades or turns away does so in proportion to it. Beside the distance stands its quotient by the root of the length.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
from torch import Tensor

from benchmarks.patching import States, read, started, ways
from benchmarks.sessions import opened

SHOWN = 3
"""Of each model's heads, those that drift least."""


def distances(longs: Sequence[States], shorts: Sequence[States]) -> Tensor:
    """Of every head (layers x heads) the mean distance of its two states, in lengths of the short program's."""
    found = [
        torch.stack([((one - other).flatten(1).norm(dim=1) / other.flatten(1).norm(dim=1)) for one, other in pairs])
        for pairs in (list(zip(*layers)) for layers in zip(zip(*longs), zip(*shorts)))
    ]
    return torch.stack([one.mean(0) for one in found])


def margins(model: Any, starts: Sequence[States], answers: Tensor) -> Tensor:
    """Of every answer (B, 2 n), name after name, the least of its values' logits above the likeliest other value; (B,)."""
    logits = model(input_ids=answers, past_key_values=started(model, starts, answers), use_cache=True).logits[:, ::2]
    true = answers[:, 1::2, None]
    other = logits.scatter(-1, true, -torch.inf).max(-1).values
    return (logits.gather(-1, true)[..., 0] - other).min(1).values


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256, 1024, 4096, 16384])
    parser.add_argument("--programs", type=int, default=20)
    args = parser.parse_args()
    for path in args.runs:
        run = opened(path)
        rows, drifts = [], []
        for length in args.lengths:
            found = ways(run, length, args.programs)
            longs, shorts = [read(run.model, way.long) for way in found], [read(run.model, way.short) for way in found]
            above = margins(run.model, longs, torch.tensor([way.answer for way in found]))
            rows.append((length, int((above > 0).sum()), f"{above.mean():.1f}, {above.min():.1f}"))
            drifts.append(distances(longs, shorts))
        heads = torch.stack(drifts).sum(0).flatten().argsort()[:SHOWN].tolist()
        places = [divmod(head, drifts[0].shape[1]) for head in heads]
        named = " | ".join(f"layer {layer + 1}, head {head + 1}" for layer, head in places)
        print(f"\n{path}, {args.programs} programs\n\n| commands | right | margin, least | {named} |")
        print("|---" * (3 + len(places)) + "|")
        for (length, right, margin), found in zip(rows, drifts):
            cells = " | ".join(
                f"{found[place]:.2f} = {found[place] / length**0.5:.4f} x {length**0.5:.0f}" for place in places
            )
            print(f"| {length} | {right} | {margin} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
