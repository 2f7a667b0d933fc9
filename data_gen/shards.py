"""Parquet shards of examples, for `datasets.load_dataset` and for training.

A shard is a function of the configuration and its number, named when it is complete: processes share the work, and an
interrupted run continues.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
from pydantic import Field, model_validator
from typing_extensions import TypedDict

from remedy.checksums import (
    DamagedFile,
    damage_named,
    digest_of,
    foreign_table,
    read_json,
    read_table,
    write_json,
    write_table,
)
from remedy.data_gen.config import DataConfig
from remedy.data_gen.example_table import check_footer, check_tokens
from remedy.data_gen.splits import SPLITS, SplitName
from remedy.files import clear_partials
from remedy.owner import owned
from remedy.plugins import note_plugins, plugins_section
from remedy.processes import worker_pool
from remedy.settings import Settings, UserError, build
from remedy.speed import Speed, duration

log = logging.getLogger(__name__)
MANIFEST = "manifest.json"
CARD = "README.md"
MOST_SHARDS = 100_000
PIECE = 100
"""Examples made before the first report of progress; doubled while they take less than a second."""
QUIET = 10.0
"""Seconds between two lines of progress."""
_CURE = "run `remedy generate` again, which makes it anew"


Encoder = Callable[[str, Sequence[int]], pa.Table]
"""Makes a table of a split's examples at some indices."""


