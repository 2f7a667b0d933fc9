"""Forgetting of a fine-tuned pretrained model: its loss on English prose and on Python source that no run is trained on, beside the
model as it was, text by text.

python benchmarks/forgetting.py BEFORE RUN [RUN ...]     checkpoints: BEFORE the model as it was, RUN its fine-tunes

Both come with CPython, so that anyone has them: the topics of the language reference (`pydoc_data.topics`), and the modules of the
standard library. The first tokens of each text, in nats a token; differences are paired over texts, with t intervals of 95 %: they are
of these weights on other such texts, not of a recipe.
"""

from __future__ import annotations

import argparse
import os
import platform
import pydoc
import sysconfig
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("USE_HUB_KERNELS", "0")
from pydoc_data.topics import topics

import numpy as np
import torch
import transformers
from scipy import stats
from torch.nn import functional as F

from remedy.models.loading import load_checkpoint
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer

TEXTS, CHARACTERS, TOKENS = 30, 2_000, 512
"""Texts of each kind, the characters that one must have at least, and the tokens of it that are read."""


def prose() -> list[str]:
    """Topics of the language reference, in the order of their names."""
    found = dict.fromkeys(pydoc.plain(topics[name]) for name in sorted(topics))  # some have two names
    return [text for text in found if len(text) >= CHARACTERS][:TEXTS]


def modules() -> list[str]:
    """Modules of the standard library, in the order of their names."""
    sources = (path.read_text(encoding="utf-8") for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")))
    return [source for source in sources if len(source) >= CHARACTERS][:TEXTS]


@torch.inference_mode()
def loss(model: CausalLM, tokenizer: TraceTokenizer, text: str) -> float:
    """The mean of -log p over the text's first tokens, all but the first, in nats."""
    ids = torch.tensor([tokenizer.backend.text_ids(text)[:TOKENS]])
    logits = model(input_ids=ids).logits[0, :-1].float()
    return F.cross_entropy(logits, ids[0, 1:]).item()


def changed(before: list[float], after: list[float]) -> str:
    """The mean difference and its interval; nothing of what is compared with itself."""
    if before is after:
        return ""
    differences = np.subtract(after, before)
    centre = differences.mean()
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return f" ({centre:+.3f}, {centre - half:+.3f} to {centre + half:+.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("runs", nargs="+", metavar="run")
    args = parser.parse_args()
    texts = {"prose": prose(), "modules": modules()}
    print(f"| nats a token | {' | '.join(f'{kind} ({len(found)} texts)' for kind, found in texts.items())} |")
    print("|---|" + "---|" * len(texts))
    known: dict[str, list[float]] = {}
    for checkpoint in (args.before, *args.runs):
        model, tokenizer = load_checkpoint(checkpoint, precision="fp32")
        losses = {kind: [loss(model, tokenizer, text) for text in found] for kind, found in texts.items()}
        known = known or losses
        cells = [f"{np.mean(losses[kind]):.3f}{changed(known[kind], losses[kind])}" for kind in texts]
        print(f"| {checkpoint} | {' | '.join(cells)} |", flush=True)
    print(f"\nPython {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
