"""What limits the horizon of a DeltaNet that follows swaps: how far its keys are from exact reflections, and what exact ones give.

python benchmarks/reflections.py RUN [--lengths 4096:60 16384:20]     RUN: of configs/experiment/horizon.yaml, or its `model` folder

A swap of two of n values is a reflection in n - 1 dimensions, and all of them together are those by the roots of A_{n-1}: vectors any
two of which have a cosine of 0, 1/2 or -1/2 (Humphreys, "Reflection groups and Coxeter groups", 1990, section 2.10). DeltaNet's
transition I - beta k k^T is a reflection at beta = 2. In its first layer, without a convolution, k depends on the command alone; the
head that turns over at every swap is looked up, its keys are compared with the nearest root system, and programs are answered with
exact keys, exact eigenvalues (-1), and values that leave one state in its place, in the stead of the learnt ones. Of the keys also in
two parts: put back into the plane of the exact ones, and with exact angles in that plane.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
from torch import Tensor
from torch.nn import functional as F

from remedy.data_gen.settings import load
from remedy.models.loading import load_checkpoint
from remedy.models.mixers import deltanet
from remedy.models.mixers.delta_rule import delta_rule
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.train.config import RunConfig
from remedy.train.data import Collator, TraceDataset

SEED = 5
"""Of the programs here: others than those of training."""
TURNED = 1.9
"""A beta from which a head counts as turning over."""
STARTS = 64
CHANGES = (
    (),
    ("plane",),
    ("angles",),
    ("keys",),
    ("beta",),
    ("keys", "beta"),
    ("keys", "values"),
    ("keys", "beta", "values"),
)


@dataclass(frozen=True)
class Swaps:
    """What the turning head holds for each command: tokens (N,), learnt keys (N, K) of length 1, values (N, V), beta (N,), and the
    exact keys and values next to them."""

    head: int
    tokens: Tensor
    keys: Tensor
    values: Tensor
    beta: Tensor
    exact_keys: Tensor
    exact_values: Tensor

    def within(self) -> Tensor:
        """The part (N, K) of each key that lies in the plane of the exact ones."""
        plane = torch.linalg.svd(self.exact_keys, full_matrices=False)[2][
            : torch.linalg.matrix_rank(self.exact_keys, rtol=1e-6)
        ]
        inside: Tensor = self.keys @ plane.T @ plane
        return inside

    def mended(self, changes: tuple[str, ...]) -> Tensor:
        """The keys (N, K) put back into the plane (`plane`), with exact angles in it (`angles`), or exact (`keys`)."""
        inside = self.within()
        if "plane" in changes:
            return F.normalize(inside, dim=1)
        if "angles" in changes:
            turned: Tensor = inside.norm(dim=1, keepdim=True) * self.exact_keys + self.keys - inside
            return turned
        return self.exact_keys if "keys" in changes else self.keys


def batches(run: Path, tokenizer: TraceTokenizer, length: int, programs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Ids and labels (B, T) of `programs` programs of `length` commands, ten at a time."""
    changes = ["train.curriculum=[]", f"data.task.length={length}", f"train.max_steps={programs}", f"data.seed={SEED}"]
    config = load(RunConfig, str(run / "config.yaml"), changes)
    rows, collate = TraceDataset(config, tokenizer), Collator(tokenizer.pad_id, config.train.supervised())
    for start in range(0, programs, 10):
        batch = collate([rows[i] for i in range(start, min(start + 10, programs))])
        yield batch["input_ids"], batch["labels"]


def read_off(model: CausalLM, tokenizer: TraceTokenizer, run: Path) -> Swaps:
    """The swaps as the first layer's turning head has them.

    Raises:
        SystemExit: no head turns over at every swap, or one command has several keys (a convolution, or a later layer).
    """
    seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def listen(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor]:
        seen.append((k, v, beta))
        return delta_rule(q, k, v, beta, *rest)

    ids = torch.cat([ids for ids, _ in batches(run, tokenizer, 256, 10)])
    with patch.object(deltanet, "delta_rule", listen), torch.no_grad():
        model(input_ids=ids)
    k, v, beta = seen[0]
    tokens = torch.tensor([t for t in ids.unique().tolist() if swap_of(tokenizer, t) is not None])
    at_swap = torch.isin(ids, tokens)
    turned = (beta.transpose(1, 2)[at_swap] > TURNED).float().mean(0)
    head = int(turned.argmax())
    if turned[head] < 1:
        raise SystemExit(
            f"error: {run}: no head of the first layer turns over at every swap (shares {turned.tolist()})"
        )
    keys, values, betas = [], [], []
    for token in tokens:
        here = ids == token
        if float(k[:, head][here].std(0).max()) > 1e-4:
            raise SystemExit(f"error: {run}: one command has several keys; a model without a convolution is asked for")
        keys.append(k[:, head][here][0].double())
        values.append(v[:, head][here][0].double())
        betas.append(beta[:, head][here][0].double())
    learnt = torch.stack(keys)
    exact = nearest_roots(learnt, [swap_of(tokenizer, int(t)) or "" for t in tokens])
    value = torch.stack(values)
    fixed = torch.linalg.pinv(exact, rtol=1e-6) @ value  # the state that every reflection would leave alone: k S = v
    return Swaps(head, tokens, learnt, value, torch.stack(betas), exact, exact @ fixed)


