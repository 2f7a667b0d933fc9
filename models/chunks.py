"""Speculative reading: rows read several tokens at once, and drop wrong guesses.

A cache that cannot be cropped is restored from a copy; the right guesses are then read again.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from remedy.models.cache import (
    KEYS,
    Cut,
    GrowingDynamicCache,
    MixerCache,
    copied,
    cropped,
    has_keys,
    is_batchable,
    joined,
    selected,
)
from remedy.models.loading import input_device
from remedy.models.protocol import CausalLM


class Kind(StrEnum):
    """Kind of cache: how rows continue from it, and drop tokens."""

    CROP = "crop"
    """Keys and values only: tokens are cut off, and chunks of a batch may differ in length."""
    COPY = "copy"
    """States too: a copy is restored, and kept tokens are read again; chunks of a batch have one length."""
    STEP = "step"
    """As COPY, but after a first chunk the model reads one token a call, as Transformers' Mamba has to."""
    PLAIN = "plain"
    """No cache, or an unknown kind: rows are read whole every time."""


class CachedModel:
    """A model called with a cache or without."""

    def __init__(self, model: CausalLM) -> None:
        self.model = model
        self.device = input_device(model)
        self.calls = 0
        """Number of calls."""
        self.tokens = 0
        """Number of tokens read, padding included."""
        parameters = inspect.signature(model.forward).parameters
        self.takes = frozenset(parameters)
        self._options = any(value.kind is inspect.Parameter.VAR_KEYWORD for value in parameters.values())
        self._options |= "use_cache" in self.takes
        self._cache = next((name for name in ("past_key_values", "cache_params") if name in self.takes), None)

    def kind(self) -> Kind | None:
        """Return CROP or COPY by the cache's layers, or None."""
        if self._cache is None or not is_batchable(cache := self._new_cache()):
            return None
        if isinstance(cache, MixerCache):
            return Kind.CROP if {*self.model.config.layer_mixers} == {"attention"} else Kind.COPY
        return Kind.CROP if all(type(layer) in KEYS for layer in cache.layers) else Kind.COPY

    def parallel(self, tokens: Tensor, keep: int = 0) -> Tensor:
        """Return logits (B, T or `keep`, V) of sequences (B, T), without a cache."""
        logits = self._call(tokens, keep, **({"use_cache": False} if self._options else {}))
        return logits[:, -keep:] if keep else logits

    def read(
        self, tokens: Tensor, cache: Cache | None, keep: int = 1, record: bool = False, **positions: Tensor
    ) -> tuple[Tensor, Cache]:
        """Read tokens (B, T) after a cache; return the last logits and the cache.

        `record`: keep tokens that leave a window, for `cropped`.
        """
        cache = self._new_cache() if cache is None else cache
        if record:
            cache.activate_past_recording()
        assert self._cache is not None
        options: dict[str, Any] = {self._cache: cache, **positions}
        return self._call(tokens, keep, use_cache=True, **options)[:, -keep:], cache

    def padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Pad rows on the right to (B, T), each with its last token.

        Models warn about padding tokens.
        """
        width = max(map(len, rows))
        return torch.tensor([[*row, *[row[-1]] * (width - len(row))] for row in rows], device=self.device)

    def _call(self, tokens: Tensor, keep: int, **options: Any) -> Tensor:
        self.calls += 1
        self.tokens += tokens.numel()
        if keep and "logits_to_keep" in self.takes:
            options["logits_to_keep"] = keep
        return self.model(input_ids=tokens, **options).logits

    def _new_cache(self) -> Cache:
        make: Any = getattr(self.model, "new_cache", None)
        cache: Cache = make() if make is not None else GrowingDynamicCache(config=self.model.config)
        return cache


class Chunk(NamedTuple):
    """Tokens that a row reads next, the last `guesses` of them guessed."""

    tokens: list[int]
    guesses: int


class _Group(NamedTuple):
    """Rows whose caches are one batch, and the tokens that each has read."""

    rows: list[int]
    lengths: list[int]
    cache: Cache


class _PendingCall(NamedTuple):
    """A call whose guesses are not judged yet.

    `lengths`: tokens of each row before it; `reads`: in it; `width`: of its widest chunk.
    """

    rows: list[int]
    lengths: list[int]
    reads: list[int]
    width: int
    after: Cache | None
    before: Cache | None


class ChunkReader:
    """Rows read in chunks; each `extend` is followed by `keep` for the same rows."""

    def __init__(self, model: CachedModel, kind: Kind, limit: int | None = None) -> None:
        """Make a reader. `limit`: size of the model's table of positions, if any."""
        self.kind = kind
        self._model = model
        self._limit = limit
        self._groups: list[_Group] = []
        self._marked: dict[int, _Group] = {}
        self._pending: _PendingCall | None = None

    def held(self, row: int) -> int:
        """Count the tokens of a row in its cache."""
        return next((group.lengths[group.rows.index(row)] for group in self._groups if row in group.rows), 0)

    def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, Tensor]:
        """Read a chunk of each row; return logits (guesses + 1, V) of each.

        The first are from before the first guess. Either all rows have read something, or none. Later calls need chunks of one length,
        except with `Kind.CROP`.
        """
        rows = list(chunks)
        lengths = [self.held(row) for row in rows]
        fresh, crops = not any(lengths), self.kind is Kind.CROP
        reads = [len(chunks[row].tokens) for row in rows]
        width = max(reads)
        keep = width - min(read - chunks[row].guesses - 1 for row, read in zip(rows, reads))
        cache = before = None
        # The first chunks of a COPY cache must have one length.
        if self.kind is Kind.PLAIN or (fresh and not crops and len(set(reads)) > 1):
            logits = self._model.parallel(self._model.padded([chunks[row].tokens for row in rows]), keep)
        else:
            if not fresh:
                rows, lengths, cache = self._take(rows)
                reads = [len(chunks[row].tokens) for row in rows]
            before = None if crops or not any(chunk.guesses for chunk in chunks.values()) else cache
            tokens = self._model.padded([chunks[row].tokens for row in rows])
            start = copied(before) if before is not None else cache
            logits, cache = self._read(tokens, start, lengths, keep)
        self._pending = _PendingCall(rows, lengths, reads, width, cache, before)
        first = [keep - width + read - chunks[row].guesses - 1 for row, read in zip(rows, reads)]
        return {
            row: logits[index, start : start + chunks[row].guesses + 1]
            for index, (row, start) in enumerate(zip(rows, first))
        }

    def keep(self, counts: Mapping[int, int]) -> None:
        """Keep the first tokens of each row's last chunk; drop rows not named."""
        assert self._pending is not None
        rows, lengths, reads, width, after, before = self._pending
        self._pending = None
        if after is None:
            return
        indices = [index for index, row in enumerate(rows) if row in counts]
        if self.kind is Kind.CROP:
            if indices:
                group = _select(_Group(rows, [length + width for length in lengths], after), indices)
                keep = [counts[row] for row in group.rows]
                lengths = [length - width + count for length, count in zip(group.lengths, keep)]
                self._groups.append(_Group(group.rows, lengths, cropped(group.cache, Cut(width, keep, lengths))))
            return
        complete = [index for index in indices if counts[rows[index]] == reads[index]]
        rest = [index for index in indices if counts[rows[index]] < reads[index]]
        if complete:
            lengths_after = [length + read for length, read in zip(lengths, reads)]
            self._groups.append(_select(_Group(rows, lengths_after, after), complete))
        if rest and before is not None:
            self._groups.append(_select(_Group(rows, lengths, before), rest))

    def mark(self, row: int) -> None:
        """Copy a row's cache for `back`, the first time only."""
        if row not in self._marked:
            group = next(group for group in self._groups if row in group.rows)
            marked = _select(group, [group.rows.index(row)])
            self._marked[row] = marked._replace(cache=copied(marked.cache))

    def back(self, rows: Collection[int]) -> None:
        """Restore rows to their marks; drop those without one."""
        _, self._groups = self._split(rows)
        marked = [self._marked[row] for row in rows if row in self._marked]
        self._groups += [group._replace(cache=copied(group.cache)) for group in marked]

    def forget(self, rows: Collection[int]) -> None:
        """Drop the caches and marks of finished rows."""
        _, self._groups = self._split(rows)
        for row in rows:
            self._marked.pop(row, None)

    def _take(self, wanted: Collection[int]) -> tuple[list[int], list[int], Cache]:
        taken, self._groups = self._split(wanted)
        rows = [row for group in taken for row in group.rows]
        lengths = [length for group in taken for length in group.lengths]
        return rows, lengths, taken[0].cache if len(taken) == 1 else joined([group.cache for group in taken], lengths)

    def _split(self, wanted: Collection[int]) -> tuple[list[_Group], list[_Group]]:
        parts: tuple[list[_Group], list[_Group]] = ([], [])
        for group in self._groups:
            for part, inside in zip(parts, (True, False)):
                indices = [index for index, row in enumerate(group.rows) if (row in wanted) is inside]
                if indices:
                    part.append(_select(group, indices))
        return parts

    def _read(self, tokens: Tensor, cache: Cache | None, lengths: list[int], keep: int) -> tuple[Tensor, Cache]:
        """Read tokens (B, T) after a cache of rows of these lengths; return the last `keep` logits and the cache."""
        if self.kind is Kind.STEP and cache is not None and tokens.shape[1] > 1:
            logits = []
            for offset in range(tokens.shape[1]):
                held = [length + offset for length in lengths]
                step_logits, cache = self._read(tokens[:, offset : offset + 1], cache, held, 1)
                logits.append(step_logits)
            return torch.cat(logits[-keep:], dim=1), cache
        options = self._position_options(cache, lengths, tokens.shape[1]) if cache is not None else {}
        return self._model.read(tokens, cache, keep, self.kind is Kind.CROP, **options)

    def _position_options(self, cache: Cache, lengths: list[int], width: int) -> dict[str, Tensor]:
        device = self._model.device
        steps = torch.arange(width, device=device)
        starts = torch.tensor(lengths, device=device)[:, None]
        options = {
            "position_ids": starts + steps if self._limit is None else (starts + steps).clamp(max=self._limit - 1)
        }
        longest = max(lengths)
        if has_keys(cache) and min(lengths) < longest:
            options["attention_mask"] = (torch.arange(longest + width, device=device) >= longest - starts).long()
        return {name: value for name, value in options.items() if name in self._model.takes}


def _select(group: _Group, indices: list[int]) -> _Group:
    if len(indices) == len(group.rows):
        return group
    lengths = [group.lengths[index] for index in indices]
    return _Group([group.rows[index] for index in indices], lengths, selected(group.cache, indices, lengths))
