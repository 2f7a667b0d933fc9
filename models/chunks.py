"""Reads several tokens of a row at once, the last of them guesses, and forgets those guesses that were wrong.

Rows are numbered by whoever reads. What a row's state holds is told by `held`; the rest of its sequence has to be read again: a model
whose state cannot be cut back is given the one from before the guesses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from remedy.models.batching import Cut, copied, cropped, joined, selected
from remedy.models.devices import input_device
from remedy.models.states import State, StateKeeper, has_keys

PROBE = 12
"""Tokens at the end of a sequence that are read in chunks to find out whether a model can."""


class Form(StrEnum):
    """How a model goes on from where sequences stand."""

    TOGETHER = "together"
    ALONE = "alone"
    WHOLE = "whole"


class Rewind(StrEnum):
    """How a model forgets tokens that it has read."""

    CROP = "crop"
    """They are cut off its keys and values: rows may read chunks of different lengths, and keep different parts of them."""
    COPY = "copy"
    """It goes back to a copy of its state, and reads again what stays: chunks of a batch are of one length."""
    NEVER = "never"
    """From a state it reads one token at a time alone: guesses are read with all that is before them."""


class Chunk(NamedTuple):
    """What a row reads next, of which the last `guesses` tokens may have to be forgotten."""

    tokens: list[int]
    guesses: int


class _Held(NamedTuple):
    """Rows whose states are one batch, and how many tokens each has read."""

    rows: list[int]
    lengths: list[int]
    state: State


class _Open(NamedTuple):
    """A call that was made and whose guesses are not judged yet: its rows, the tokens of each row before and in it, how many places
    it took, and the states after and before it."""

    rows: list[int]
    lengths: list[int]
    reads: list[int]
    width: int
    after: State | None
    before: State | None


class ChunkReader:
    """Rows that read on by chunks. `extend` is followed by `keep` for the same rows."""

    def __init__(self, keeper: StateKeeper, form: Form, rewind: Rewind, limit: int | None = None) -> None:
        """`limit`: places in a table of positions, if there is one."""
        self.form = form
        self.rewind = rewind
        self._keeper = keeper
        self._limit = limit
        self._device = input_device(keeper.model)
        self._groups: list[_Held] = []
        self._marked: dict[int, _Held] = {}
        self._open: _Open | None = None

    def held(self, row: int) -> int:
        """How many tokens of a row its state holds: what follows them is read next."""
        return next((group.lengths[group.rows.index(row)] for group in self._groups if row in group.rows), 0)

    def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, Tensor]:
        """Read a chunk of each row, in one call: for each, logits (guesses + 1, V) after the token before the first guess and after
        every guess. Rows have all read something, or all nothing. Of different lengths from a state: with `Rewind.CROP` alone."""
        rows = list(chunks)
        lengths = [self.held(row) for row in rows]
        fresh = not any(lengths)
        reads = [len(chunks[row].tokens) for row in rows]
        width, uneven = max(reads), len(set(reads)) > 1
        keep = width - min(read - chunks[row].guesses - 1 for row, read in zip(rows, reads))
        state = before = None
        self._keeper.recording = self.rewind is Rewind.CROP
        if fresh and self._stateless(len(rows), uneven):
            logits = self._keeper.parallel(self._padded([chunks[row].tokens for row in rows], width), keep)
        else:
            if not fresh:
                rows, lengths, state = self._take(rows)
                reads = [len(chunks[row].tokens) for row in rows]
            before = state if any(chunk.guesses for chunk in chunks.values()) and self.rewind is Rewind.COPY else None
            tokens = self._padded([chunks[row].tokens for row in rows], width)
            where = self._where(state, lengths, width) if state is not None else {}
            logits, state = self._keeper.read(tokens, copied(before) if before is not None else state, keep, **where)
        self._keeper.recording = False
        self._open = _Open(rows, lengths, reads, width, state, before)
        first = [keep - width + read - chunks[row].guesses - 1 for row, read in zip(rows, reads)]
        return {
            row: logits[at, start : start + chunks[row].guesses + 1] for at, (row, start) in enumerate(zip(rows, first))
        }

    def step(self, tokens: Mapping[int, int]) -> tuple[list[int], Tensor]:
        """Read one token of each row, all of which have read something, and keep it: the rows in some order, and logits (B, V) after
        their tokens. What `extend` and `keep` do, without guesses, and with less for each row."""
        rows, lengths, state = self._take(tokens)
        self._keeper.recording = self.rewind is Rewind.CROP
        where = self._where(state, lengths, 1)
        logits, state = self._keeper.read(self._padded([[tokens[row]] for row in rows], 1), state, 1, **where)
        self._keeper.recording = False
        lengths = [length + 1 for length in lengths]
        if self.rewind is Rewind.CROP:
            state = cropped(state, Cut(1, [1] * len(rows), lengths))
        self._groups.append(_Held(rows, lengths, state))
        return rows, logits[:, -1]

    def keep(self, kept: Mapping[int, int]) -> None:
        """How many tokens of its chunk stay of each row that was just extended; a row that is not named is done with."""
        assert self._open is not None
        rows, lengths, reads, width, after, before = self._open
        self._open = None
        if after is None:
            return
        places = [place for place, row in enumerate(rows) if row in kept]
        if self.rewind is Rewind.CROP:
            if places:
                self._hold(
                    after,
                    rows,
                    [length + width for length in lengths],
                    places,
                    Cut(width, [kept[rows[p]] for p in places], []),
                )
            return
        whole = [place for place in places if kept[rows[place]] == reads[place]]
        rest = [place for place in places if kept[rows[place]] < reads[place]]
        if whole:
            self._hold(after, rows, [length + read for length, read in zip(lengths, reads)], whole)
        if rest and before is not None:
            self._hold(before, rows, lengths, rest)

    @property
    def marks(self) -> bool:
        """Whether a row can go on from where it was marked: it has a state, from which it reads several tokens at once."""
        return self.form is not Form.WHOLE and self.rewind is not Rewind.NEVER

    def mark(self, row: int) -> None:
        """Keep a copy of a row's state as it is now, for `back`; the first time alone."""
        if row in self._marked:
            return
        group = next(group for group in self._groups if row in group.rows)
        self._marked[row] = _part(group, [group.rows.index(row)])

    def back(self, rows: Collection[int]) -> None:
        """Rows hold what they held when they were marked; nothing, where they were not."""
        self._drop(rows)
        marked = [self._marked[row] for row in rows if row in self._marked]
        self._groups += [one._replace(state=copied(one.state)) for one in marked]

    def forget(self, rows: Collection[int]) -> None:
        """Let the states of rows go, marked ones too: they read no more."""
        self._drop(rows)
        for row in rows:
            self._marked.pop(row, None)

    def _drop(self, rows: Collection[int]) -> None:
        left = []
        for group in self._groups:
            places = [place for place, row in enumerate(group.rows) if row not in rows]
            if places:
                left.append(group if len(places) == len(group.rows) else _part(group, places))
        self._groups = left

    def _hold(
        self, state: State, rows: list[int], lengths: list[int], places: list[int], cut: Cut | None = None
    ) -> None:
        """Keep the state of some rows of a batch."""
        mine, have = [rows[place] for place in places], [lengths[place] for place in places]
        if len(mine) < len(rows):
            state = selected(state, places, have)
        if cut is not None:
            have = [length - cut.read + kept for length, kept in zip(have, cut.kept)]
            state = cropped(state, cut._replace(lengths=have))
        self._groups.append(_Held(mine, have, state))

    def _take(self, wanted: Collection[int]) -> tuple[list[int], list[int], State]:
        """The rows' states as one batch, with the rows in its order; they are held no more."""
        taken: list[_Held] = []
        left: list[_Held] = []
        for group in self._groups:
            inside = [place for place, row in enumerate(group.rows) if row in wanted]
            outside = [place for place, row in enumerate(group.rows) if row not in wanted]
            for places, into in ((inside, taken), (outside, left)):
                if places:
                    into.append(group if len(places) == len(group.rows) else _part(group, places))
        self._groups = left
        rows = [row for group in taken for row in group.rows]
        lengths = [length for group in taken for length in group.lengths]
        return rows, lengths, taken[0].state if len(taken) == 1 else joined([one.state for one in taken], lengths)

    def _stateless(self, rows: int, uneven: bool) -> bool:
        """Whether rows that have read nothing are read without a state to go on from, since none could be kept."""
        if self.form is Form.WHOLE:
            return True
        return rows > 1 and (self.form is Form.ALONE or (uneven and self.rewind is not Rewind.CROP))

    def _where(self, state: State, lengths: list[int], width: int) -> dict[str, Tensor]:
        """Where the tokens of each row stand: their positions, which some models miscount from their state (Bamba), and, in rows of
        different lengths, whose keys are padded on the left, which of them are its own."""
        steps = torch.arange(width, device=self._device)
        starts = torch.tensor(lengths, device=self._device)[:, None]
        where = {"position_ids": starts + steps if self._limit is None else (starts + steps).clamp(max=self._limit - 1)}
        longest = max(lengths)
        if has_keys(state) and min(lengths) < longest:
            where["attention_mask"] = (torch.arange(longest + width, device=self._device) >= longest - starts).long()
        return {name: value for name, value in where.items() if name in self._keeper.takes}

    def _padded(self, rows: Sequence[list[int]], width: int) -> Tensor:
        """Tokens (B, width), padded on the right with tokens of their own, for which no model looks into its configuration."""
        return torch.tensor([[*row, *[row[-1]] * (width - len(row))] for row in rows], device=self._device)