class WriteConfig(Settings):
    """Settings of a data set's size: examples of splits and shards."""

    splits: dict[SplitName, Annotated[int, Field(ge=0, le=1_000_000_000_000)]] = Field(
        default={"train": 10_000, "validation": 500, "test": 500}
    )
    """Examples of each split; of given programs, by default all."""
    shard_size: int = Field(default=1000, ge=1, le=1_000_000)
    """Examples of one shard."""

    @model_validator(mode="after")
    def _not_empty(self) -> WriteConfig:
        if not any(self.splits.values()):
            raise ValueError("splits have no examples: give one of them a number above 0")
        shards = sum(-(-count // self.shard_size) for count in self.splits.values())
        if shards > MOST_SHARDS:
            raise ValueError(
                f"splits have {shards:,} shards of {self.shard_size}; at most {MOST_SHARDS:,} are possible: raise shard_size"
            )
        return self


class _Data(TypedDict):
    format: str


class _Manifest(TypedDict):
    data: _Data
    data_hash: str
    tokenizer: str


class Shard(NamedTuple):
    """File of examples `start` to `stop` (exclusive) of a split."""

    split: str
    number: int
    of: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.split}-{self.number:05d}-of-{self.of:05d}.parquet"


def plan(config: WriteConfig) -> list[Shard]:
    shards = []
    for split in sorted(config.splits):
        count = config.splits[split]
        of = -(-count // config.shard_size)
        for number in range(of):
            start = number * config.shard_size
            shards.append(Shard(split, number, of, start, min(start + config.shard_size, count)))
    return shards


def write(
    data: DataConfig,
    config: WriteConfig,
    directory: Path,
    encode: Encoder,
    fingerprint: str,
    part: tuple[int, int] = (0, 1),
    workers: int = 1,
    overwrite: bool = False,
) -> Iterator[Shard]:
    """Write the missing and damaged shards, and yield each when it is complete.

    `part` (i, N): every N-th shard from the i-th. `encode` must be picklable if `workers` > 1. `overwrite`: delete shards
    of other configurations.

    Raises:
        UserError: the folder is another configuration's or tokenizer's, or damaged; another process writes this part; a
            worker was killed.
    """
    with owned(directory, "" if part[1] == 1 else f"-{part[0]}-of-{part[1]}"):
        data_set = _claim(data, config, directory, fingerprint, overwrite)
        folder = directory / "data"
        clear_partials(folder)
        todo = [shard for shard in plan(config)[part[0] :: part[1]] if not _is_done(directory, shard, data_set)]
        progress = _Progress(sum(shard.stop - shard.start for shard in todo))
        if workers > 1 and len(todo) > 1:
            yield from _written_by_workers(todo, folder, data_set, encode, workers, progress)
            return
        for shard in todo:
            write_shard(shard, folder, encode, data_set, progress.add)
            yield shard


class _Progress:
    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._speed, self._last_line = Speed(), time.monotonic()
        self._speed.rate(0)

    def add(self, made: int) -> None:
        self.look(self._done + made)

    def look(self, done: int) -> None:
        self._done = done
        if time.monotonic() - self._last_line < QUIET:
            return
        self._last_line = time.monotonic()
        rate, left = self._speed.rate(done), duration(self._speed.left(done, self._total))
        parts = [
            f"{done:,} of {self._total:,} examples",
            f"{rate:.3g} examples/s" if rate else "",
            f"{left} left" if left else "",
        ]
        log.info("%s", ", ".join(filter(None, parts)))


def _written_by_workers(
    todo: Sequence[Shard], folder: Path, data_set: str, encode: Encoder, workers: int, progress: _Progress
) -> Iterator[Shard]:
    made = multiprocessing.get_context("spawn").Value("q", 0)
    with worker_pool(workers, _start_worker, encode, made) as pool:
        pending = {pool.submit(_work, shard, folder, data_set): shard for shard in todo}
        while pending:
            for future in wait(pending, timeout=1, return_when=FIRST_COMPLETED).done:
                future.result()
                yield pending.pop(future)
            progress.look(made.value)


def write_shard(
    shard: Shard, folder: Path, encode: Encoder, data_set: str, made: Callable[[int], None] = lambda count: None
) -> None:
    """Make and write a shard.

    `data_set`: digest of the manifest. `made`: called with each number of new examples.
    """
    pieces, start, size = list[pa.Table](), shard.start, PIECE
    while start < shard.stop:
        began, piece = time.monotonic(), range(start, min(start + size, shard.stop))
        pieces.append(encode(shard.split, piece))
        made(len(piece))
        start, size = piece.stop, size * 2 if time.monotonic() - began < 1 else size
    write_table(folder / shard.name, pa.concat_tables(pieces).combine_chunks(), data_set)


def read_shard(directory: Path, shard: Shard, data_set: str, columns: list[str] | None = None) -> pa.Table:
    """Read a shard, or some of its columns; with an empty list its footer alone.

    Raises:
        DamagedFile: the file is missing, damaged or another data set's.
    """
    path, rows = directory / "data" / shard.name, shard.stop - shard.start
    table = read_table(path, _CURE, data_set, columns, lambda about: check_footer(about, rows))
    with damage_named(path, _CURE):
        check_tokens(table)
    return table


def _is_done(directory: Path, shard: Shard, data_set: str) -> bool:
    try:
        return (directory / "data" / shard.name).exists() and bool(read_shard(directory, shard, data_set))
    except DamagedFile as error:
        log.warning("%s", str(error).replace(_CURE, "made again"))
        return False


def read_example(directory: Path, split: str, index: int) -> dict[str, Any]:
    """Read one row; without a `split`, of the first one with examples.

    Raises:
        UserError: as `read_shard`; there is no such split or index.
    """
    manifest = read_manifest(directory)
    counts = {name: count for name, count in manifest["splits"].items() if count}
    split = split or next((name for name in SPLITS if name in counts), "")
    if index >= counts.get(split, 0):
        have = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise UserError(f"{directory}: has no example {index} of split {split}, counted from 0; there are {have}")
    shard = next(
        candidate
        for candidate in shards_of(manifest)
        if candidate.split == split and candidate.start <= index < candidate.stop
    )
    row: dict[str, Any]
    table = read_shard(directory, shard, digest_of(manifest))
    [row] = table.slice(index - shard.start, 1).to_pylist()
    return {"split": split, **row}


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read the manifest of a folder of shards.

    Raises:
        UserError: there is no readable one.
    """
    cure = "is this a folder of `remedy generate`? Delete the file and run it again, which keeps the shards that fit"
    manifest = read_json(path := directory / MANIFEST, cure, _Manifest)
    shards_of(manifest)
    note_plugins(manifest.get("plugins"), path)
    return manifest


def shards_of(manifest: Mapping[str, Any]) -> list[Shard]:
    """List the shards that a manifest names.

    Raises:
        ConfigError: it does not say how many.
    """
    return plan(build(WriteConfig, {key: manifest.get(key) for key in WriteConfig.model_fields}, MANIFEST))


def data_hash(data: DataConfig) -> str:
    """Hash what a data configuration writes: all but `memory`."""
    return hashlib.sha256(json.dumps(_written(data), sort_keys=True).encode()).hexdigest()[:16]


def _written(data: DataConfig) -> dict[str, Any]:
    return data.model_dump(mode="json", exclude={"memory"})


def _claim(data: DataConfig, config: WriteConfig, directory: Path, fingerprint: str, overwrite: bool) -> str:
    """Claim the folder for this data set; return its digest."""
    manifest = {
        "data": _written(data),
        "data_hash": data_hash(data),
        "tokenizer": fingerprint,
        "splits": dict(sorted(config.splits.items())),
        "shard_size": config.shard_size,
        **plugins_section(),
    }
    path, digest = directory / MANIFEST, digest_of(manifest)
    existing = read_manifest(directory) if path.exists() else {}
    if existing == manifest:
        return digest
    if other := foreign_table(directory / "data", digest):
        shards = sorted((directory / "data").glob("*.parquet"))
        differing = [key for key, value in existing.items() if value != manifest.get(key) and key != "data_hash"]
        differs = f" (it differs in {', '.join(differing)})" if differing else ""
        if not overwrite:
            raise UserError(
                f"{other}: is one of {len(shards)} shards of another data set{differs}: give --overwrite to replace them, or choose "
                "another --out"
            )
        for shard in [*shards, directory / CARD]:
            shard.unlink(missing_ok=True)
    write_json(path, manifest)
    return digest


_encode: Encoder
_made: Any


def _start_worker(encode: Encoder, made: Any) -> None:
    global _encode, _made
    _encode, _made = encode, made


def _work(shard: Shard, folder: Path, data_set: str) -> None:
    write_shard(shard, folder, _encode, data_set, _count)


def _count(made: int) -> None:
    with _made.get_lock():
        _made.value += made
