"""Validation while training: the loss and what is right of held-out examples, role by role, each token from the true past."""

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
    """The held-out examples: the first of the validation split of the run's `data`, parts of a mixture in their shares.

    They are the same for all stages of a curriculum and all seeds of a recipe. Given programs are there once each. Each is a list of
    rows: itself, or with `data.memory` all of its windows.

    Raises:
        ConfigError: there is no such program, or no token of the examples has a role that is learnt.
    """
    mixture = Mixture(config.data, config.mixture, split="validation")
    location = mixture.locate(range(config.train.validation_examples))
    chosen = list(dict.fromkeys(zip(location.sources.tolist(), location.indices.tolist())))
    found: list[list[Tokens]] = []
    for number, source in enumerate(mixture.sources):
        mine = [index for at, index in chosen if at == number]
        memory = source.data.memory
        for whole in encode_rows(source.data, tokenizer, "validation", mine) if mine else []:
            cut = [] if memory is None else windows_of(whole, memory, tokenizer.special_ids)
            found.append([window_tokens(whole, window) for window in cut] or [whole])
    supervised = config.train.supervised()
    if not any(np.isin(row.roles[1:], sorted(supervised)).any() for rows in found for row in rows):
        raise ConfigError(
            f"train.evaluate_every: no token of {len(found)} validation examples has a role of train.loss_roles "
            f"[{', '.join(config.train.loss_roles)}]: raise train.validation_examples, or do without validation"
        )
    return found


SHOWN = 4
"""Rows of which a table shows what the model predicts."""


class Sample(NamedTuple):
    """A row of validation from its first learnt token on: the true text, and that of the likeliest tokens given the true past."""

    true: str
    predicted: str
    wrong: int


class Validation:
    """Held-out examples, each a list of rows, and a model's figures on them.

    A frame's part of a role is right, and an example an exact match, if the model would have chosen each of its learnt tokens, given
    the true tokens before. Where the learnt roles are all that a forcing leaves to the model, exact matches are the share of examples
    that it decodes without a fault.
    """

    def __init__(
        self, examples: Sequence[Sequence[Tokens]], pad_id: int, roles: frozenset[Role], batch_size: int
    ) -> None:
        numbered = [(row, number) for number, rows in enumerate(examples) for row in rows]
        ordered = sorted(numbered, key=lambda one: len(one[0].ids))
        self.rows, self.example_of = [row for row, _ in ordered], np.array([number for _, number in ordered])
        self.pad_id, self.batch_size, self.examples = pad_id, batch_size, len(examples)
        present = np.concatenate([row.roles[1:] for row in self.rows])
        self.roles = [role for role in sorted(roles) if (present == role).any()]
        lengths = [row.size - 1 for row in self.rows]
        frames = np.concatenate([row.frames[1:] for row in self.rows])
        learnt = np.isin(present, self.roles)
        # Of each learnt token, in the order of rows: the example, frame and role that it is a part of.
        owners = np.stack([np.repeat(self.example_of, lengths), frames, present], axis=1)[learnt]
        self.parts, part_of = np.unique(owners, axis=0, return_inverse=True)
        self.part_of = part_of.reshape(-1)
        self.begins = np.concatenate([[0], np.cumsum(learnt)])[np.concatenate([[0], np.cumsum(lengths)])]

    def figures(
        self, model: CausalLM, device: torch.device, process: Process, head: Head | None = None
    ) -> dict[str, float]:
        """`loss` (mean over tokens) and `exact_match` (share of examples), and by role `loss_state` and `right_state` (share of frames'
        parts).

        Every process takes a share of the batches, and gets the figures of all. `head`: the model's, if it can score without the logits
        of all tokens.
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
        figures = {f"loss{name}": float(row[0] / row[1]) for name, row in zip(names, sums)}
        examples, roles = self.parts[:, 0], self.parts[:, 2]
        figures["exact_match"] = 1 - len({*examples[wrong > 0]}) / len({*examples})
        return figures | {f"right_{role.label}": float((wrong[roles == role] == 0).mean()) for role in self.roles}

    def samples(self, model: CausalLM, device: torch.device, tokenizer: TraceTokenizer) -> list[Sample]:
        """Predict the learnt tokens of the first `SHOWN` examples' first rows, each from the true past, on every process alike."""
        first = [self.rows[np.flatnonzero(self.example_of == number)[0]] for number in range(min(SHOWN, self.examples))]
        ids, roles = padded(first, self.pad_id)
        learnt = np.isin(roles[:, 1:], self.roles)
        read = torch.from_numpy((roles != PAD_ROLE).astype(np.int64)).to(device)
        with torch.no_grad():
            logits = model(torch.from_numpy(ids).to(device), attention_mask=read, use_cache=False).logits
        likeliest = logits[:, :-1].argmax(-1).cpu().numpy()
        found = []
        for true, written, mine in zip(ids[:, 1:], likeliest, learnt):
            wrong = mine & (true != written)
            start = int(np.flatnonzero(mine)[0]) if mine.any() else 0
            length = int((true != self.pad_id).sum())
            texts = [tokenizer.decode(row[start:length]) for row in (true, np.where(mine, written, true))]
            found.append(Sample(texts[0], texts[1], int(wrong.sum())))
        return found

    def _batches(self, process: Process) -> Iterator[tuple[int, bool]]:
        """The first row of each of this process's batches, and whether each counts: processes run equally many, since a divided model
        needs them all."""
        count = -(-len(self.rows) // self.batch_size)
        for first in range(0, count, process.world_size):
            number = first + process.rank
            yield min(number, count - 1) * self.batch_size, number < count

    def _of_batch(
        self, model: CausalLM, device: torch.device, rows: list[Tokens], head: Head | None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """For all learnt roles together, then for each: the sum of losses, and tokens (R, 2); and of each learnt token, in the order of
        rows, 1 if it is wrong, else 0."""
        ids, roles = padded(rows, self.pad_id)
        learnt = np.isin(roles[:, 1:], self.roles)
        batch, where = torch.from_numpy(ids).to(device), torch.from_numpy(learnt).to(device)
        read = torch.from_numpy((roles != PAD_ROLE).astype(np.int64)).to(device)
        with torch.no_grad():
            if head is None:
                logits = model(batch, attention_mask=read, use_cache=False).logits[:, :-1][where].float()
                scores = scored(logits, batch[:, 1:][where])
            else:
                labels = batch.clone()
                labels[:, 1:][~where] = IGNORED
                with head.scoring(labels):
                    scores = model(batch, attention_mask=read, use_cache=False).logits[:, :-1][where]
        losses, wrong = scores.double().cpu().numpy().T
        role_of = roles[:, 1:][learnt]
        masks = [learnt[learnt], *(role_of == role for role in self.roles)]
        return np.array([[losses[mine].sum(), mine.sum()] for mine in masks]), wrong
