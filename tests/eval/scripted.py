"""Models that are a function of what a row has read, and what a generator makes of them."""

import math
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from remedy.data_gen.memory import Memory
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import ACTION_FORCED, FREE, LINE_FORCED, STATE_FORCED
from remedy.eval.generators.base import ModelOutput
from remedy.eval.generators.speculative import LocalGenerator
from remedy.models.cache import Footprint
from remedy.models.chunks import Chunk, Kind
from remedy.models.reader import Departure
from remedy.models.tokenizer import Encoded, TraceTokenizer

FORCED = {"free": FREE, "line": LINE_FORCED, "action": ACTION_FORCED, "state": STATE_FORCED}
MEMORIES = (None, None, Memory(frames=1), Memory(frames=2), Memory(frames=1, open_calls=True))
Next = Callable[[list[int]], int]


class Scripted:
    """Stands for a model that is a function of what a row has read, and its reader: by steps, and by chunks as its kind says."""

    name = "scripted"
    context = None
    footprint = Footprint(1.0, 1.0)
    overhead = 12.0
    together = 0

    def __init__(self, following: Next, vocabulary: int, kind: Kind = Kind.CROP, limit: int | None = None):
        self.following, self.vocabulary, self.kind, self.limit = following, vocabulary, kind, limit
        self.departure = Departure()
        self.memory = math.inf
        self.calls = 0
        self.rows: list[int] = []
        self.read: list[list[int]] = []
        self.states: dict[int, list[int]] = {}
        self.marked: dict[int, list[int]] = {}
        self.open: Mapping[int, Chunk] = {}

    def prefill(self, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
        self.read = [list(prompt) for prompt in prompts]
        return self.step([None] * len(prompts))

    def step(self, tokens: Sequence[int | None]) -> torch.Tensor:
        self.calls += 1
        for row, token in zip(self.read, tokens):
            row += [] if token is None else [token]
        done = torch.zeros(self.vocabulary)
        begins = self.read and all(token is None for token in tokens)
        return torch.stack(
            [self.logits(row) if begins or token is not None else done for row, token in zip(self.read, tokens)]
        )

    def parallel(self, sequences: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
        for read in sequences:
            yield torch.stack([self.logits(list(read[: end + 1])) for end in range(len(read))])

    def available(self) -> float:
        return self.memory

    def chunks(self) -> "Scripted":
        self.states, self.marked = {}, {}
        return self

    def held(self, row: int) -> int:
        return len(self.states.get(row, ()))

    def extend(self, chunks: Mapping[int, Chunk]) -> dict[int, torch.Tensor]:
        self.calls += 1
        self.open = chunks
        assert len({self.held(row) > 0 for row in chunks}) == 1
        self.together = max(self.together, len(chunks))
        self.rows.append(len(chunks))
        lengths = {len(chunk.tokens) for chunk in chunks.values()}
        if any(map(self.held, chunks)):
            assert self.kind is Kind.CROP or len(lengths) == 1
        found = {}
        for row, (tokens, guesses) in chunks.items():
            read = [*self.states.get(row, ()), *tokens]
            assert guesses < len(tokens)
            assert self.limit is None or len(read) <= self.limit
            ends = range(len(read) - guesses, len(read) + 1)
            found[row] = torch.stack([self.logits(read[:end]) for end in ends])
        return found

    def mark(self, row: int) -> None:
        self.marked.setdefault(row, self.states[row])

    def back(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.states.pop(row, None)
        self.states |= {row: self.marked[row] for row in rows if row in self.marked}

    def forget(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.states.pop(row, None)
            self.marked.pop(row, None)

    def keep(self, kept: Mapping[int, int]) -> None:
        uneven = len({len(chunk.tokens) for chunk in self.open.values()}) > 1
        for row, chunk in self.open.items():
            before = self.states.pop(row, [])
            if row not in kept:
                continue
            assert 0 <= kept[row] <= len(chunk.tokens)
            if self.kind is Kind.PLAIN:
                continue
            whole = kept[row] == len(chunk.tokens) and not uneven
            if whole or self.kind is Kind.CROP:
                self.states[row] = [*before, *chunk.tokens[: kept[row]]]
            elif before:
                self.states[row] = before

    def logits(self, read: list[int]) -> torch.Tensor:
        return torch.zeros(self.vocabulary).index_fill(0, torch.tensor([self.following(read)]), 9.0)


def drafting(reader: Any, tokenizer: TraceTokenizer, batch_size: int) -> LocalGenerator:
    """A generator over a reader that is there already."""
    return LocalGenerator(reader, tokenizer, batch_size)


def runs(written: Sequence[ModelOutput]) -> list[list[Generated]]:
    return [[run._replace(logprobs=[]) for run in one.runs] for one in written]


def erring(truths: Sequence[Encoded], vocabulary: int, seed: int, rate: float, context: int) -> Next:
    """A model that goes on as the truth does where a row has come to, but for a share of its tokens, in places that depend on the last
    `context` tokens, where it skips one, repeats one, or writes any token there is."""

    def following(read: list[int]) -> int:
        truth = max(truths, key=lambda one: _agreeing(one.ids[:60], read[:60]))
        key = zlib.crc32(repr((seed, read[-context:])).encode())
        chance = random.Random(key)
        place = len(read)
        if chance.random() < rate:
            kind = chance.randrange(4)
            if kind == 0:
                return chance.randrange(vocabulary)
            place += (1, -1, 5)[kind - 1]
        elif context % 2:  # where the last tokens stood in the truth, wherever that is
            last = read[-2:]
            found = [at for at in range(2, len(truth.ids)) if list(truth.ids[at - 2 : at]) == last]
            place = min(found, key=lambda at: abs(at - place), default=place)
        return truth.ids[place] if 0 <= place < len(truth.ids) else chance.randrange(vocabulary)

    return following


def _agreeing(ids: Sequence[int], read: Sequence[int]) -> int:
    return next((at for at, (one, other) in enumerate(zip(ids, read)) if one != other), len(read))
