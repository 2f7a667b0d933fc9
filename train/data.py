"""From example indices to batches: which example a row holds, made on the fly or read from shards, which are only a cache, and which of
its tokens are supervised."""

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
class Member:
    """One example of a row: the part of the mixture that it comes from (empty without a mixture), that part's data, its index."""

    part: str
    data: DataConfig
    index: int


def encode_rows(data: DataConfig, tokenizer: TraceTokenizer, split: str, indices: Sequence[int]) -> list[Tokens]:
    """The examples at the indices as arrays of tokens."""
    arrays = token_arrays(data, split, indices) if tokenizer.settings.kind == "symbols" else None
    if arrays is not None:
        # Of permutations alone, which have no strings.
        return [
            Tokens(arrays.ids[i, :n], arrays.roles[i, :n], arrays.frames[i, :n], np.zeros(n, np.bool_), np.arange(n))
            for i, n in enumerate(arrays.lengths.tolist())
        ]
    encoded = encoded_examples(data, tokenizer, split, indices)
    return [as_tokens(*lists) for _, lists in encoded]


def as_tokens(ids: Sequence[int], roles: Sequence[int], frames: Sequence[int], strings: Sequence[bool]) -> Tokens:
    """An example's lists as arrays."""
    arrays = np.array(ids, np.int64), np.array(roles, np.int8), np.array(frames, np.int32), np.array(strings, np.bool_)
    return Tokens(*arrays, np.arange(len(ids)))


def trained_on(
    tokens: Tokens, data: DataConfig, index: int, learnt: frozenset[Role], special_ids: Mapping[Special, int]
) -> Tokens:
    """Cut from an example what a row holds: all of it, or with `data.memory` one window, a function of the example's index."""
    if data.memory is None:
        return tokens
    bits = rng.bits(rng.key(data.seed, rng.WINDOW, index), 0)
    return drawn_window(tokens, data.memory, np.array(sorted(learnt), np.int8), bits, special_ids)


class Rows(Dataset[Tokens]):
    """The rows of a run in training order: row i is a function of i alone, whatever process asks."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, row: int) -> Tokens:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        """A batch of rows at once; the DataLoader calls this."""
        raise NotImplementedError

    def members(self, row: int) -> list[Member]:
        """The examples that a row joins."""
        raise NotImplementedError

    def describe(self, rows: range) -> str:
        """Name the examples of a run of rows."""
        found: dict[str, list[int]] = {}
        for member in (member for row in rows for member in self.members(row)):
            found.setdefault(member.part, []).append(member.index)
        return "; ".join(f"{part or 'train'} examples {ranges(indices)}" for part, indices in found.items())


class TraceDataset(Rows):
    """Rows that are made when they are asked for.

    The curriculum's stages follow one another by rows, so that a run resumed at any step, on any number of processes,
    reads what it would have read.
    """

    def __init__(self, config: RunConfig, tokenizer: TraceTokenizer) -> None:
        self.tokenizer = tokenizer
        self.pack, self.learnt = config.train.pack, config.train.supervised()
        self.mixtures = [Mixture(data, config.mixture, config.train.data_seed) for data in config.stage_data()]
        self.ends = np.array(config.train.stage_ends()) * config.train.batch_size

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitems__(self, rows: Sequence[int]) -> list[Tokens]:
        numbers = self._examples(rows)
        stage_of = np.searchsorted(self.ends, np.asarray(rows), side="right").repeat(self.pack)
        found: dict[int, Tokens] = {}
        for stage in np.unique(stage_of):
            mixture, here = self.mixtures[stage], np.flatnonzero(stage_of == stage)
            sources, indices = mixture.locate(numbers[here])
            for number in np.unique(sources):
                mine = sources == number
                data, chosen = mixture.sources[number].data, indices[mine].tolist()
                special_ids = self.tokenizer.special_ids
                encoded = encode_rows(data, self.tokenizer, "train", chosen)
                read = [
                    trained_on(tokens, data, index, self.learnt, special_ids) for tokens, index in zip(encoded, chosen)
                ]
                found.update(zip(here[mine].tolist(), read))
        return [joined([found[i * self.pack + k] for k in range(self.pack)]) for i in range(len(rows))]

    def members(self, row: int) -> list[Member]:
        mixture = self.mixtures[int(np.searchsorted(self.ends, row, side="right"))]
        sources, indices = mixture.locate(self._examples([row]))
        chosen = [mixture.sources[number] for number in sources]
        return [Member(source.name, source.data, index) for source, index in zip(chosen, indices.tolist())]

    def _examples(self, rows: Sequence[int]) -> npt.NDArray[np.int64]:
        return (np.asarray(rows, dtype=np.int64)[:, None] * self.pack + np.arange(self.pack)).reshape(-1)


def ranges(numbers: list[int]) -> str:
    """`3 to 7, 12` for [3, 4, 5, 6, 7, 12]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][-1:] = [number] if len(runs[-1]) > 1 else [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(map(str, run)) for run in runs)


