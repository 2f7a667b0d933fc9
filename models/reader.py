"""Reading of sequences with any causal language model, with a cache or in full.

A measurement compares both with a parallel pass.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from remedy.models.cache import Footprint, available_bytes, footprint
from remedy.models.chunks import CachedModel, Chunk, ChunkReader, Kind
from remedy.models.context_length import ContextLimit, context_limit
from remedy.models.protocol import CausalLM
from remedy.settings import UserError

log = logging.getLogger(__name__)

PROBE_LENGTHS = (37, 23, 23)
PROBE = 12
"""Last tokens of a random sequence, read in chunks and compared with the parallel pass."""
OVERHEAD = {"cpu": (12.0, 3e6), "cuda": (250.0, 2e10)}
"""Fixed time of a call in tokens: for fetching weights, and, times layers over weights, for calling modules.

One core: measured, from 60 for layers of 60,000 weights to 15 for SmolLM2-135M. A GPU computes some 300 operations per byte fetched
(H100 in bf16: 989 TFLOPS, 3.35 TB/s); a weight has two bytes and needs two operations per token.
"""
LOGITS = 2**28
"""Most logits of one call: 1 GB in float32."""
MODEL_ERRORS = (TypeError, ValueError, RuntimeError, LookupError, AttributeError)
"""Errors of a model's code where it does not support a call."""


class Departure(NamedTuple):
    """Distance of step-by-step predictions from the model's parallel pass.

    `logprob`: greatest difference of a log-probability; `relative`: greatest root-mean-square difference of a prediction's logits, in
    their standard deviations.
    """

    logprob: float = 0.0
    relative: float = 0.0


class Measurement(NamedTuple):
    """A model's kind of cache, its departure from the parallel pass, and a row's cache."""

    kind: Kind
    departure: Departure = Departure()
    footprint: Footprint = Footprint()
    cache: Cache | None = None


