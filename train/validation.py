"""Validation while training: the loss and the exact matches of held-out examples, role by role, each token from the true past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from remedy.data_gen.mixture import Mixture
from remedy.data_gen.roles import PAD_ROLE, Role
from remedy.data_gen.settings import ConfigError
from remedy.data_gen.tokens import Tokens
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.train.config import RunConfig
from remedy.train.data import encode_rows, padded
from remedy.train.processes import Process, summed


def validation_rows(config: RunConfig, tokenizer: TraceTokenizer) -> list[Tokens]:
    """The held-out examples: the first of the validation split of the run's `data`, parts of a mixture in their shares.

    They are the same for all stages of a curriculum and all seeds of a recipe. Given programs are there once each.

    Raises:
        ConfigError: there is no such program, or no token of the examples has a role that is learnt.
    """
    mixture = Mixture(config.data, config.mixture, split="validation")
    place = mixture.place(range(config.train.validation_examples))
    chosen = list(dict.fromkeys(zip(place.sources.tolist(), place.indices.tolist())))
    rows: list[Tokens] = []
    for number, source in enumerate(mixture.sources):
        mine = [index for at, index in chosen if at == number]
        rows += encode_rows(source.data, tokenizer, "validation", mine) if mine else []
    supervised = config.train.supervised()
    if not any(np.isin(row.roles[1:], sorted(supervised)).any() for row in rows):
        raise ConfigError(
            f"train.evaluate_every: no token of {len(rows)} validation examples has a role of train.loss_roles "
            f"[{', '.join(config.train.loss_roles)}]: raise train.validation_examples, or do without validation"
        )
    return rows


class Validation:
    """Held-out examples, and what a model makes of them.

    An example's role is an exact match if the model would have chosen each of its tokens, given the true tokens before. Where the
    learnt roles are all that a forcing leaves to the model, this is the share of examples that it decodes without a fault.
    """

    def __init__(self, rows: Sequence[Tokens], pad_id: int, roles: frozenset[Role], batch_size: int) -> None:
        self.rows = sorted(rows, key=lambda row: len(row.ids))
        self.pad_id, self.batch_size = pad_id, batch_size
        learnt = np.concatenate([row.roles[1:] for row in rows])
        self.roles = [role for role in sorted(roles) if (learnt == role).any()]

    def figures(self, model: CausalLM, device: torch.device, process: Process) -> dict[str, float]:
        """`loss` (mean over tokens) and `exact_match` (share of examples), and each by role: `loss_state`, `exact_match_state`.

        Every process takes a share of the batches, and gets the figures of all.
        """
        sums = np.zeros((len(self.roles) + 1, 4))
        for rows, counts in self._batches(process):
            found = self._of_batch(model, device, rows)
            sums += found if counts else 0.0
        sums = summed(torch.from_numpy(sums)).numpy()
        names = ["", *(f"_{role.label}" for role in self.roles)]
        losses = {f"loss{name}": float(row[0] / row[1]) for name, row in zip(names, sums)}
        return losses | {f"exact_match{name}": float(row[2] / row[3]) for name, row in zip(names, sums)}

    def _batches(self, process: Process) -> Iterator[tuple[list[Tokens], bool]]:
        """This process's batches, and whether each counts: processes run equally many, since a divided model needs them all."""
        count = -(-len(self.rows) // self.batch_size)
        for first in range(0, count, process.world_size):
            number = first + process.rank
            start = min(number, count - 1) * self.batch_size
            yield self.rows[start : start + self.batch_size], number < count

    def _of_batch(self, model: CausalLM, device: torch.device, rows: list[Tokens]) -> npt.NDArray[np.float64]:
        """For all learnt roles together, then for each: the sum of losses, tokens, examples without a fault, examples."""
        ids, roles = padded(rows, self.pad_id)
        learnt = np.isin(roles[:, 1:], self.roles)
        batch, where = torch.from_numpy(ids).to(device), torch.from_numpy(learnt).to(device)
        read = torch.from_numpy((roles != PAD_ROLE).astype(np.int64)).to(device)
        with torch.no_grad():
            logits = model(batch, attention_mask=read, use_cache=False).logits[:, :-1][where].float()
        targets = batch[:, 1:][where]
        losses = cross_entropy(logits, targets, reduction="none").double().cpu().numpy()
        wrong = (logits.argmax(-1) != targets).cpu().numpy()
        row_of, role_of = np.nonzero(learnt)[0], roles[:, 1:][learnt]
        sums = np.zeros((len(self.roles) + 1, 4))
        for place, mine in enumerate([learnt[learnt], *(role_of == role for role in self.roles)]):
            there = np.bincount(row_of[mine], minlength=len(rows)) > 0
            faulty = np.bincount(row_of[mine & wrong], minlength=len(rows)) > 0
            sums[place] = losses[mine].sum(), mine.sum(), (there & ~faulty).sum(), there.sum()
        return sums
