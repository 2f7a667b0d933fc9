"""Teacher-forced validation during training: loss and accuracy by role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from remedy.data_gen.mixture import Mixture
from remedy.data_gen.roles import PAD_ROLE, Role
from remedy.data_gen.tokens import Tokens
from remedy.data_gen.window_examples import window_tokens, windows_of
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.processes import Process
from remedy.settings import ConfigError
from remedy.train.config import RunConfig
from remedy.train.data import encode_rows, padded
from remedy.train.losses import IGNORED, Head, scored
from remedy.train.processes import summed


def validation_rows(config: RunConfig, tokenizer: TraceTokenizer) -> list[list[Tokens]]:
    """Return the first validation examples of `data` and `mixture`, as lists of rows.

    An example is one row, or with `data.memory` all its windows. All stages and seeds have the same examples. A finite
    set of programs is not repeated.

    Raises:
        ConfigError: there are no such programs, or no token has a supervised role.
    """
    mixture = Mixture(config.data, config.mixture, split="validation")
    placement = mixture.locate(range(config.train.validation_examples))
    pairs = list(dict.fromkeys(zip(placement.sources.tolist(), placement.indices.tolist())))
    examples: list[list[Tokens]] = []
    for number, source in enumerate(mixture.sources):
        indices = [index for part, index in pairs if part == number]
        memory = source.data.memory
        for tokens in encode_rows(source.data, tokenizer, "validation", indices) if indices else []:
            windows = [] if memory is None else windows_of(tokens, memory, tokenizer.special_ids)
            examples.append([window_tokens(tokens, window) for window in windows] or [tokens])
    supervised = config.train.supervised()
    if not any(np.isin(row.roles[1:], sorted(supervised)).any() for rows in examples for row in rows):
        raise ConfigError(
            f"train.evaluate_every: no token of {len(examples)} validation examples has a role of train.loss_roles "
            f"[{', '.join(config.train.loss_roles)}]: raise train.validation_examples, or do without validation"
        )
    return examples


SHOWN = 4
"""Validation rows in W&B's table of predictions."""


class Sample(NamedTuple):
    """A validation row from its first supervised token."""

    true: str
    predicted: str
    wrong: int