def swap_of(tokenizer: TraceTokenizer, token: int) -> str | None:
    """The two variables that a command's token swaps."""
    found = re.fullmatch(r"\s*(\w), (\w) = \2, \1\s*", tokenizer.decode([token]))
    return found[1] + found[2] if found else None


def nearest_roots(keys: Tensor, swaps: list[str]) -> Tensor:
    """The roots (e_i - e_j) / sqrt(2), turned into the space of keys (N, K) by the nearest isometry (orthogonal Procrustes). A root and
    its opposite are one reflection: signs and isometry are sought in turn, from several signs, and the nearest is returned."""
    names = sorted(set("".join(swaps)))
    roots = torch.zeros(len(swaps), len(names), dtype=keys.dtype)
    for root, swap in zip(roots, swaps):
        root[names.index(swap[0])], root[names.index(swap[1])] = 2**-0.5, -(2**-0.5)
    generator = torch.Generator().manual_seed(0)
    found: list[Tensor] = []
    for _ in range(STARTS):
        signs = torch.randint(0, 2, (len(swaps),), generator=generator) * 2 - 1
        found.append(turned_to(keys, roots * signs[:, None], len(names) - 1))
    return min(found, key=lambda turned: float((turned - keys).norm()))


def turned_to(keys: Tensor, roots: Tensor, dimensions: int) -> Tensor:
    """Signed roots next to the keys, from these signs on."""
    while True:
        u, _, v = torch.linalg.svd(roots.T @ keys, full_matrices=False)
        turned = roots @ u[:, :dimensions] @ v[:dimensions]
        signs = torch.where((turned * keys).sum(1) < 0, -1.0, 1.0)
        if bool((signs > 0).all()):
            return F.normalize(turned, dim=1)
        roots = roots * signs[:, None]


def with_exact(changes: tuple[str, ...], swaps: Swaps, which: Tensor) -> Callable[..., tuple[Tensor, Tensor]]:
    """The delta rule for one pass over a model, whose first layer takes those parts of the turning head from the exact solution.
    `which` (B, T): the swap that a token is, or -1."""
    at, layers, keys = which >= 0, count(), swaps.mended(changes)

    def exact(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor]:
        if next(layers) == 0:
            k, v, beta = k.clone(), v.clone(), beta.clone()
            k[:, swaps.head][at] = keys.to(k.dtype)[which[at]]
            if "values" in changes:
                v[:, swaps.head][at] = swaps.exact_values.to(v.dtype)[which[at]]
            if "beta" in changes:
                beta[:, swaps.head][at] = 2.0
        return delta_rule(q, k, v, beta, *rest)

    return exact


def right_answers(
    model: CausalLM, rows: Iterator[tuple[Tensor, Tensor]], swaps: Swaps, changes: tuple[str, ...]
) -> int:
    """How many programs are answered right with those parts exact."""
    right = 0
    for ids, labels in rows:
        which = torch.full((int(ids.max()) + 1,), -1)
        present = swaps.tokens < len(which)
        which[swaps.tokens[present]] = torch.arange(len(swaps.tokens))[present]
        with patch.object(deltanet, "delta_rule", with_exact(changes, swaps, which[ids])), torch.no_grad():
            written = model(input_ids=ids).logits[:, :-1].argmax(-1)
        right += int(((written == labels[:, 1:]) | (labels[:, 1:] == -100)).all(1).sum())
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lengths", nargs="*", default=["1024:100", "4096:60", "16384:20"], help="commands:programs")
    given = parser.parse_args()
    run = given.run / "model" if (given.run / "model").is_dir() else given.run
    model, tokenizer = load_checkpoint(str(run))
    swaps = read_off(model, tokenizer, run)
    cosines = (swaps.keys @ swaps.keys.T).abs()[~torch.eye(len(swaps.keys), dtype=torch.bool)]
    apart = torch.minimum(cosines, (cosines - 0.5).abs())
    print(f"{run}: head {swaps.head}, {len(swaps.keys)} swaps")
    print(f"cosines from 0 or a half: mean {apart.mean():.1e}, largest {apart.max():.1e}")
    print(f"singular values of the keys: {', '.join(f'{x:.4f}' for x in torch.linalg.svdvals(swaps.keys).tolist())}")
    inside = swaps.within()
    angles = (F.normalize(inside, dim=1) - swaps.exact_keys).norm(dim=1).max()
    print(f"largest way from a key to its exact one: {(swaps.exact_keys - swaps.keys).norm(dim=1).max():.1e}, of which")
    print(f"  within the plane of the exact ones {angles:.1e}, out of it {(swaps.keys - inside).norm(dim=1).max():.1e}")
    print(f"eigenvalues from -1, largest: {(2 - swaps.beta).abs().max():.1e}")
    apart = (swaps.exact_values - swaps.values).norm(dim=1).mean() / swaps.values.norm(dim=1).mean()
    print(f"share of the values that moves the fixed state: {apart:.2f}")
    for length, programs in (map(int, text.split(":")) for text in given.lengths):
        for changes in CHANGES:
            right = right_answers(model, batches(run, tokenizer, length, programs), swaps, changes)
            print(f"{length} commands, exact {' and '.join(changes) or 'nothing'}: {right} of {programs}", flush=True)


if __name__ == "__main__":
    main()
