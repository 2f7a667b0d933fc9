"""Reads several tokens of a row at once, the last of them guesses, and forgets those guesses that were wrong.

Rows are numbered by whoever reads. What a row's cache holds is told by `held`; the rest of its sequence has to be read again: a cache
that cannot be cut back is replaced by a copy from before the guesses.
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
    """Kind of cache: the way to go on from where a sequence stands, and to forget what was read."""

    CROP = "crop"
    """Its cache holds keys and values, of which tokens are cut off: rows may read chunks of different lengths."""
    COPY = "copy"
    """Its cache holds states too: it goes back to a copy, and reads again what stays; chunks of a batch are of one length."""
    PLAIN = "plain"
    """Its cache is of another kind, or there is none: rows are read whole every time."""


class CachedModel:
    """Calls a model, with a cache or without."""

    def __init__(self, model: CausalLM) -> None:
        self.model = model
        self.device = input_device(model)
        self.calls = 0
        """How often the model was called."""
        self.tokens = 0
        """Tokens that it read in all, padding included."""
        parameters = inspect.signature(model.forward).parameters
        self.takes = frozenset(parameters)
        self._options = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        self._options |= "use_cache" in self.takes
        self._cache = next((name for name in ("past_key_values", "cache_params") if name in self.takes), None)

    def kind(self) -> Kind | None:
        """CROP or COPY by the layers of its cache; None where that is of neither kind."""
        if self._cache is None or not is_batchable(cache := self._new_cache()):
            return None
        if isinstance(cache, MixerCache):
            return Kind.CROP if {*self.model.config.layer_mixers} == {"attention"} else Kind.COPY
        return Kind.CROP if all(type(layer) in KEYS for layer in cache.layers) else Kind.COPY

    def parallel(self, tokens: Tensor, keep: int = 0) -> Tensor:
        """Logits (B, T, V) of one pass over whole sequences (B, T), without a cache; `keep`: of the last tokens alone."""
        logits = self._call(tokens, keep, **({"use_cache": False} if self._options else {}))
        return logits[:, -keep:] if keep else logits

    def read(
        self, tokens: Tensor, cache: Cache | None, keep: int = 1, record: bool = False, **where: Tensor
    ) -> tuple[Tensor, Cache]:
        """Read tokens (B, T) on from a cache, or from the beginning: logits (B, keep, V) after the last ones, and the cache then.
        `record`: it keeps what lies outside a window or a convolution's width until it is `cropped`."""
        cache = self._new_cache() if cache is None else cache
        if record:
            cache.activate_past_recording()
        assert self._cache is not None
        given: dict[str, Any] = {self._cache: cache, **where}
        return self._call(tokens, keep, use_cache=True, **given)[:, -keep:], cache

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
    """Tokens that a row reads next; the last `guesses` of them may have to be forgotten."""

    tokens: list[int]
    guesses: int


class _Group(NamedTuple):
    """Rows whose caches are one batch, and how many tokens each has read."""

    rows: list[int]
    lengths: list[int]
    cache: Cache


class _Open(NamedTuple):
    """A call whose guesses are not judged yet: its rows, the tokens of each row before and in it, how many places it took, and the
    caches after and before it."""

    rows: list[int]
    lengths: list[int]
    reads: list[int]
    width: int
    after: Cache | None
    before: Cache | None


