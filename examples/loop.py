"""The project's idea in one file: a trace is a list of spans, and every span has a role.

A small DeltaNet learns to follow three variables through eight swaps. It is given the commands, and asked for the values after the last
one. States are shown at every command, then ever more rarely, at last only at the end. Half a minute of one core:

    python examples/loop.py

The package does the same from YAML, with many formats, tasks and models: `remedy train configs/train/permutation.yaml`.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from remedy import rng
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.splits import in_split, stream_of
from remedy.data_gen.tasks.permutation_programs import chance, commands, content_hash, draw_batch, session
from remedy.data_gen.traces.render import render
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig

VARIABLES, COMMANDS, SEED = 3, 8, 0
# The loss mask is a set of roles. The commands are drawn at random, so there is nothing to learn about them.
LEARNT = (Role.STATE,)
# How often a state is shown, from the beginning of the training to its end.
SPACINGS = (1, 2, 4, COMMANDS)

# In the symbolic format every span is one token, so that a vocabulary is a list of pieces.
PIECES: list[str | Special] = [
    *(Special.BEGIN_OF_TEXT, Special.FRAME_SEP, Special.END_OF_TEXT),
    *"abc",
    *"0123456789",
    *commands(VARIABLES, "swaps"),
]
IDS = {piece: number for number, piece in enumerate(PIECES)}


class Rows(NamedTuple):
    """Examples of equal length: the id and the role of each token, both (B, T), and the chance of a guess at each answer, (B,)."""

    ids: Tensor
    roles: Tensor
    chances: Tensor


def examples(split: str, start: int, count: int, spacing: int) -> Rows:
    """Make the examples of a split whose indices follow `start`: each is a function of (seed, split, index)."""
    keys = rng.keys(SEED, stream_of(split), np.arange(start, start + count), 0)
    batch = draw_batch("swaps", VARIABLES, (COMMANDS, COMMANDS), True, keys)
    # A program's content says which split it is in. So no tested program is trained on.
    batch = batch.rows(np.flatnonzero(in_split(content_hash(batch), split)), COMMANDS)
    traces = [session(batch, row) for row in range(len(batch.lengths))]
    spans = [sparse(render(trace, "symbolic", context=False).spans, spacing) for trace in traces]
    ids = [[IDS[span.piece] for span in row] for row in spans]
    roles = [[int(span.role) for span in row] for row in spans]
    ends = [[[value.text for value in trace.frames[end].locals.values()] for end in (0, -1)] for trace in traces]
    guesses = [chance(first, last, "swaps", COMMANDS) for first, last in ends]
    return Rows(torch.tensor(ids), torch.tensor(roles), torch.tensor(guesses))


def sparse(spans: list[Span], spacing: int) -> list[Span]:
    """Drop what asks for a state and what answers, but at every `spacing`-th command and at the end."""
    return [span for span in spans if span.role not in (Role.QUERY, Role.STATE) or is_shown(span.frame, spacing)]


def is_shown(frame: int, spacing: int) -> bool:
    # Frame 0 shows the values that the context already gives.
    return frame == COMMANDS or (frame > 0 and frame % spacing == 0)


def loss_of(model: DecoderForCausalLM, rows: Rows) -> Tensor:
    """Compute the mean loss of the tokens whose roles are learnt."""
    logits = model(rows.ids[:, :-1]).logits
    learnt = torch.isin(rows.roles[:, 1:], torch.tensor(LEARNT))
    return F.cross_entropy(logits[learnt], rows.ids[:, 1:][learnt])


@torch.no_grad()
def answer_rate(model: DecoderForCausalLM, rows: Rows) -> float:
    """Let the model write the last state, and return the share of examples where it is right."""
    written = rows.ids.clone()
    # Forcing: every token is given but those of the roles that the model is to write. Rows have their states at the same places.
    places = torch.nonzero(rows.roles[0] == Role.STATE).flatten().tolist()
    for place in places:
        written[:, place] = model(written[:, :place]).logits[:, -1].argmax(-1)
    return float((written == rows.ids).all(dim=1).float().mean())


def train(steps: int, batch_size: int = 64) -> tuple[float, float]:
    """Train a small model, and return its answer rate and that of guesses."""
    torch.manual_seed(SEED)
    model = DecoderForCausalLM(
        DecoderConfig(
            vocab_size=len(PIECES),
            mixers=["deltanet"],
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    test = examples("test", 0, 2000, spacing=COMMANDS)
    for step in range(steps):
        spacing = SPACINGS[step * len(SPACINGS) // steps]
        loss = loss_of(model, examples("train", step * batch_size, batch_size, spacing))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % max(1, steps // 10) == 0 or step == steps - 1:
            print(f"step {step + 1:4}  a state every {spacing} commands  loss {loss.item():.3f}")
    rate, guessed = answer_rate(model, test), float(test.chances.mean())
    print(
        f"answers right: {rate:.0%} of {len(test.ids)} unseen programs; a guess among the states in reach: {guessed:.0%}"
    )
    return rate, guessed


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