class ModelReader:
    """Reader of a batch of sequences; a row's logits depend on that row alone.

    The model is measured at first use.

    Raises:
        UserError: from any method: the model is not causal, or cannot be run.
    """

    def __init__(self, model: CausalLM, name: str = "the model") -> None:
        self.model = model
        self.name = name
        self.context: ContextLimit | None = context_limit(model)
        self.cached = CachedModel(model)
        self._device = self.cached.device
        self._sequences: list[list[int]] = []
        self._chunks: ChunkReader | None = None

    @property
    def limit(self) -> int | None:
        """Return the length of the model's table of positions, or None."""
        return self.context.tokens if self.context is not None and self.context.hard else None

    @property
    def kind(self) -> Kind:
        return self._measured.kind

    @property
    def departure(self) -> Departure:
        return self._measured.departure

    @property
    def vocabulary(self) -> int:
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def overhead(self) -> float:
        """Estimate the fixed time of a call, in tokens.

        It is not measured, so that evaluations make the same calls.
        """
        fetched, called = OVERHEAD.get(self._device.type, OVERHEAD["cuda"])
        layers = getattr(self.model.config, "num_hidden_layers", None) or 1
        return fetched + called * layers / sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def footprint(self) -> Footprint:
        """Return the memory of a row's cache; zero without one."""
        return self._measured.footprint

    def available(self) -> float:
        """Return the bytes that the caches of all rows may take now."""
        cache = self._measured.cache
        return float("inf") if cache is None else available_bytes(cache)

    def chunks(self) -> ChunkReader:
        return ChunkReader(self.cached, self.kind, self.limit)

    def report(self) -> dict[str, Any]:
        """Return precision, cache, departure, footprint and context limit, for records."""
        return {
            "precision": str(self._dtype).removeprefix("torch."),
            "cache": str(self.kind),
            "departure": self.departure._asdict(),
            "footprint": self.footprint._asdict(),
            "context": self.context._asdict() if self.context else None,
        }

    @torch.no_grad()
    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Start with new prompts of any lengths; return logits (B, V) after each."""
        self._sequences = [list(prompt) for prompt in prompts]
        self._chunks = self.chunks() if self.kind is not Kind.PLAIN else None
        if self._chunks is None:
            return self._ends(self._sequences)
        return torch.cat([_read_prompt(self._chunks, row, prompt) for row, prompt in enumerate(self._sequences)])

    @torch.no_grad()
    def step(self, tokens: Sequence[int | None]) -> Tensor:
        """Read one more token per row; return logits (B, V).

        None stands for a finished row, whose logits are zero.
        """
        reading = {row: token for row, token in enumerate(tokens) if token is not None}
        for row, token in reading.items():
            self._sequences[row].append(token)
        if not reading:
            self._chunks = None  # no row goes on, so that their caches are freed
            return torch.zeros(len(tokens), self.vocabulary, device=self._device)
        rows = list(reading)
        if self._chunks is None:
            logits = self._ends([self._sequences[row] for row in rows])
        else:
            chunk_logits = self._chunks.extend({row: Chunk([token], 0) for row, token in reading.items()})
            self._chunks.keep(dict.fromkeys(rows, 1))
            logits = torch.cat([chunk_logits[row] for row in rows])
        all_logits = torch.zeros(len(tokens), logits.shape[-1], dtype=logits.dtype, device=logits.device)
        all_logits[rows] = logits
        return all_logits

    @torch.no_grad()
    def parallel(self, sequences: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """Yield each sequence's logits (T, V), from one pass; the prefilled state stays."""
        for batch in self._fitting(sequences):
            for row, sequence in zip(self._whole(batch), batch):
                yield row[: len(sequence)]

    @property
    def _tolerance(self) -> float:
        return float(torch.finfo(self._dtype).eps ** 0.5)

    @property
    def _dtype(self) -> torch.dtype:
        """Return the precision of computation, which 4-bit weights do not show."""
        dtype: torch.dtype = self.model.get_input_embeddings().weight.dtype
        return dtype

    @functools.cached_property
    @torch.no_grad()
    def _measured(self) -> Measurement:
        lengths = [min(length, self.limit or length) for length in PROBE_LENGTHS]
        generator = torch.Generator().manual_seed(0)
        sequences = [torch.randint(self.vocabulary, (n,), generator=generator).tolist() for n in lengths]
        title = f"{self.name} ({self.model.config.model_type})"
        try:
            expected = [next(self.parallel([sequence])) for sequence in sequences]
        except MODEL_ERRORS as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UserError(f"{title} cannot be run by this version of Transformers: {reason}") from None
        plain_departure = _departure(
            self._ends([sequence[:-1] for sequence in sequences])[:, None], [logits[-2:-1] for logits in expected]
        )
        if plain_departure.relative > 10 * self._tolerance:
            raise UserError(
                f"{self.name} is not a causal language model ({self.model.config.model_type}): what it predicts after a token depends "
                "on those that follow"
            )
        kind = self.cached.kind()
        # A model whose cache is wrong after chunks may read on right by single tokens.
        kinds = () if kind is None or min(lengths) <= PROBE else (kind, Kind.STEP) if kind is Kind.COPY else (kind,)
        for kind in kinds:
            try:
                departure = _departure(self._in_chunks(kind, sequences), [logits[-PROBE:] for logits in expected])
            except MODEL_ERRORS:
                departure = Departure(float("inf"), float("inf"))
            if departure.relative <= self._tolerance:
                caches = [self.cached.read(self.cached.padded([sequence]), None)[1] for sequence in sequences[:2]]
                row = footprint((lengths[1], caches[1]), (lengths[0], caches[0]))
                return Measurement(kind, departure, row, caches[0])
        log.warning("%s: no cache of a known kind carries it on: every token takes a pass over all before it", title)
        return Measurement(Kind.PLAIN, plain_departure)

    def _in_chunks(self, kind: Kind, sequences: Sequence[list[int]]) -> list[Tensor]:
        """Read sequences with some wrong guesses; return the last logits (PROBE, V) of each."""
        chunks, rows = ChunkReader(self.cached, kind, self.limit), range(len(sequences))
        for row in rows:
            _read_prompt(chunks, row, sequences[row][:-PROBE])
        correct = {row: PROBE // 2 - (row if kind is Kind.CROP else 0) for row in rows}
        guessed = {row: sequences[row][-PROBE:][: correct[row]] for row in rows}
        first = chunks.extend({row: Chunk([*guessed[row], *2 * [guessed[row][0]]], correct[row] + 1) for row in rows})
        chunks.keep(correct)
        rest = {row: sequences[row][chunks.held(row) :] for row in rows}
        last = chunks.extend({row: Chunk(rest[row], PROBE - correct[row] - 1) for row in rows})
        chunks.keep({})
        return [torch.cat([first[row][: correct[row]], last[row]]) for row in rows]

    def _fitting(self, sequences: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
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
        return self.cached.parallel(self.cached.padded(sequences))

    def _ends(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        ends = torch.tensor([len(sequence) - 1 for sequence in sequences], device=self._device)
        return self._whole(sequences)[torch.arange(len(sequences), device=self._device), ends]


def _read_prompt(chunks: ChunkReader, row: int, prompt: list[int]) -> Tensor:
    logits = chunks.extend({row: Chunk(prompt, 0)})[row]
    chunks.keep({row: len(prompt)})
    return logits


def _departure(actual: Sequence[Tensor] | Tensor, expected: Sequence[Tensor]) -> Departure:
    logprobs, relatives = [], []
    for logits, target in ((logits.float(), target.float()) for logits, target in zip(actual, expected)):
        logprobs.append((logits.log_softmax(-1) - target.log_softmax(-1)).abs().max())
        # A shift of all logits does not change probabilities.
        difference = (logits - target) - (logits - target).mean(-1, keepdim=True)
        relatives.append((difference.square().mean(-1).sqrt() / target.std(-1)).max())
    return Departure(float(torch.stack(logprobs).max()), float(torch.stack(relatives).max()))
