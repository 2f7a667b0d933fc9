"""Reads sequences with any causal language model: whole, by steps of one token a row, or by chunks of guessed tokens.

A model whose cache can be cut back (`Kind.CROP`) or copied (`Kind.COPY`) reads on from it; any other reads whole
sequences (`Kind.PLAIN`). Which it is the layers of its cache say; one measurement, on sequences of random tokens, holds it to the
model's own parallel pass.
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
"""Tokens at the end of a random sequence that are read by chunks, to be compared with the parallel pass."""
OVERHEAD = {"cpu": (12.0, 3e6), "cuda": (250.0, 2e10)}
"""Tokens that are computed while weights are fetched, and, over the weights of a layer, while its modules are called.

One core: measured, from 60 for layers of 60,000 weights to 15 for SmolLM2-135M. A GPU does some 300 operations for every byte that it
fetches (H100 in bf16: 989 TFLOPS, 3.35 TB/s), and a weight has two bytes and takes two operations a token.
"""
LOGITS = 2**28
"""Logits that one call may give: 1 GB in float32."""
RUNS_NOT = (TypeError, ValueError, RuntimeError, LookupError, AttributeError)
"""What a model's code raises where it cannot do what is asked of it."""


class Departure(NamedTuple):
    """Distance of predictions step by step from those of the model's own parallel pass: the most that the log-probability of a token
    differs, and the most that the logits of a prediction do, root mean square, in their standard deviations. (The greatest
    difference of any logit would be that of a hundred thousand draws of rounding: in half precision as much as what a fault makes.)"""

    logprob: float = 0.0
    relative: float = 0.0


class Measured(NamedTuple):
    """Reading of a model: its kind of cache, how far that departs from the parallel pass, and a row's cache where one is kept."""

    kind: Kind
    departure: Departure = Departure()
    footprint: Footprint = Footprint()
    cache: Cache | None = None