class ChunkReader:
    """Rows that read on by chunks; `Kind.PLAIN` holds nothing of them. `extend` is followed by `keep` for the same rows."""

    def __init__(self, model: CachedModel, kind: Kind, limit: int | None = None) -> None:
        """`limit`: places in a table of positions, if there is one."""
        self.kind = kind
        self._model = model
        self._limit = limit
        self._groups: list[_Group] = []
        self._marked: dict[int, _Group] = {}
        self._open: _Open | None = None

    def held(self, row: int) -> int:
        """Return how many tokens of a row its cache holds: what follows them is read next."""
        return next((group.lengths[group.rows.index(row)] for group in self._groups if row in group.rows), 0)

    def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, Tensor]:
        """Read a chunk of each row, in one call: for each, logits (guesses + 1, V) after the token before the first guess and after
        every guess. Rows have all read something, or all nothing. Of different lengths from a cache: with `Kind.CROP` alone."""
        rows = list(chunks)
        lengths = [self.held(row) for row in rows]
        fresh, crops = not any(lengths), self.kind is Kind.CROP
        reads = [len(chunks[row].tokens) for row in rows]
        width = max(reads)
        keep = width - min(read - chunks[row].guesses - 1 for row, read in zip(rows, reads))
        cache = before = None
        if self.kind is Kind.PLAIN or (fresh and not crops and len(set(reads)) > 1):  # no cache could be kept
            logits = self._model.parallel(self._padded([chunks[row].tokens for row in rows], width), keep)
        else:
            if not fresh:
                rows, lengths, cache = self._take(rows)
                reads = [len(chunks[row].tokens) for row in rows]
            before = None if crops or not any(chunk.guesses for chunk in chunks.values()) else cache
            tokens = self._padded([chunks[row].tokens for row in rows], width)
            where = self._where(cache, lengths, width) if cache is not None else {}
            start = copied(before) if before is not None else cache
            logits, cache = self._model.read(tokens, start, keep, crops, **where)
        self._open = _Open(rows, lengths, reads, width, cache, before)
        first = [keep - width + read - chunks[row].guesses - 1 for row, read in zip(rows, reads)]
        return {
            row: logits[at, start : start + chunks[row].guesses + 1] for at, (row, start) in enumerate(zip(rows, first))
        }

    def keep(self, kept: Mapping[int, int]) -> None:
        """Return how many tokens of its chunk stay of each row that was just extended; a row that is not named is done with."""
        assert self._open is not None
        rows, lengths, reads, width, after, before = self._open
        self._open = None
        if after is None:
            return
        places = [place for place, row in enumerate(rows) if row in kept]
        if self.kind is Kind.CROP:
            cut = Cut(width, [kept[rows[place]] for place in places], [])
            if places:
                self._hold(after, rows, [length + width for length in lengths], places, cut)
            return
        whole = [place for place in places if kept[rows[place]] == reads[place]]
        rest = [place for place in places if kept[rows[place]] < reads[place]]
        if whole:
            self._hold(after, rows, [length + read for length, read in zip(lengths, reads)], whole)
        if rest and before is not None:
            self._hold(before, rows, lengths, rest)

    def mark(self, row: int) -> None:
        """Keep a copy of a row's cache as it is now, for `back`; the first time alone."""
        if row not in self._marked:
            group = next(group for group in self._groups if row in group.rows)
            self._marked[row] = _part(group, [group.rows.index(row)])

    def back(self, rows: Collection[int]) -> None:
        """Rows hold what they held when they were marked; nothing, where they were not."""
        self._drop(rows)
        marked = [self._marked[row] for row in rows if row in self._marked]
        self._groups += [one._replace(cache=copied(one.cache)) for one in marked]

    def forget(self, rows: Collection[int]) -> None:
        """Let the caches of rows go, marked ones too: they read no more."""
        self._drop(rows)
        for row in rows:
            self._marked.pop(row, None)

    def _drop(self, rows: Collection[int]) -> None:
        if rows:
            _, self._groups = self._parted(rows)

    def _hold(
        self, cache: Cache, rows: list[int], lengths: list[int], places: list[int], cut: Cut | None = None
    ) -> None:
        """Keep the cache of some rows of a batch."""
        mine, have = [rows[place] for place in places], [lengths[place] for place in places]
        if len(mine) < len(rows):
            cache = selected(cache, places, have)
        if cut is not None:
            have = [length - cut.read + kept for length, kept in zip(have, cut.kept)]
            cache = cropped(cache, cut._replace(lengths=have))
        self._groups.append(_Group(mine, have, cache))

    def _take(self, wanted: Collection[int]) -> tuple[list[int], list[int], Cache]:
        """The rows' caches as one batch, with the rows in its order; they are held no more."""
        taken, self._groups = self._parted(wanted)
        rows = [row for group in taken for row in group.rows]
        lengths = [length for group in taken for length in group.lengths]
        return rows, lengths, taken[0].cache if len(taken) == 1 else joined([one.cache for one in taken], lengths)

    def _parted(self, wanted: Collection[int]) -> tuple[list[_Group], list[_Group]]:
        """The groups of some rows, and those of all others."""
        parts: tuple[list[_Group], list[_Group]] = ([], [])
        for group in self._groups:
            for part, inside in zip(parts, (True, False)):
                places = [place for place, row in enumerate(group.rows) if (row in wanted) is inside]
                if places:
                    part.append(group if len(places) == len(group.rows) else _part(group, places))
        return parts

    def _where(self, cache: Cache, lengths: list[int], width: int) -> dict[str, Tensor]:
        """Return where the tokens of each row stand: their positions, which some models miscount from their cache (Bamba), and, in
        rows of different lengths, whose keys are padded on the left, which of them are its own."""
        device = self._model.device
        steps = torch.arange(width, device=device)
        starts = torch.tensor(lengths, device=device)[:, None]
        where = {"position_ids": starts + steps if self._limit is None else (starts + steps).clamp(max=self._limit - 1)}
        longest = max(lengths)
        if has_keys(cache) and min(lengths) < longest:
            where["attention_mask"] = (torch.arange(longest + width, device=device) >= longest - starts).long()
        return {name: value for name, value in where.items() if name in self._model.takes}

    def _padded(self, rows: Sequence[list[int]], width: int) -> Tensor:
        """Tokens (B, width), padded on the right with tokens of their own, for which no model looks into its configuration."""
        return torch.tensor([[*row, *[row[-1]] * (width - len(row))] for row in rows], device=self._model.device)


def _part(group: _Group, places: list[int]) -> _Group:
    lengths = [group.lengths[place] for place in places]
    return _Group([group.rows[place] for place in places], lengths, selected(group.cache, places, lengths))
