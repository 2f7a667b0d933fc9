"""Rows from example indices, made on the fly or read from shards, and their batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import Dataset

from remedy import rng
from remedy.checksums import digest_of
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import token_arrays
from remedy.data_gen.mixture import Mixture
from remedy.data_gen.roles import PAD_ROLE, Role, Special
from remedy.data_gen.shards import Shard, data_hash, read_manifest, read_shard, shards_of
from remedy.data_gen.tokens import Tokens
from remedy.data_gen.window_examples import drawn_window
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import UserError
from remedy.train.config import RunConfig, TrainSettings


@dataclass(frozen=True)
class RowExample:
    """One example of a row; `part` is its mixture part or ""."""

    part: str
    data: DataConfig
    index: int


def encode_rows(data: DataConfig, tokenizer: TraceTokenizer, split: str, indices: Sequence[int]) -> list[Tokens]:
    arrays = token_arrays(data, split, indices) if tokenizer.settings.kind == "symbols" else None
    if arrays is not None:
        # Permutation programs, which have no strings.
        return [
            Tokens(arrays.ids[i, :n], arrays.roles[i, :n], arrays.frames[i, :n], np.zeros(n, np.bool_), np.arange(n))
            for i, n in enumerate(arrays.lengths.tolist())
        ]
    encoded = encoded_examples(data, tokenizer, split, indices)
    return [as_tokens(*lists) for _, lists in encoded]


def as_tokens(ids: Sequence[int], roles: Sequence[int], frames: Sequence[int], strings: Sequence[bool]) -> Tokens:
    arrays = np.array(ids, np.int64), np.array(roles, np.int8), np.array(frames, np.int32), np.array(strings, np.bool_)
    return Tokens(*arrays, np.arange(len(ids)))


def row_of_example(
    tokens: Tokens, data: DataConfig, index: int, learnt: frozenset[Role], special_ids: Mapping[Special, int]
) -> Tokens:
    """Return an example, or with `data.memory` one window drawn by its index."""
    if data.memory is None:
        return tokens
    bits = rng.bits(rng.key(data.seed, rng.WINDOW, index), 0)
    return drawn_window(tokens, data.memory, np.array(sorted(learnt), np.int8), bits, special_ids)


class Rows(Dataset[Tokens]):
    """Dataset of a run's rows in training order; row i depends on i alone."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, row: int) -> Tokens:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        """Return a batch of rows, for the DataLoader."""
        raise NotImplementedError

    def examples_of(self, row: int) -> list[RowExample]:
        raise NotImplementedError

    def describe(self, rows: range) -> str:
        indices_by_part: dict[str, list[int]] = {}
        for example in (example for row in rows for example in self.examples_of(row)):
            indices_by_part.setdefault(example.part, []).append(example.index)
        return "; ".join(f"{part or 'train'} examples {ranges(indices)}" for part, indices in indices_by_part.items())


class TraceDataset(Rows):
    """Rows made on demand.

    The row number decides the curriculum stage, so that a run resumed on any number of processes reads the same rows.
    """

    def __init__(self, config: RunConfig, tokenizer: TraceTokenizer) -> None:
        self.tokenizer = tokenizer
        self.pack, self.supervised = config.train.pack, config.train.supervised()
        self.mixtures = [Mixture(data, config.mixture, config.train.data_seed) for data in config.stage_data()]
        self.ends = np.array(config.train.stage_ends()) * config.train.batch_size

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        numbers = self._examples(rows)
        stage_of = np.searchsorted(self.ends, np.asarray(rows), side="right").repeat(self.pack)
        examples: dict[int, Tokens] = {}
        # All examples of a source at once, since permutation programs are made as arrays.
        for stage in np.unique(stage_of):
            mixture, positions = self.mixtures[stage], np.flatnonzero(stage_of == stage)
            sources, indices = mixture.locate(numbers[positions])
            for number in np.unique(sources):
                chosen_here = sources == number
                data, chosen = mixture.sources[number].data, indices[chosen_here].tolist()
                special_ids = self.tokenizer.special_ids
                encoded = encode_rows(data, self.tokenizer, "train", chosen)
                new_examples = [
                    row_of_example(tokens, data, index, self.supervised, special_ids)
                    for tokens, index in zip(encoded, chosen)
                ]
                examples.update(zip(positions[chosen_here].tolist(), new_examples))
        return [joined([examples[i * self.pack + k] for k in range(self.pack)]) for i in range(len(rows))]

    def examples_of(self, row: int) -> list[RowExample]:
        mixture = self.mixtures[int(np.searchsorted(self.ends, row, side="right"))]
        sources, indices = mixture.locate(self._examples([row]))
        parts = [mixture.sources[number] for number in sources]
        return [RowExample(source.name, source.data, index) for source, index in zip(parts, indices.tolist())]

    def _examples(self, rows: Sequence[int]) -> npt.NDArray[np.int64]:
        return (np.asarray(rows, dtype=np.int64)[:, None] * self.pack + np.arange(self.pack)).reshape(-1)


