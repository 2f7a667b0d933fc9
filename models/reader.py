"""Reads batches of sequences with any causal language model: prompts at once, then a token of each row at a time.

How it goes on from where a sequence stands is found by trying, once for a model, and not by its name: on sequences of random
tokens each way is compared with the model's own parallel pass over the whole sequence.

- TOGETHER: prompts of one length are read in one pass, then the states of all are joined, and all rows step as one batch.
- ALONE: every row steps by itself, for a state that cannot be joined, or a step that is wrong in batches (Transformers' RWKV).
- WHOLE: no state is carried: every step is a pass over all that was read. Right for every model, and slow.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remedy.models.batching import CannotJoin, joined
from remedy.models.cache_memory import Footprint, footprint, room, shares
from remedy.models.call_cost import Pace, pace
from remedy.models.chunks import PROBE, ChunkReader, Form, Rewind, probe
from remedy.models.context_length import ContextLimit, context_limit
from remedy.models.devices import input_device
from remedy.models.protocol import CausalLM
from remedy.models.states import State, StateKeeper, has_keys
from remedy.settings import UserError

log = logging.getLogger(__name__)

PROBE_LENGTHS = (37, 23, 23)
PROBE_STEPS = 4
WRONG = 0.5
"""A departure, in standard deviations of the logits, that no arithmetic explains: a state was lost on the way."""

LOGITS = 2**28
"""Logits that one call may give: 1 GB in float32."""
RUNS_NOT = (TypeError, ValueError, RuntimeError, LookupError, AttributeError)
"""What a model's code raises where it cannot do what is asked of it."""


class Departure(NamedTuple):
    """How far predictions step by step are from those of the model's own parallel pass: the most that the log-probability of a token
    differs, and the most that the logits of a prediction do, root mean square, in their standard deviations. (The greatest difference
    of any logit would be that of a hundred thousand draws of rounding: in half precision as much as what a fault makes.)"""

    logprob: float
    relative: float


class _Group(NamedTuple):
    """Rows that step as one batch: their places in the whole batch, and their state."""

    rows: list[int]
    state: State


