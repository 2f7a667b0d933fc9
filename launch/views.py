"""Views that `remedy show` shows: an example of a configuration or a data set, or a row of training."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from pathlib import Path

from remedy.data_gen.shards import read_example
from remedy.data_gen.splits import SPLITS
from remedy.data_gen.window_examples import windows
from remedy.eval.view.model import Part, View, blocks_of, tokens_of
from remedy.launch.generate import GenerateConfig
from remedy.messages import suggest
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer import load as load_tokenizer
from remedy.settings import ConfigError, apply_changes, load, parse_overrides, read_yaml, resolve
from remedy.train.config import RunConfig, TrainSettings


def data_set_view(folder: Path, index: int, split: str) -> View:
    """One example of a data set, as its shard holds it; supervised is what runs train on by default.

    Raises:
        UserError: there is no such example, or a file is missing or damaged.
    """
    row, tokenizer = read_example(folder, split, index), load_tokenizer(folder)
    encoded = Encoded(row["input_ids"], row["roles"], row["frames"], row["strings"])
    roles = TrainSettings().supervised()
    part = _part("", tokenizer, row["frame_count"], encoded, [role in roles for role in encoded.roles])
    hidden = {"index", "program", "spans", "input_ids", "roles", "frames", "strings", "outcome"}
    facts = {name.replace("_", " "): str(value) for name, value in row.items() if name not in hidden}
    outcome = {} if row["outcome"] == "ok" else {"outcome": row["outcome"]}
    return View(f"Example {index} of {folder}", (part,), {**facts, **outcome, "tokenizer": tokenizer.settings.kind})


def config_view(source: str, overrides: Sequence[str], index: int | None, split: str, row: int | None) -> View:
    """An example of a configuration, or a row of its training.

    Raises:
        UserError: it has no such example or row, or is of another kind.
    """
    if row is not None and (split or index is not None):
        raise ConfigError("--row is a row of training, --index and --split an example of a split: give one of them")
    settings = _load(Path(source), overrides)
    if row is None:
        given = settings.data.task.count("all") is not None
        first = next((name for name in SPLITS if not given or settings.data.task.count(name)), "all")
        split = split or ("all" if source.endswith(".py") else first)
        return example_view(settings, index or 0, split, Path(source).name)
    if not isinstance(settings, RunConfig):
        raise ConfigError(f"{source}: is no training run, so it has no rows: use --index")
    return row_view(settings, row, Path(source).name)


def _load(path: Path, overrides: Sequence[str]) -> GenerateConfig | RunConfig:
    """The configuration of a data set or of a training run, told by its keys; of a program's file, that of this program alone."""
    changes = parse_overrides(overrides)
    if path.suffix == ".py":
        given = {"data": {"task": {"kind": "programs", "path": str(path)}}}
        of_data = {re.sub(r"^(?!data\.|tokenizer\.)", "data.", key): value for key, value in changes.items()}
        renamed = {key.replace("data.tracer.", "data.task.tracer."): value for key, value in of_data.items()}
        return resolve(GenerateConfig, given, renamed, str(path), "override")[0]
    keys = apply_changes(read_yaml(path), changes, "override").keys()
    others = {"groups": "an experiment", "diagnostics": "an evaluation", "sources": "a measurement"}
    for key, what in others.items():
        if key in keys:
            raise ConfigError(f"{path}: is the configuration of {what}; show takes one with `data` and `tokenizer`")
    kind: type[GenerateConfig] | type[RunConfig]
    kind = GenerateConfig if keys <= GenerateConfig.model_fields.keys() else RunConfig
    return load(kind, path, overrides)


def example_view(settings: GenerateConfig | RunConfig, index: int, split: str, name: str) -> View:
    """One example; supervised is what the run trains on, or what runs train on by default.

    Raises:
        UserError: there is no such split or index, or the tokenizer cannot be built.
    """
    data = settings.data
    splits = [*SPLITS, "all"]
    if split not in splits:
        raise ConfigError(f"--split {split!r}: {suggest(split, splits)}")
    count = data.task.count(split)
    if split == "all" and count is None:
        raise ConfigError(f"--split all: of given programs and of small spaces only; here {', '.join(SPLITS)}")
    if count is not None and index >= count:
        raise ConfigError(f"--index {index}: the {split} split has {count} examples, numbered from 0")
    tokenizer = build_tokenizer(settings.tokenizer, data)
    roles = (settings.train if isinstance(settings, RunConfig) else TrainSettings()).supervised()
    [(example, encoded)] = encoded_examples(data, tokenizer, split, [index])
    part = _part("", tokenizer, len(example.trace.frames), encoded, [role in roles for role in encoded.roles])
    facts = {"split": split, "format": data.format, "tokenizer": tokenizer.settings.kind}
    facts |= {key.replace("_", " "): str(value) for key, value in example.slices.items()}
    facts |= {} if example.outcome == "ok" else {"outcome": example.outcome}
    facts |= {"answer": example.answer} if example.answer else {}
    if data.memory is not None:
        found = windows(*encoded[:3], data.memory, tokenizer.special_ids)
        most = max(window.size for window in found)
        facts["memory"] = f"{len(found)} windows, in which {most} of {len(encoded.ids)} tokens are seen at most"
    return View(f"Example {index} of {name}", (part,), facts)


def row_view(config: RunConfig, row: int, name: str) -> View:
    """A row of training as the model reads it: its examples joined, supervised where the collator gives labels.

    Raises:
        UserError: there is no such row, or the data or its shards cannot be read.
    """
    from remedy.train.data import Collator, parted
    from remedy.train.run import build_rows

    tokenizer = build_tokenizer(config.tokenizer, config.data)
    rows = build_rows(config, tokenizer)
    if row >= len(rows):
        raise ConfigError(f"--row {row}: this run trains on {len(rows)} rows, numbered from 0")
    batch = Collator(tokenizer.pad_id, config.train.supervised())([rows[row]])
    labels = (batch["labels"][0] != -100).tolist()
    parts, start = [], 0
    for member, own in zip(rows.members(row), parted(rows[row]), strict=True):
        [(example, encoded)] = encoded_examples(member.data, tokenizer, "train", [member.index])
        outcome = "" if example.outcome == "ok" else f" ({example.outcome})"
        heading = f"{member.part or 'train'} example {member.index}{outcome}"
        if member.data.memory is not None:
            heading += f", a window of {own.size} of its {len(encoded.ids)} tokens"
            encoded = Encoded(*(column.tolist() for column in own[:4]))
        stop = start + len(encoded.ids)
        parts.append(_part(heading, tokenizer, len(example.trace.frames), encoded, labels[start:stop]))
        start = stop
    step = row // config.train.batch_size
    facts = {"step": f"{step + 1} of {config.train.total_steps}"}
    if stages := config.train.curriculum:
        number = bisect.bisect_right(config.train.stage_ends(), step)
        changes = ", ".join(f"{key} {value}" for key, value in stages[number].set.items())
        facts["stage"] = f"{number + 1} of {len(stages)} ({changes})"
    return View(f"Row {row} of {name}", tuple(parts), facts)


def _part(heading: str, tokenizer: TraceTokenizer, frames: int, encoded: Encoded, supervised: Sequence[bool]) -> Part:
    """An example's tokens, frame by frame."""
    return Part(heading, blocks_of(tokens_of(tokenizer, encoded, supervised), {frames: "end"}))
