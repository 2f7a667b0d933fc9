"""`remedy generate`: a data set as Parquet shards with a card."""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic import model_validator

from remedy.data_gen.card import write_card
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import untraced
from remedy.data_gen.held_out import refuse_held_out_in_vain
from remedy.data_gen.shards import WriteConfig, plan, write
from remedy.data_gen.splits import SPLITS
from remedy.launch.console import Overrides, Workers, load_one, target
from remedy.messages import shown
from remedy.models.encoding import example_table
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import AnyTokenizer, CharacterSettings
from remedy.settings import ConfigError, Configuration, UserError


class GenerateConfig(Configuration):
    """A data set on disk."""

    data: DataConfig
    """The examples to generate."""
    tokenizer: AnyTokenizer = CharacterSettings()
    """The tokenizer whose ids and token counts are stored."""
    write: WriteConfig = WriteConfig()
    """Number of examples and shard size."""

    @model_validator(mode="after")
    def _whole_examples(self) -> GenerateConfig:
        refuse_held_out_in_vain([self.data])
        if self.data.memory is not None:
            raise ValueError(
                f"data.memory {self.data.memory} does nothing in a data set, which holds whole examples: remove it here, and set it "
                "in the runs that read them"
            )
        return self


def generate(
    config: Annotated[str, typer.Argument(help="YAML with `data`, `tokenizer` and `write`")],
    overrides: Overrides = None,
    out: Annotated[Path, target("folder for shards and data card")] = ...,  # type: ignore[assignment]
    shard: Annotated[str, typer.Option(help="i/N: make every N-th shard from the i-th, counted from 0")] = "0/1",
    workers: Workers = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace the shards of another configuration that the folder holds")
    ] = False,
) -> None:
    """Write a data set as Parquet shards with a data card; run again to continue."""
    settings = load_one(GenerateConfig, config, overrides)
    part, data, size = _part(shard), settings.data, _available(settings)
    if overwrite and part[1] > 1:
        raise UserError(
            "--overwrite does not go with --shard, of which one would delete another's: delete the folder first"
        )
    tokenizer = build_tokenizer(settings.tokenizer, data)
    shards = plan(size)
    begin, made = time.perf_counter(), 0
    encode = partial(example_table, data, tokenizer)
    for written in write(data, size, out, encode, tokenizer.fingerprint, part, workers, overwrite):
        made += written.stop - written.start
        speed = made / (time.perf_counter() - begin)
        print(f"{written.name}: {written.stop - written.start:,} examples, {speed:.0f}/s", flush=True)
    missing = [s.name for s in shards if not (out / "data" / s.name).exists()]
    if missing:
        print(f"{len(shards) - len(missing)} of {len(shards)} shards in {out}; the card is written with the last one")
        return
    tokenizer.save(out)
    print(f"data card: {write_card(data, size, out, tokenizer.settings.model_dump_json())}")


def _available(settings: GenerateConfig) -> WriteConfig:
    """Return the size to write; by default all given programs."""
    task, size = settings.data.task, settings.write
    if not (description := task.describe_splits()):
        return size
    print("\n".join([description, *untraced(task)]), flush=True)
    if "splits" not in size.model_fields_set:
        counts = {split: count for split in SPLITS if (count := task.count(split))}
        return size.model_copy(update={"splits": counts})
    for split, count in size.splits.items():
        task.require(split, count, f"write.splits.{split}")
    return size


def _part(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise ConfigError(f"--shard {shown(text)}: write i/N with 0 <= i < N, for example 0/4")
    return int(match[1]), int(match[2])