def probe(reader: ChunkReader, sequences: Sequence[list[int]]) -> list[Tensor]:
    """Read sequences of more than `PROBE` tokens, some of them wrong guesses: of each, logits (PROBE, V) after its last ones.

    Raises:
        CannotJoin: states of this kind cannot be cut or joined. What a model raises that cannot read so, it raises here, too.
    """
    rows = range(len(sequences))
    for row in rows:
        reader.extend({row: Chunk(sequences[row][:-PROBE], 0)})
        reader.keep({row: len(sequences[row]) - PROBE})
    calls = [[row] for row in rows] if reader.form is Form.ALONE else [list(rows)]
    found: list[list[Tensor]] = [[] for _ in rows]
    for call in calls:
        right = {row: PROBE // 2 - (row if reader.rewind is Rewind.CROP else 0) for row in call}
        chunks = {}
        for row in call:
            true = sequences[row][-PROBE:][: right[row]]
            chunks[row] = Chunk([*true, true[0], true[0]], right[row] + 1)
        for row, logits in reader.extend(chunks).items():
            found[row].append(logits[: right[row]])
        reader.keep(right)
        chunks = {}
        for row in call:
            tokens = sequences[row][reader.held(row) :]
            chunks[row] = Chunk(tokens, PROBE - right[row] - 1)
        for row, logits in reader.extend(chunks).items():
            found[row].append(logits)
        reader.keep({})
    return [torch.cat(parts) for parts in found]


def _part(group: _Held, places: list[int]) -> _Held:
    lengths = [group.lengths[place] for place in places]
    return _Held([group.rows[place] for place in places], lengths, selected(group.state, places, lengths))