class ModelReader:
    """A model as a `Reader`. It is measured when it is first needed.

    Raises:
        UserError: from any method: the model is not causal, or cannot be run at all.
    """

    def __init__(self, model: CausalLM, name: str = "the model") -> None:
        self.model = model
        self.name = name
        self.context: ContextLimit | None = context_limit(model)
        self._device = input_device(model)
        self.keeper = StateKeeper(model)
        self._form: Form | None = None
        self._rewind = Rewind.NEVER
        self._departure = Departure(0.0, 0.0)
        self._footprint = Footprint(0.0, 0.0)
        self._shares: dict[torch.device, float] = {self._device: 1.0}
        self._sequences: list[list[int]] = []
        self._lengths: list[int] = []
        self._steps = 0
        self._width = 0
        self._groups: list[_Group] = []

    @property
    def limit(self) -> int | None:
        return self.context.tokens if self.context is not None and self.context.hard else None

    @property
    def form(self) -> Form:
        """How it goes on from where sequences stand."""
        if self._form is None:
            self._measure()
        assert self._form is not None
        return self._form

    @property
    def departure(self) -> Departure:
        """How far this is from the model's parallel pass."""
        assert self.form
        return self._departure

    @property
    def steady(self) -> bool:
        """Whether it reads step by step as in parallel, but for rounding: what one of them says, the other does."""
        return self.departure.relative <= self._tolerance

    @property
    def vocabulary(self) -> int:
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def pace(self) -> Pace:
        return pace(self.model, self._device)

    @property
    def footprint(self) -> Footprint:
        """Memory that the state of a row takes; none where no state is carried."""
        assert self.form
        return self._footprint

    def room(self) -> float:
        """Bytes that the states of all rows may take now."""
        assert self.form
        return room(self._shares)

    def chunks(self) -> ChunkReader:
        """Reads on by several tokens at once."""
        return ChunkReader(self.keeper, self.form, self._rewind, self.limit)

    def report(self) -> dict[str, Any]:
        """How it reads, to be kept beside results: the precision, the form, how it forgets what it has read, its departure from the
        parallel pass, bytes of its state for each row and each of its tokens, and the context's limit."""
        return {
            "precision": str(self._dtype).removeprefix("torch."),
            "form": str(self.form),
            "rewind": str(self._rewind),
            "departure": self.departure._asdict(),
            "footprint": self.footprint._asdict(),
            "context": self.context._asdict() if self.context else None,
        }

    @torch.no_grad()
    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        return self._prefill(prompts, self.form)

    @torch.no_grad()
    def step(self, tokens: Sequence[int | None]) -> Tensor:
        for sequence, token in zip(self._sequences, tokens, strict=True):
            if token is not None:
                sequence.append(token)
        if not self._groups:
            return self._last_of_whole(self._sequences)
        read = [[sequence[-1]] for sequence in self._sequences]
        found: list[tuple[list[int], Tensor]] = []
        for number, (rows, state) in enumerate(self._groups):
            if all(tokens[row] is None for row in rows):
                found.append((rows, torch.zeros(len(rows), self._width, device=self._device)))
                continue
            logits, state = self.keeper.read(
                self._ids([read[row] for row in rows]), state, 1, **self._where(rows, state)
            )
            self._groups[number] = _Group(rows, state)
            found.append((rows, logits[:, -1]))
        self._steps += 1
        return _in_order(found)

    @torch.no_grad()
    def parallel(self, sequences: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        for batch in self._fitting(sequences):
            for row, sequence in zip(self._whole(batch), batch):
                yield row[: len(sequence)]

    def _prefill(self, prompts: Sequence[Sequence[int]], form: Form) -> Tensor:
        self._sequences = [list(prompt) for prompt in prompts]
        self._groups = []
        if form is Form.WHOLE:
            return self._last_of_whole(prompts)
        rows = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
        together = (
            groupby(rows, lambda row: len(prompts[row])) if form is Form.TOGETHER else ((row, [row]) for row in rows)
        )
        found: list[tuple[list[int], Tensor]] = []
        for _, members in together:
            group = list(members)
            logits, state = self.keeper.read(self._ids([prompts[row] for row in group]), None)
            self._groups.append(_Group(group, state))
            found.append((group, logits[:, -1]))
        self._lengths, self._width, self._steps = [len(prompt) for prompt in prompts], found[0][1].shape[-1], 0
        if form is Form.TOGETHER and len(self._groups) > 1:
            self._groups = [
                _Group(rows, joined([group.state for group in self._groups], [self._lengths[r] for r in rows]))
            ]
        return _in_order(found)

    def _where(self, rows: list[int], state: State) -> dict[str, Tensor]:
        """Where the next token of each row stands: its position, which some models miscount from their state (Bamba), and, in rows
        of different lengths, whose keys are padded on the left, which of them are its own."""
        last = (
            None if self.limit is None else self.limit - 1
        )  # complete rows step on too, and must not past a table's end
        reached = [self._lengths[row] + self._steps for row in rows]
        where = {"position_ids": self._ids([[n if last is None else min(n, last)] for n in reached])}
        longest = max(self._lengths[row] for row in rows)
        if has_keys(state) and any(self._lengths[row] < longest for row in rows):
            padding = self._ids([[longest - self._lengths[row]] for row in rows])
            places = torch.arange(longest + self._steps + 1, device=self._device)
            where["attention_mask"] = (places >= padding).long()
        return {name: value for name, value in where.items() if name in self.keeper.takes}

    @property
    def _tolerance(self) -> float:
        """The greatest departure, in standard deviations of the logits, that is taken for rounding."""
        return float(torch.finfo(self._dtype).eps ** 0.5)

    @property
    def _dtype(self) -> torch.dtype:
        """What it computes in, which weights in 4 bits do not say."""
        dtype: torch.dtype = self.model.get_input_embeddings().weight.dtype
        return dtype

    @torch.no_grad()
    def _measure(self) -> None:
        """Find how this model is read, on sequences of random tokens."""
        lengths = [min(length, self.limit or length) for length in PROBE_LENGTHS]
        generator = torch.Generator().manual_seed(0)
        vocabulary = self.model.get_input_embeddings().num_embeddings
        sequences = [torch.randint(vocabulary, (n,), generator=generator).tolist() for n in lengths]
        try:
            expected = [next(self.parallel([sequence])) for sequence in sequences]
        except RUNS_NOT as error:
            raise UserError(
                f"{self.name} ({self.model.config.model_type}) cannot be run by this version of Transformers: {_line(error)}"
            ) from None
        self._form, self._departure = self._find_form(sequences, expected)
        if self._form is not Form.WHOLE:
            long, short = (self.keeper.read(self._ids([one]), None)[1] for one in sequences[:2])
            self._footprint = footprint((lengths[1], short), (lengths[0], long))
            self._shares = shares(long) or self._shares
        if self._form is Form.WHOLE:
            self._rewind = Rewind.CROP
        elif min(lengths) > PROBE and self.steady:
            self._find_rewind(self._form, sequences, expected)

    def _find_rewind(self, form: Form, sequences: list[list[int]], expected: list[Tensor]) -> None:
        """The first way of forgetting after which it departs from the parallel pass by no more than rounding."""
        for rewind in (Rewind.CROP, Rewind.COPY):
            try:
                found = probe(ChunkReader(self.keeper, form, rewind, self.limit), sequences)
            except (CannotJoin, *RUNS_NOT):
                self.keeper.recording = False
                continue
            departures = [_departure(one, true[-PROBE:]) for one, true in zip(found, expected)]
            departure = Departure(*(max(both) for both in zip(self._departure, *departures)))
            if departure.relative <= self._tolerance:
                self._rewind, self._departure = rewind, departure
                return

    def _find_form(self, sequences: list[list[int]], expected: list[Tensor]) -> tuple[Form, Departure]:
        """The first form that departs from the parallel pass by no more than rounding; else the one that departs least, unless a
        state was lost, and every step has to be a whole pass."""
        found = {}
        for form in (Form.TOGETHER, Form.ALONE):
            # Complete rows are stepped too: without positions of their own they would run past the end of a table.
            if form is Form.TOGETHER and self.limit is not None and "position_ids" not in self.keeper.takes:
                continue
            try:
                found[form] = self._departure_of(form, sequences, expected)
            except (CannotJoin, *RUNS_NOT):
                continue
            if found[form].relative <= self._tolerance:
                return form, found[form]
        whole = self._departure_of(Form.WHOLE, sequences, expected)
        if not whole.relative <= 10 * self._tolerance:
            raise UserError(
                f"{self.name} is not a causal language model ({self.model.config.model_type}): what it predicts after a token depends "
                "on those that follow"
            )
        if found:
            form = min(found, key=lambda one: found[one].relative)
            if found[form].relative < WRONG:
                log.warning(
                    "%s (%s): its predictions step by step depart from those of its own parallel pass, by up to %.1g in "
                    "log-probability; what it writes is read step by step",
                    *(self.name, self.model.config.model_type, found[form].logprob),
                )
                return form, found[form]
        log.warning(
            "%s (%s) hands over no state to go on from: every step is a pass over the whole sequence, which is slow",
            *(self.name, self.model.config.model_type),
        )
        return Form.WHOLE, whole

    def _departure_of(self, form: Form, sequences: Sequence[list[int]], expected: Sequence[Tensor]) -> Departure:
        """Of all predictions after the last tokens of the sequences, the greatest difference from the expected ones."""
        steps = min(PROBE_STEPS, min(map(len, sequences)) - 1)
        rows = [self._prefill([sequence[:-steps] for sequence in sequences], form)]
        rows += [self.step([sequence[len(sequence) - left] for sequence in sequences]) for left in range(steps, 0, -1)]
        return _departure(torch.stack(rows, dim=1), torch.stack([logits[-steps - 1 :] for logits in expected]))

    def _ids(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([list(one) for one in sequences], device=self._device)

    def _fitting(self, sequences: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
        """The sequences in order, as many at a time as have room for their logits."""
        batch: list[Sequence[int]] = []
        for sequence in sequences:
            width = max(map(len, [*batch, sequence]))
            if batch and width * (len(batch) + 1) * self.vocabulary > LOGITS:
                yield batch
                batch = []
            batch.append(sequence)
        if batch:
            yield batch

    def _whole(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Logits (B, T, V) of one pass; rows are padded on the right, which no token of a causal model sees."""
        width = max(map(len, sequences))
        # Padded with tokens of its own, for which no model looks into its configuration, nor warns.
        padded = [[*one, *[one[-1]] * (width - len(one))] for one in sequences]
        return self.keeper.parallel(self._ids(padded))

    def _last_of_whole(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        ends = torch.tensor([len(one) - 1 for one in sequences], device=self._device)
        return self._whole(sequences)[torch.arange(len(sequences), device=self._device), ends]


def _departure(found: Tensor, true: Tensor) -> Departure:
    """How far logits (..., V) are from the true ones."""
    found, true = found.float(), true.float()
    logprob = (found.log_softmax(-1) - true.log_softmax(-1)).abs().max()
    centred = (found - found.mean(-1, keepdim=True)) - (true - true.mean(-1, keepdim=True))
    return Departure(float(logprob), float((centred.square().mean(-1).sqrt() / true.std(-1)).max()))


def _in_order(found: Sequence[tuple[list[int], Tensor]]) -> Tensor:
    """Logits of groups of rows as those of the whole batch, in its order."""
    places = [row for rows, _ in found for row in rows]
    order = torch.tensor(places, device=found[0][1].device).argsort()
    return torch.cat([logits for _, logits in found])[order]


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
