"""Rows from a folder of Parquet shards instead of made on the fly; the same rows, since shards are only a cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from remedy import rng
from remedy.checksums import digest_of
from remedy.data_gen.config import DataConfig
from remedy.data_gen.shards import WriteConfig, data_hash, plan, read_manifest, read_shard
from remedy.data_gen.tokens import Tokens
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import UserError
from remedy.train.config import TrainSettings
from remedy.train.data import Member, Rows, as_tokens, joined, trained_on


class ShardDataset(Rows):
    """Rows of a run read from shards in index order, over again when the run is longer than the data.

    `train.data_seed` chooses another order: of the shards, and of the examples in each, so that one is read through at a time.

    Before a step is trained, all footers are looked at. The pages of a shard are checked whenever it is read, which costs
    a small part of the reading; all at the start would take minutes for a large data set, in every process.

    Raises:
        UserError: the folder was made with another data configuration or tokenizer, or has no train split.
        DamagedFile: a shard is missing or damaged; also from reading rows.
    """

    def __init__(self, directory: Path, data: DataConfig, tokenizer: TraceTokenizer, config: TrainSettings) -> None:
        manifest = read_manifest(directory)
        if manifest["data_hash"] != data_hash(data):
            raise UserError(f"shards: {directory} was generated from another `data` section than this run's")
        if manifest["tokenizer"] != tokenizer.fingerprint:
            raise UserError(f"shards: {directory} was generated with another tokenizer than this run's")
        written = WriteConfig(splits=manifest["splits"], shard_size=manifest["shard_size"])
        train = [shard for shard in plan(written) if shard.split == "train"]
        if not train:
            raise UserError(f"shards: {directory} has no train split")
        self.paths = [directory / "data" / shard.name for shard in train]
        self.data_set = digest_of(manifest)
        for path in self.paths:
            read_shard(path, self.data_set, [])
        self.count, self.seed = manifest["splits"]["train"], config.data_seed
        self.order = rng.permutation(self.seed, len(train))
        sizes = np.array([shard.stop - shard.start for shard in train])[self.order]
        self.ends = np.cumsum(sizes)
        self.starts: list[int] = [train[number].start for number in self.order]
        self.data, self.pack, self.learnt = data, config.pack, config.supervised()
        self.special_ids = tokenizer.special_ids
        self.rows = config.total_steps * config.batch_size

    def __len__(self) -> int:
        return self.rows

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        return [joined([self._example(row * self.pack + i) for i in range(self.pack)]) for row in rows]

    def members(self, row: int) -> list[Member]:
        numbers = range(row * self.pack, (row + 1) * self.pack)
        return [Member("", self.data, self.starts[turn] + place) for turn, place in map(self._place, numbers)]

    def _example(self, number: int) -> Tokens:
        turn, place = self._place(number)
        whole = as_tokens(*(column[place].as_py() for column in _columns(self.paths[self.order[turn]], self.data_set)))
        return trained_on(whole, self.data, self.starts[turn] + place, self.learnt, self.special_ids)

    def _place(self, number: int) -> tuple[int, int]:
        """Find the shard at a position of the data, and the place in that shard."""
        position = number % self.count
        turn = int(np.searchsorted(self.ends, position, side="right"))
        begin = int(self.ends[turn - 1]) if turn else 0
        return turn, int(_order(self.seed, int(self.ends[turn]) - begin)[position - begin])


@lru_cache(maxsize=4)
def _order(seed: int, count: int) -> npt.NDArray[np.int64]:
    return rng.permutation(seed, count)


@lru_cache(maxsize=4)
def _columns(path: Path, data_set: str) -> list[Any]:
    names = ["input_ids", "roles", "frames", "strings"]
    table = read_shard(path, data_set, names)
    return [table[name] for name in names]