class Validation:
    """Held-out examples, each a list of rows, and a model's metrics on them.

    A frame's part of a role is right, and an example an exact match, if each supervised token is the likeliest after
    the true tokens before. If a forcing feeds all other roles, exact match is the rate of flawless decoding.
    """

    def __init__(
        self, examples: Sequence[Sequence[Tokens]], pad_id: int, roles: frozenset[Role], batch_size: int
    ) -> None:
        pairs = [(row, number) for number, rows in enumerate(examples) for row in rows]
        # Rows of similar length share a batch, which is padded less.
        by_size = sorted(pairs, key=lambda pair: len(pair[0].ids))
        self.rows, self.example_of = [row for row, _ in by_size], np.array([number for _, number in by_size])
        self.pad_id, self.batch_size, self.examples = pad_id, batch_size, len(examples)
        present = np.concatenate([row.roles[1:] for row in self.rows])
        self.roles = [role for role in sorted(roles) if (present == role).any()]
        lengths = [row.size - 1 for row in self.rows]
        frames = np.concatenate([row.frames[1:] for row in self.rows])
        supervised = np.isin(present, self.roles)
        # The example, frame and role of each supervised token, in the order of rows.
        owners = np.stack([np.repeat(self.example_of, lengths), frames, present], axis=1)[supervised]
        self.parts, part_of = np.unique(owners, axis=0, return_inverse=True)
        self.part_of = part_of.reshape(-1)
        # Each row's first supervised token, in this order, and the end.
        self.begins = np.concatenate([[0], np.cumsum(supervised)])[np.concatenate([[0], np.cumsum(lengths)])]

    def metrics(
        self, model: CausalLM, device: torch.device, process: Process, head: Head | None = None
    ) -> dict[str, float]:
        """Return `loss` (token mean), `exact_match`, and by role `loss_state` and `right_state`.

        `right_...` is the share of frames' parts. Every process computes a share and returns all. `head`: scores
        without all logits.
        """
        sums = np.zeros((len(self.roles) + 1, 2))
        wrong = np.zeros(len(self.parts))
        for start, counts in self._batches(process):
            stop = min(start + self.batch_size, len(self.rows))
            losses, mistakes = self._of_batch(model, device, self.rows[start:stop], head)
            if counts:
                sums += losses
                np.add.at(wrong, self.part_of[self.begins[start] : self.begins[stop]], mistakes)
        sums, wrong = (summed(torch.from_numpy(part)).numpy() for part in (sums, wrong))
        names = ["", *(f"_{role.label}" for role in self.roles)]
        metrics = {f"loss{name}": float(row[0] / row[1]) for name, row in zip(names, sums)}
        examples, roles = self.parts[:, 0], self.parts[:, 2]
        metrics["exact_match"] = 1 - len({*examples[wrong > 0]}) / len({*examples})
        return metrics | {f"right_{role.label}": float((wrong[roles == role] == 0).mean()) for role in self.roles}

    def samples(self, model: CausalLM, device: torch.device, tokenizer: TraceTokenizer) -> list[Sample]:
        """Predict the supervised tokens in the shortest row of each of the first examples."""
        first = [self.rows[np.flatnonzero(self.example_of == number)[0]] for number in range(min(SHOWN, self.examples))]
        ids, roles = padded(first, self.pad_id)
        masks = np.isin(roles[:, 1:], self.roles)
        attention_mask = torch.from_numpy((roles != PAD_ROLE).astype(np.int64)).to(device)
        with torch.no_grad():
            logits = model(torch.from_numpy(ids).to(device), attention_mask=attention_mask, use_cache=False).logits
        likeliest = logits[:, :-1].argmax(-1).cpu().numpy()
        samples = []
        for true, written, mask in zip(ids[:, 1:], likeliest, masks):
            wrong = mask & (true != written)
            start = int(np.flatnonzero(mask)[0]) if mask.any() else 0
            length = int((true != self.pad_id).sum())
            texts = [tokenizer.decode(row[start:length]) for row in (true, np.where(mask, written, true))]
            samples.append(Sample(texts[0], texts[1], int(wrong.sum())))
        return samples

    def _batches(self, process: Process) -> Iterator[tuple[int, bool]]:
        """Yield the first row of each of this process's batches, and if it counts."""
        # All processes run equally many: a divided model needs them all in each.
        count = -(-len(self.rows) // self.batch_size)
        for first in range(0, count, process.world_size):
            number = first + process.rank
            yield min(number, count - 1) * self.batch_size, number < count

    def _of_batch(
        self, model: CausalLM, device: torch.device, rows: list[Tokens], head: Head | None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return loss sums and token counts (R, 2), and each supervised token's mistake, in the order of rows.

        R: all supervised roles together, then each.
        """
        ids, roles = padded(rows, self.pad_id)
        supervised = np.isin(roles[:, 1:], self.roles)
        batch, mask = torch.from_numpy(ids).to(device), torch.from_numpy(supervised).to(device)
        attention_mask = torch.from_numpy((roles != PAD_ROLE).astype(np.int64)).to(device)
        with torch.no_grad():
            if head is None:
                logits = model(batch, attention_mask=attention_mask, use_cache=False).logits[:, :-1][mask].float()
                scores = scored(logits, batch[:, 1:][mask])
            else:
                labels = batch.clone()
                labels[:, 1:][~mask] = IGNORED
                with head.scoring(labels):
                    scores = model(batch, attention_mask=attention_mask, use_cache=False).logits[:, :-1][mask]
        losses, wrong = scores.double().cpu().numpy().T
        role_of = roles[:, 1:][supervised]
        masks = [supervised[supervised], *(role_of == role for role in self.roles)]
        return np.array([[losses[selected].sum(), selected.sum()] for selected in masks]), wrong
