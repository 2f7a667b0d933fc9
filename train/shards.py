"""Rows from a folder of Parquet shards instead of made on the fly; the same rows, since shards are only a cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.sealed import digest_of
from remedy.data_gen.settings import UserError
from remedy.data_gen.shards import WriteConfig, data_hash, look_at_shard, plan, read_manifest, read_shard
from remedy.data_gen.tokens import Tokens
from remedy.models.tokenizer import TraceTokenizer
from remedy.train.config import TrainSettings
from remedy.train.data import Member, as_tokens, joined


class ShardDataset(Dataset[Tokens]):
    """Rows of a run read from shards in index order, over again when the run is longer than the data.

    Before a step is trained, all footers are looked at. The bytes of a shard are checked whenever it is read, which costs
    a small part of the reading; all at the start would take minutes for a large data set, in every process.

    Raises:
        UserError: the folder was made with another data configuration or tokenizer, or has no train split.
        ShardError: a shard is missing or damaged; also from reading rows.
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
            look_at_shard(path, self.data_set)
        self.count, self.shard_size = manifest["splits"]["train"], manifest["shard_size"]
        self.data, self.pack = data, config.pack
        self.rows = config.total_steps * config.batch_size

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> Tokens:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        return [joined([self._example(row * self.pack + i) for i in range(self.pack)]) for row in rows]

    def members(self, row: int) -> list[Member]:
        """The examples that a row joins."""
        return [Member("", self.data, (row * self.pack + i) % self.count) for i in range(self.pack)]

    def describe(self, rows: range) -> str:
        """Which examples a run of rows holds, in words."""
        first, end = rows.start * self.pack % self.count, rows.stop * self.pack
        return f"train examples {first} to {(end - 1) % self.count}"

    def _example(self, index: int) -> Tokens:
        shard, place = divmod(index % self.count, self.shard_size)
        return as_tokens(*(column[place].as_py() for column in _columns(self.paths[shard], self.data_set)))


@lru_cache(maxsize=4)
def _columns(path: Path, data_set: str) -> list[Any]:
    names = ["input_ids", "roles", "frames", "strings"]
    table = read_shard(path, data_set, names)
    return [table[name] for name in names]
