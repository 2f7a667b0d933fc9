"""Rows of a run: labels by role, stages, mixtures, packing, and shards that are only a cache of them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role
from remedy.data_gen.window_examples import window_tokens, windows_of
from remedy.launch.generate import generate
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import CharacterSettings, SymbolSettings
from remedy.settings import UserError, build
from remedy.train.config import RunConfig, TrainSettings
from remedy.train.data import Collator, ShardDataset, TraceDataset, as_tokens, by_length, encode_rows
from remedy.train.run import build_rows

TEXT = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": [2, 5]}, "format": "repl"})
SYMBOLIC = DataConfig.model_validate(
    {"task": {"kind": "permutation", "n": 3, "length": [2, 5]}, "format": "symbolic", "reveal": {"spacing": 2}}
)
FRAMES = TEXT.changed({"format": "cwm"})
CHARS = build_tokenizer(CharacterSettings(), TEXT)
SYMBOLS = build_tokenizer(SymbolSettings(), SYMBOLIC)


@pytest.mark.parametrize("roles", [{Role.STATE}, {Role.ACTION, Role.STRUCTURE}])
def test_labels_are_exactly_the_tokens_of_the_supervised_roles(roles: set[Role]) -> None:
    rows = encode_rows(TEXT, CHARS, "train", range(5))
    batch = Collator(CHARS.pad_id, frozenset(roles))(rows)
    for i, row in enumerate(rows):
        size = len(row.ids)
        supervised = np.isin(row.roles, [int(r) for r in roles])
        assert batch["labels"][i, :size].tolist() == np.where(supervised, row.ids, -100).tolist()
        assert (batch["labels"][i, size:] == -100).all()
        assert (batch["input_ids"][i, size:] == CHARS.pad_id).all()
        assert int(batch["attention_mask"][i].sum()) == size


@pytest.mark.parametrize(
    ("multiple", "limit", "longest", "width"),
    [(1, None, 66, 66), (64, None, 66, 128), (64, None, 64, 64), (64, 100, 66, 100), (64, 10, 66, 66)],
)
def test_widths_are_a_multiple_within_the_models_limit(
    multiple: int, limit: int | None, longest: int, width: int
) -> None:
    assert Collator(0, frozenset(), multiple, limit).width(longest) == width


def run_of(data: DataConfig, mixture: dict[str, Any] | None = None, **train: Any) -> RunConfig:
    return build(RunConfig, {"data": data, "mixture": mixture or {}, "train": train})


def test_a_run_that_would_learn_nothing_is_refused() -> None:
    says = r"loss_roles \[value\]: no token of the first batch has such a role; its roles are context, structure, action, state, query"
    with pytest.raises(UserError, match=says):
        build_rows(run_of(SYMBOLIC, batch_size=2, loss_roles=["value"]), SYMBOLS)
    assert len(build_rows(run_of(SYMBOLIC, batch_size=2, max_steps=3, loss_roles=["query"]), SYMBOLS)) == 6


CURRICULUM: dict[str, Any] = {
    "batch_size": 4,
    "curriculum": [
        {"steps": 2, "set": {"task.length": 3, "reveal.spacing": 1}},
        {"steps": 3, "set": {"task.length": [4, 5], "reveal.spacing": 4}},
    ],
}


def test_stages_follow_one_another_by_rows() -> None:
    rows = TraceDataset(run_of(SYMBOLIC, **CURRICULUM), SYMBOLS)
    assert len(rows) == 20
    for stage, row in ((0, 0), (0, 7), (1, 8), (1, 19)):
        data = SYMBOLIC.changed(CURRICULUM["curriculum"][stage]["set"])
        expected = encode_rows(data, SYMBOLS, "train", [row])[0]
        assert rows[row].ids.tolist() == expected.ids.tolist()


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(20)))
def test_a_row_is_a_function_of_its_number(order: list[int]) -> None:
    rows = TraceDataset(run_of(SYMBOLIC, **CURRICULUM), SYMBOLS)
    together = rows.__getitems__(order)
    assert [r.ids.tolist() for r in together] == [rows[i].ids.tolist() for i in order]


def test_a_row_with_a_memory_is_a_window_on_its_example_that_has_something_to_learn() -> None:
    learnt = {"loss_roles": ["action"], "max_steps": 30, "batch_size": 4}
    rows = TraceDataset(run_of(SYMBOLIC.changed({"memory": 1}), **learnt), SYMBOLS)
    found = [rows[number] for number in range(120)]
    wholes = encode_rows(SYMBOLIC, SYMBOLS, "train", range(120))
    predicted: dict[int, list[int]] = {}
    for row, whole in zip(found, wholes):
        cuts = [window_tokens(whole, window) for window in windows_of(whole, Memory(frames=1), SYMBOLS.special_ids)]
        assert any(all((one == other).all() for one, other in zip(row, cut)) for cut in cuts if cut.size == row.size)
        assert Role.ACTION in row.roles[1:]
        count = len({*whole.frames.tolist()}) - 3  # frames of commands, without the context, the last state and the end
        frame = int(row.frames[row.roles == Role.ACTION][0])
        predicted.setdefault(count, []).append(frame)
    assert all({*frames} == {0, *range(2, count)} for count, frames in predicted.items())
    assert [row.ids.tolist() for row in rows.__getitems__([7, 3])] == [found[7].ids.tolist(), found[3].ids.tolist()]


def test_a_packed_batch_says_where_examples_begin_and_supervises_what_is_supervised_alone() -> None:
    rows = TraceDataset(run_of(TEXT, max_steps=2, batch_size=2, pack=3), CHARS).__getitems__([0, 1])
    collate = Collator(CHARS.pad_id, frozenset(Role))
    batch, alone = collate(rows), collate(encode_rows(TEXT, CHARS, "train", range(6)))
    assert "position_ids" not in alone
    assert (alone["labels"][:, 0] == -100).all()
    starts = batch["position_ids"] == 0
    read = batch["attention_mask"] == 1
    assert (starts & read).sum() == 6
    assert (batch["labels"][starts] == -100).all()
    assert (batch["labels"][:, 1:] != -100).sum() == (alone["labels"][:, 1:] != -100).sum()
    assert (batch["labels"][~read] == -100).all()
    assert int(batch["position_ids"].max()) < int(alone["attention_mask"].sum(1).max())


def write_shards(tmp_path: Path) -> Path:
    config = tmp_path / "data.yaml"
    config.write_text(
        "data: {task: {kind: permutation, n: 3, length: [2, 5]}}\n"
        "tokenizer: {kind: chars}\nwrite: {splits: {train: 25}, shard_size: 10}\n"
    )
    generate(str(config), [], tmp_path / "out", "0/1", 1)
    return tmp_path / "out"


def test_shards_are_only_a_cache(tmp_path: Path) -> None:
    """Of whole examples, whatever is to be seen of them."""
    out = write_shards(tmp_path)
    for memory in (None, 2, {"frames": 1, "open_calls": True}):
        config = run_of(FRAMES.changed({"memory": memory}), max_steps=10, batch_size=3)
        cached, made = ShardDataset(out, config.data, CHARS, config.train), TraceDataset(config, CHARS)
        for row in (0, 9, 10, 24):
            assert all((mine == other).all() for mine, other in zip(cached[row], made[row], strict=True))
        if memory is None:
            assert cached[25].ids.tolist() == made[0].ids.tolist()  # a second pass


def test_a_data_seed_reads_every_example_of_the_shards_once_and_one_shard_at_a_time(tmp_path: Path) -> None:
    out = write_shards(tmp_path)
    rows = ShardDataset(out, FRAMES, CHARS, run_of(FRAMES, data_seed=1).train)
    order = [rows.examples_of(row)[0].index for row in range(25)]
    assert sorted(order) == list(range(25))
    assert order != sorted(order)
    shards = [index // 10 for index in order]
    assert len([1 for before, after in pairwise(shards) if before != after]) == 2
    made = encode_rows(FRAMES, CHARS, "train", order)
    assert [rows[row].ids.tolist() for row in range(25)] == [row.ids.tolist() for row in made]


def test_missing_damaged_and_foreign_shards_are_named_before_training(tmp_path: Path) -> None:
    out = write_shards(tmp_path)
    path = out / "data" / "train-00001-of-00003.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"train-00001-of-00003\.parquet: is damaged"):
        ShardDataset(out, FRAMES, CHARS, TrainSettings())
    path.unlink()
    with pytest.raises(UserError, match=r"train-00001-of-00003\.parquet: is missing"):
        ShardDataset(out, FRAMES, CHARS, TrainSettings())
    with pytest.raises(UserError, match="another `data` section"):
        ShardDataset(out, SYMBOLIC, SYMBOLS, TrainSettings())
    with pytest.raises(UserError, match="another tokenizer"):
        ShardDataset(out, FRAMES, SYMBOLS, TrainSettings())
    with pytest.raises(UserError, match=r"manifest\.json"):
        ShardDataset(tmp_path, FRAMES, CHARS, TrainSettings())


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=4), st.sampled_from([1, 4]))
def test_the_rows_of_a_steps_pieces_are_dealt_by_length_and_none_is_lost(
    lengths: list[list[int]], multiple: int
) -> None:
    collate, number, pieces = Collator(0, frozenset({Role.STATE}), multiple), 0, []
    for piece in lengths:
        rows = []
        for length in piece:
            number += 1
            roles = [Role.CONTEXT, *[Role.STATE] * (length - 1)]
            rows.append(as_tokens([number] * length, roles, [0] * length, [False] * length))
        pieces.append(collate(rows))
    dealt = by_length(pieces, collate)
    assert [len(piece["labels"]) for piece in dealt] == [len(piece) for piece in lengths]

    def read(some: list[dict[str, Any]]) -> list[tuple[list[int], list[int]]]:
        found = []
        for piece in some:
            for ids, labels, mask in zip(piece["input_ids"], piece["labels"], piece["attention_mask"]):
                size = int(mask.sum())
                assert not ids[size:].any()
                assert (labels[size:] == -100).all()
                found.append((ids[:size].tolist(), labels[:size].tolist()))
        return found

    assert sorted(read(dealt)) == sorted(read(pieces))
    if len(pieces) > 1:
        sizes = [len(ids) for ids, _ in read(dealt)]
        assert sizes == sorted(sizes, reverse=True)
        for piece in dealt:
            assert piece["labels"].shape[1] == collate.width(int(piece["attention_mask"].sum(1).max()))
