"""Does a small model that sees the program and its last frames alone write the next frame, of programs and functions it never saw?

A decoder of 25M or 50M weights, from random ones, on traces of the generator's functions of eight types, every call and line a frame,
all values in full, so that the last frame says all that the next one needs; where open calls stand is always in sight. Right is a frame
written without a fault after the true ones; a trace whose frames are all right is what the model writes by itself. A file .programs/
train.jsonl (`code`, `input`) is half of the training, .programs/cruxeval.jsonl a test; without them the lines say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.fine_tuning import WRITTEN, trained
from benchmarks.gpu.members import device
from benchmarks.gpu.queue import Cell, Facts
from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import ROLES
from remedy.data_gen.traces.cwm import EVENT_TOKENS
from remedy.data_gen.window_examples import window_tokens, windows_of
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.train.data import encode_rows, padded

PROGRAMS = Path(".programs")
"""What a user carries along: `train.jsonl` and `cruxeval.jsonl`."""
UNSEEN = ["add_suffix", "duplicate_every_char", "while_rotate"]
"""Functions that are not trained on."""
FAMILIES = ("strings", "lists", "dicts", "sets", "math", "characters", "bitwise", "booleans")
SIZES: dict[str, Facts] = {
    "25M": {"num_hidden_layers": 8, "hidden_size": 512, "num_attention_heads": 8},
    "50M": {"num_hidden_layers": 12, "hidden_size": 576, "num_attention_heads": 9},
    "tiny": {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2},
}
ARMS: dict[str, Facts] = {
    "two frames": {"memory": {"frames": 2, "open_calls": True}},
    "all frames": {"memory": None},
    "one frame": {"memory": {"frames": 1, "open_calls": True}},
    "two frames, subwords": {"memory": {"frames": 2, "open_calls": True}, "strings": "subword"},
}
SEEDS, STEPS, ROWS, EXAMPLES = 3, 2000, 128, 300


def cells(rehearse: bool) -> list[Cell]:
    """Return a first seed of every arm, the large model, then the other seeds."""
    if rehearse:
        small = {"seed": 1, "size": "tiny", "steps": 2, "rows": 2, "examples": 2}
        return [Cell(f"{arm} 1", {"arm": arm, **small}) for arm in list(ARMS)[:2]]
    first, *others = [
        [Cell(f"{arm} {seed}", {"arm": arm, "seed": seed}, 200.0) for arm in ARMS] for seed in range(1, SEEDS + 1)
    ]
    large = Cell("two frames, 50M 1", {"arm": "two frames", "seed": 1, "size": "50M", "steps": 2 * STEPS}, 500.0)
    return [*first, large, *(cell for seed in others for cell in seed)]


def measure(
    arm: str, seed: int, size: str = "25M", steps: int = STEPS, rows: int = ROWS, examples: int = EXAMPLES
) -> Iterator[Facts]:
    memory, strings = ARMS[arm]["memory"], ARMS[arm].get("strings", "characters")
    data = {"task": _task("strings"), "format": "cwm", "reveal": {"locals": "full"}, "memory": memory}
    mixture: Facts = {family: {"set": {"task": _task(family)}} for family in FAMILIES}
    own = PROGRAMS / "train.jsonl"
    if own.exists():
        mixture["programs"] = {"weight": len(FAMILIES), "set": {"task": {"kind": "programs", "path": str(own)}}}
    given = {
        "data": data,
        "mixture": mixture,
        "tokenizer": {"kind": "bpe", "vocab_size": 1000, "string_tokenization": strings},
        "model": {"mixers": ["attention"], "short_convolution": True, **SIZES[size]},
        "train": {
            "max_steps": steps,
            "batch_size": rows,
            "learning_rate": 6e-4,
            "loss_roles": WRITTEN,
            "seed": seed,
            "data_seed": seed,
            "logging_steps": max(1, steps // 10),
        },
    }
    with trained(given) as (config, account, model, reader):
        yield {key: account[key] for key in ("steps", "tokens", "flops")} | {"own_programs": own.exists()}
        for name, task in _tests().items():
            if task is None:
                yield {"test": name, "not_asked": f"no {PROGRAMS / 'cruxeval.jsonl'}"}
            else:
                asked = config.data.changed({"task": task}, name)
                split, count = ("all", 3 * examples) if name == "CruxEval" else ("test", examples)
                yield {"test": name, **frames_right(model, reader, asked, split, count)}


def _task(family: str) -> Facts:
    held_out: Facts = {"held_out_functions": UNSEEN} if family == "strings" else {}
    return {"kind": "composition", "family": family, "depth": [1, 2], **held_out}


def _tests() -> dict[str, Facts | None]:
    crux = PROGRAMS / "cruxeval.jsonl"
    real = {"kind": "programs", "benchmark": "cruxeval", "path": str(crux)}
    return {
        **{family: _task(family) for family in FAMILIES},
        "four calls": {**_task("strings"), "depth": 4},
        "unseen functions": {**_task("strings"), "functions": UNSEEN, "held_out_functions": []},
        "CruxEval": real if crux.exists() else None,
    }


@torch.no_grad()
def frames_right(
    model: CausalLM, reader: TraceTokenizer, data: DataConfig, split: str, examples: int, rows: int = 64
) -> Facts:
    """Measure the shares of frames and of traces written without a fault, on the first examples of a split.

    Frames are counted in all and by event. Each window is read with what its memory holds.
    """
    roles = [int(ROLES[role]) for role in WRITTEN]
    events = {int(reader.special_ids[token]): event.name.lower() for event, token in EVENT_TOKENS.items()}
    count = min(examples, data.task.count(split) or examples)
    cut = [
        (number, window_tokens(whole, window))
        for number, whole in enumerate(encode_rows(data, reader, split, range(count)))
        for window in windows_of(whole, data.memory, reader.special_ids)
    ]
    kinds: dict[tuple[int, int], str] = {}
    asked: set[tuple[int, int]] = set()
    wrong: set[tuple[int, int]] = set()
    cut.sort(key=lambda one: one[1].size)
    for some in (cut[at : at + rows] for at in range(0, len(cut), rows)):
        ids, kind = padded([tokens for _, tokens in some], reader.pad_id)
        written = model(torch.from_numpy(ids).to(device()), use_cache=False).logits[:, :-1].argmax(-1).cpu().numpy()
        for row, (number, tokens) in enumerate(some):
            for at in np.flatnonzero(np.isin(kind[row, 1:], roles)):
                frame = number, int(tokens.frames[at + 1])
                asked.add(frame)
                if ids[row, at + 1] in events:
                    kinds[frame] = events[int(ids[row, at + 1])]
                if written[row, at] != ids[row, at + 1]:
                    wrong.add(frame)
    by_event = Counter(kinds[frame] for frame in asked if frame in kinds)
    failed = Counter(kinds[frame] for frame in wrong if frame in kinds)
    found: dict[str, Any] = {event: round(1 - failed[event] / of, 4) for event, of in sorted(by_event.items())}
    traces = {number for number, _ in asked}
    return {
        "frames": len(asked),
        "frames_right": round(1 - len(wrong) / len(asked), 4),
        "traces": len(traces),
        "traces_right": round(1 - len({number for number, _ in wrong}) / len(traces), 4),
        "by_event": found,
    }