def joined(rows: Sequence[Tokens]) -> Tokens:
    """Examples one after another in one row."""
    return Tokens(*(np.concatenate(arrays) for arrays in zip(*rows)))


def parted(row: Tokens) -> list[Tokens]:
    """The examples of a row, each by itself."""
    borders = np.flatnonzero(row.positions == 0)[1:]
    return [Tokens(*columns) for columns in zip(*(np.split(column, borders) for column in row))]


def padded(
    rows: Sequence[Tokens], pad_id: int, width: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """Rows as arrays of ids and roles (B, T), padded on the right to a width, by default that of the longest."""
    width = width or max(len(row.ids) for row in rows)
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    roles = np.full((len(rows), width), PAD_ROLE, dtype=np.int8)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        roles[i, : len(row.roles)] = row.roles
    return ids, roles


def positions_of(rows: Sequence[Tokens], width: int) -> npt.NDArray[np.int64]:
    """The place of each token in its own example (B, T). Padding counts as examples no longer than those of its row, so that a model
    with a limit on positions does not meet it there."""
    found = np.zeros((len(rows), width), dtype=np.int64)
    for i, row in enumerate(rows):
        found[i, : row.size] = row.positions
        found[i, row.size :] = np.arange(width - row.size) % (row.positions.max() + 1)
    return found


class Collator:
    """Rows to tensors: `input_ids`, `labels` (-100 where a token's role is not supervised), `attention_mask`; (B, T). With `weights`
    of roles also `loss_weights` (B, T), 0 where nothing is supervised.

    An example's first token is not supervised: nothing precedes it. (Of some models, such as GPT-2, the Trainer would count it among
    the tokens that a loss is the mean of.) Where rows hold several examples there are `position_ids` besides, which begin again with
    each example. T is rounded up to a multiple, but not beyond the model's limit.
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
        labels[:, 0] = -100
        arrays = {"input_ids": ids, "labels": labels, "attention_mask": (roles != PAD_ROLE).astype(np.int64)}
        if any((row.positions[1:] == 0).any() for row in rows):
            positions = positions_of(rows, ids.shape[1])
            arrays |= {"labels": np.where(positions == 0, -100, labels), "position_ids": positions}
        if self.weights is not None:
            arrays["loss_weights"] = np.where(arrays["labels"] == -100, 0, self.weights[roles])
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def width(self, longest: int) -> int:
        """Round a number of tokens up."""
        rounded = -(-longest // self.multiple) * self.multiple
        return rounded if self.limit is None else max(longest, min(rounded, self.limit))


def example_lengths(batch: Mapping[str, Tensor]) -> list[int]:
    """Count the tokens of each example of a collated batch, without padding."""
    mask = batch["attention_mask"]
    places = batch.get("position_ids", mask.cumsum(1) - 1)[mask.bool()]
    starts = (places == 0).nonzero().squeeze(1)
    return cast(list[int], torch.diff(starts, append=starts.new_tensor([len(places)])).tolist())


def by_length(pieces: Sequence[dict[str, Tensor]], collator: Collator) -> list[dict[str, Tensor]]:
    """The rows of an optimizer step's pieces in pieces of like lengths, the longest in the first, each padded as the collator does.

    A step's loss is the mean over the tokens of all its pieces, so that nothing else changes. Pieces of packed rows, which have little
    padding, stay as they are.
    """
    if len(pieces) < 2 or any("position_ids" in piece for piece in pieces):
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
    found, first = [], 0
    for count in (len(piece["labels"]) for piece in pieces):
        chosen = order[first : first + count]
        found.append({name: row[chosen, : collator.width(longest[first])] for name, row in rows.items()})
        first += count
    return found


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
        train = [shard for shard in shards_of(manifest) if shard.split == "train"]
        if not train:
            raise UserError(f"shards: {directory} has no train split")
        self.directory, self.shards, self.data_set = directory, train, digest_of(manifest)
        for shard in train:
            read_shard(directory, shard, self.data_set, [])
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
        columns = _columns(self.directory, self.shards[self.order[turn]], self.data_set)
        whole = as_tokens(*(column[place].as_py() for column in columns))
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
def _columns(directory: Path, shard: Shard, data_set: str) -> list[Any]:
    names = ["input_ids", "roles", "frames", "strings"]
    table = read_shard(directory, shard, data_set, names)
    return [table[name] for name in names]