def ranges(numbers: list[int]) -> str:
    """Write [3, 4, 5, 6, 7, 12] as `3 to 7, 12`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][-1:] = [number] if len(runs[-1]) > 1 else [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(map(str, run)) for run in runs)


def joined(rows: Sequence[Tokens]) -> Tokens:
    return Tokens(*(np.concatenate(arrays) for arrays in zip(*rows)))


def parted(row: Tokens) -> list[Tokens]:
    borders = np.flatnonzero(row.positions == 0)[1:]
    return [Tokens(*columns) for columns in zip(*(np.split(column, borders) for column in row))]


def padded(
    rows: Sequence[Tokens], pad_id: int, width: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """Pad rows on the right to ids and roles (B, T)."""
    width = width or max(len(row.ids) for row in rows)
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    roles = np.full((len(rows), width), PAD_ROLE, dtype=np.int8)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        roles[i, : len(row.roles)] = row.roles
    return ids, roles


def positions_of(rows: Sequence[Tokens], width: int) -> npt.NDArray[np.int64]:
    """Return each token's position in its own example (B, T)."""
    positions = np.zeros((len(rows), width), dtype=np.int64)
    for i, row in enumerate(rows):
        positions[i, : row.size] = row.positions
        # Padding is numbered like examples no longer than the row's: no position exceeds the model's limit.
        positions[i, row.size :] = np.arange(width - row.size) % (row.positions.max() + 1)
    return positions