class ModelReader:
    """Reads a batch of sequences, and on from where each of them stands; a row's logits depend on that row alone. The model is measured
    when it is first needed.

    Raises:
        UserError: from any method: the model is not causal, or cannot be run at all.
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
        """Return how many tokens of a sequence it can read at all; None if there is no end."""
        return self.context.tokens if self.context is not None and self.context.hard else None

    @property
    def kind(self) -> Kind:
        """Return how it goes on from where sequences stand."""
        return self._measured.kind

    @property
    def departure(self) -> Departure:
        """Return how far this is from the model's parallel pass."""
        return self._measured.departure

    @property
    def vocabulary(self) -> int:
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def overhead(self) -> float:
        """Return how many tokens could be read in the time that a call takes beside them, by the model's size and the kind of its
        device; accelerators that are not listed count as CUDA's. Nothing is timed, so that two evaluations make the same calls."""
        fetched, called = OVERHEAD.get(self._device.type, OVERHEAD["cuda"])
        layers = getattr(self.model.config, "num_hidden_layers", None) or 1
        return fetched + called * layers / sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def footprint(self) -> Footprint:
        """Memory that the cache of a row takes; none where no cache is kept here."""
        return self._measured.footprint

    def available(self) -> float:
        """Bytes that the caches of all rows may take now."""
        cache = self._measured.cache
        return float("inf") if cache is None else available_bytes(cache)

    def chunks(self) -> ChunkReader:
        """Reads on by several tokens at once."""
        return ChunkReader(self.cached, self.kind, self.limit)

    def report(self) -> dict[str, Any]:
        """Return how it reads, to be kept beside results: the precision, what is done with its cache, its departure from the
        parallel pass, bytes of its cache for each row and each of its tokens, and the context's limit."""
        return {
            "precision": str(self._dtype).removeprefix("torch."),
            "cache": str(self.kind),
            "departure": self.departure._asdict(),
            "footprint": self.footprint._asdict(),
            "context": self.context._asdict() if self.context else None,
        }

    @torch.no_grad()
    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Begin anew with these prompts, of any lengths; logits (B, V) after the last token of each."""
        self._sequences = [list(prompt) for prompt in prompts]
        self._chunks = self.chunks() if self.kind is not Kind.PLAIN else None
        if self._chunks is None:
            return self._ends(self._sequences)
        return torch.cat([_begun(self._chunks, row, prompt) for row, prompt in enumerate(self._sequences)])

    @torch.no_grad()
    def step(self, tokens: Sequence[int | None]) -> Tensor:
        """Read one more token of each row; logits (B, V). None: the row is complete, and its logits mean nothing from now on."""
        reading = {row: token for row, token in enumerate(tokens) if token is not None}
        for row, token in reading.items():
            self._sequences[row].append(token)
        if not reading:
            return torch.zeros(len(tokens), self.vocabulary, device=self._device)
        if self._chunks is None:
            rows, logits = list(reading), self._ends([self._sequences[row] for row in reading])
        else:
            rows, found = list(reading), self._chunks.extend({row: Chunk([token], 0) for row, token in reading.items()})
            self._chunks.keep(dict.fromkeys(rows, 1))
            logits = torch.cat([found[row] for row in rows])
        every = torch.zeros(len(tokens), logits.shape[-1], dtype=logits.dtype, device=logits.device)
        every[rows] = logits
        return every

    @torch.no_grad()
    def parallel(self, sequences: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """Return for each sequence in turn the logits (T, V) after every token, from one pass; what prefill left behind stays."""
        for batch in self._fitting(sequences):
            for row, sequence in zip(self._whole(batch), batch):
                yield row[: len(sequence)]

    @property
    def _tolerance(self) -> float:
        """The greatest departure, in standard deviations of the logits, that is taken for rounding."""
        return float(torch.finfo(self._dtype).eps ** 0.5)

    @property
    def _dtype(self) -> torch.dtype:
        """Return what it computes in, which weights in 4 bits do not say."""
        dtype: torch.dtype = self.model.get_input_embeddings().weight.dtype
        return dtype

    @functools.cached_property
    @torch.no_grad()
    def _measured(self) -> Measured:
        """Find how this model is read, and how far that is from its parallel pass, on sequences of random tokens."""
        lengths = [min(length, self.limit or length) for length in PROBE_LENGTHS]
        generator = torch.Generator().manual_seed(0)
        sequences = [torch.randint(self.vocabulary, (n,), generator=generator).tolist() for n in lengths]
        about = f"{self.name} ({self.model.config.model_type})"
        try:
            expected = [next(self.parallel([sequence])) for sequence in sequences]
        except RUNS_NOT as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise UserError(f"{about} cannot be run by this version of Transformers: {said}") from None
        whole = _departure(self._ends([one[:-1] for one in sequences])[:, None], [true[-2:-1] for true in expected])
        if whole.relative > 10 * self._tolerance:
            raise UserError(
                f"{self.name} is not a causal language model ({self.model.config.model_type}): what it predicts after a token depends "
                "on those that follow"
            )
        kind = self.cached.kind()
        if kind is not None and min(lengths) > PROBE:
            try:
                departure = _departure(self._in_chunks(kind, sequences), [true[-PROBE:] for true in expected])
            except RUNS_NOT:
                departure = Departure(float("inf"), float("inf"))
            if departure.relative <= self._tolerance:
                caches = [self.cached.read(self._ids([one]), None)[1] for one in sequences[:2]]
                row = footprint((lengths[1], caches[1]), (lengths[0], caches[0]))
                return Measured(kind, departure, row, caches[0])
        log.warning("%s: no cache of a known kind carries it on: every token takes a pass over all before it", about)
        return Measured(Kind.PLAIN, whole)

    def _in_chunks(self, kind: Kind, sequences: Sequence[list[int]]) -> list[Tensor]:
        """Read sequences of more than `PROBE` tokens, some of them wrong guesses: of each, logits (PROBE, V) after its last ones."""
        chunks, rows = ChunkReader(self.cached, kind, self.limit), range(len(sequences))
        for row in rows:
            _begun(chunks, row, sequences[row][:-PROBE])
        right = {row: PROBE // 2 - (row if kind is Kind.CROP else 0) for row in rows}
        true = {row: sequences[row][-PROBE:][: right[row]] for row in rows}
        first = chunks.extend({row: Chunk([*true[row], *2 * [true[row][0]]], right[row] + 1) for row in rows})
        chunks.keep(right)
        rest = {row: sequences[row][chunks.held(row) :] for row in rows}
        last = chunks.extend({row: Chunk(rest[row], PROBE - right[row] - 1) for row in rows})
        chunks.keep({})
        return [torch.cat([first[row][: right[row]], last[row]]) for row in rows]

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
        return self.cached.parallel(self._ids([[*one, *[one[-1]] * (width - len(one))] for one in sequences]))

    def _ends(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Logits (B, V) after the last token of each."""
        ends = torch.tensor([len(one) - 1 for one in sequences], device=self._device)
        return self._whole(sequences)[torch.arange(len(sequences), device=self._device), ends]


def _begun(chunks: ChunkReader, row: int, prompt: list[int]) -> Tensor:
    """Read a row's prompt: logits (1, V) after it."""
    found = chunks.extend({row: Chunk(prompt, 0)})[row]
    chunks.keep({row: len(prompt)})
    return found


def _departure(found: Sequence[Tensor] | Tensor, true: Sequence[Tensor]) -> Departure:
    """Return how far logits (T, V) of sequences are from the true ones."""
    logprobs, relatives = [], []
    for one, other in ((one.float(), other.float()) for one, other in zip(found, true)):
        logprobs.append((one.log_softmax(-1) - other.log_softmax(-1)).abs().max())
        far = (one - other) - (one - other).mean(-1, keepdim=True)
        relatives.append((far.square().mean(-1).sqrt() / other.std(-1)).max())
    return Departure(float(torch.stack(logprobs).max()), float(torch.stack(relatives).max()))