class Collator:
    """Collator of rows to `input_ids`, `labels` and `attention_mask` (B, T).

    Labels are -100 where the role is not supervised and at each example's first token, which nothing precedes. Rows of
    several examples also get `position_ids` that restart with each example; with `weights` there are `loss_weights` (B,
    T), 0 without supervision. T is rounded up to `multiple`, at most to `limit`.
    """

    def __init__(
        self,
        pad_id: int,
        loss_roles: frozenset[Role],
        multiple: int = 1,
        limit: int | None = None,
        weights: Mapping[Role, float] | None = None,
    ) -> None:
        self.pad_id, self.multiple, self.limit = pad_id, multiple, limit
        self.roles = np.array(sorted(loss_roles), dtype=np.int8)
        self.weights = np.array([weights.get(role, 0) for role in Role], np.float32) if weights else None

    def __call__(self, rows: Sequence[Tokens]) -> dict[str, Tensor]:
        ids, roles = padded(rows, self.pad_id, self.width(max(row.size for row in rows)))
        labels = np.where(np.isin(roles, self.roles), ids, -100)
        # With some models, such as GPT-2, the Trainer would count a first token in the mean.
        labels[:, 0] = -100
        arrays = {"input_ids": ids, "labels": labels, "attention_mask": (roles != PAD_ROLE).astype(np.int64)}
        if any((row.positions[1:] == 0).any() for row in rows):
            positions = positions_of(rows, ids.shape[1])
            arrays |= {"labels": np.where(positions == 0, -100, labels), "position_ids": positions}
        if self.weights is not None:
            arrays["loss_weights"] = np.where(arrays["labels"] == -100, 0, self.weights[roles])
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def width(self, longest: int) -> int:
        rounded = -(-longest // self.multiple) * self.multiple
        return rounded if self.limit is None else max(longest, min(rounded, self.limit))


def example_lengths(batch: Mapping[str, Tensor]) -> list[int]:
    mask = batch["attention_mask"]
    positions = batch.get("position_ids", mask.cumsum(1) - 1)[mask.bool()]
    starts = (positions == 0).nonzero().squeeze(1)
    return cast(list[int], torch.diff(starts, append=starts.new_tensor([len(positions)])).tolist())


def by_length(pieces: Sequence[dict[str, Tensor]], collator: Collator) -> list[dict[str, Tensor]]:
    """Sort the rows of a step's pieces by length, longest first.

    The loss is a mean over all pieces, so only padding changes.
    """
    if len(pieces) < 2 or any("position_ids" in piece for piece in pieces):  # packed rows have little padding
        return list(pieces)
    width = max(piece["labels"].shape[1] for piece in pieces)
    empty = {"input_ids": collator.pad_id, "labels": -100}
    rows = {
        name: torch.cat(
            [pad(piece[name], (0, width - piece[name].shape[1]), value=empty.get(name, 0)) for piece in pieces]
        )
        for name in pieces[0]
    }
    lengths = rows["attention_mask"].sum(1)
    order = lengths.argsort(descending=True, stable=True)
    longest = lengths[order].tolist()
    sorted_pieces, first = [], 0
    for count in (len(piece["labels"]) for piece in pieces):
        numbers = order[first : first + count]
        sorted_pieces.append({name: row[numbers, : collator.width(longest[first])] for name, row in rows.items()})
        first += count
    return sorted_pieces


class ShardDataset(Rows):
    """Rows read from shards in index order, repeated in longer runs.

    With `train.data_seed`, shards and the examples in each are shuffled; one shard is read at a time.

    Raises:
        UserError: the shards have other data settings, another tokenizer or no train split.
        DamagedFile: a shard is missing or damaged; also when rows are read.
    """

    def __init__(self, directory: Path, data: DataConfig, tokenizer: TraceTokenizer, config: TrainSettings) -> None:
        manifest = read_manifest(directory)
        if manifest["data_hash"] != data_hash(data):
            raise UserError(f"shards: {directory} was generated from another `data` section than this run's")
        if manifest["tokenizer"] != tokenizer.fingerprint:
            raise UserError(f"shards: {directory} was generated with another tokenizer than this run's")
        train = [shard for shard in shards_of(manifest) if shard.split == "train"]
        if not train:
            raise UserError(f"shards: {directory} has no train split")
        self.directory, self.data_set = directory, digest_of(manifest)
        # All footers at once, so that a damaged file is found before training.
        for shard in train:
            read_shard(directory, shard, self.data_set, [])
        self.count, self.seed = manifest["splits"]["train"], config.data_seed
        self.shards = [train[number] for number in rng.permutation(self.seed, len(train))]
        self.ends = np.cumsum([shard.stop - shard.start for shard in self.shards])
        self.data, self.pack, self.supervised = data, config.pack, config.supervised()
        self.special_ids = tokenizer.special_ids
        self.rows = config.total_steps * config.batch_size

    def __len__(self) -> int:
        return self.rows

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        return [joined([self._example(row * self.pack + i) for i in range(self.pack)]) for row in rows]

    def examples_of(self, row: int) -> list[RowExample]:
        located = (self._locate(number) for number in range(row * self.pack, (row + 1) * self.pack))
        return [RowExample("", self.data, shard.start + index) for shard, index in located]

    def _example(self, number: int) -> Tokens:
        shard, index = self._locate(number)
        columns = _columns(self.directory, shard, self.data_set)
        tokens = as_tokens(*(column[index].as_py() for column in columns))
        return row_of_example(tokens, self.data, shard.start + index, self.supervised, self.special_ids)

    def _locate(self, number: int) -> tuple[Shard, int]:
        position = number % self.count
        turn = int(np.searchsorted(self.ends, position, side="right"))
        shard = self.shards[turn]
        size = shard.stop - shard.start
        return shard, int(_order(self.seed, size)[position - self.ends[turn] + size])


@lru_cache(maxsize=4)
def _order(seed: int, count: int) -> npt.NDArray[np.int64]:
    return rng.permutation(seed, count)


# Rows are read one by one: without a cache, each would read its whole shard.
@lru_cache(maxsize=4)
def _columns(directory: Path, shard: Shard, data_set: str) -> list[Any]:
    names = ["input_ids", "roles", "frames", "strings"]
    table = read_shard(directory, shard, data_set, names)
    return [table[name] for name in names]
