"""Card of a generated data set: sizes, slices, roles, configuration, versions."""

from __future__ import annotations

import platform
import re
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from huggingface_hub import DatasetCardData

from remedy.checksums import digest_of
from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.shards import CARD, WriteConfig, plan, read_manifest, read_shard
from remedy.files import file_name, replace_file
from remedy.messages import one_line, safe_in_markdown
from remedy.settings import dump

_OWN = {"index", "outcome", "program", "answer", "input_ids", "roles", "frames", "strings"}
ROLES = [role.label for role in Role]
OWN_VOCABULARY = """. Its vocabulary was trained on this data set: counts of tokens of data sets with vocabularies
of their own do not compare (`remedy measure` compares)"""
MOST = {"reveal": 100}
"""The most values of a slice that are listed, where it is not 12: a budget chooses many spacings."""


def write_card(data: DataConfig, config: WriteConfig, directory: Path, tokenizer: str) -> Path:
    """Read all shards, write `README.md` beside them, and return its path.

    Raises:
        DamagedFile: a shard is missing or damaged.
    """
    counts: dict[str, Counter[str]] = {}
    slice_counts: dict[str, Counter[str]] = {}
    lengths: list[int] = []
    data_set = digest_of(read_manifest(directory))
    for shard in plan(config):
        table = read_shard(directory, shard, data_set)
        split = counts.setdefault(shard.split, Counter())
        split["examples"] += table.num_rows
        roles = table["roles"].combine_chunks().flatten()
        split.update({Role(r["values"]).label: r["counts"] for r in pc.value_counts(roles).to_pylist()})
        lengths += pc.list_value_length(table["input_ids"]).to_pylist()
        for name in ("outcome", *(name for name in table.column_names if name not in _OWN)):
            slice_counts.setdefault(name, Counter()).update(map(str, table[name].to_pylist()))
    path = directory / CARD
    text = _text(data, tokenizer, counts, slice_counts, lengths)
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))
    return path


def _text(
    data: DataConfig,
    tokenizer: str,
    counts: dict[str, Counter[str]],
    columns: dict[str, Counter[str]],
    lengths: list[int],
) -> str:
    splits = sorted(counts)
    rows = [["split", "examples", "tokens", *ROLES]]
    for split in splits:
        by_role = [counts[split][role] for role in ROLES]
        rows.append([split, *(f"{count:,}" for count in (counts[split]["examples"], sum(by_role), *by_role))])
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    table = "\n".join([head, "|---" * len(rows[0]) + "|", *body])
    metadata = DatasetCardData(
        language="code",
        task_categories=["text-generation"],
        size_categories=size_category(len(lengths)),
        tags=["cwm-remedy", "code-world-model", "execution-traces", file_name(data.task.kind)],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"data/{split}-*.parquet"} for split in splits],
            }
        ],
    )
    median, most, longest = np.quantile(lengths, [0.5, 0.9, 1.0])
    outcomes = ", ".join(f"{name} {count:,}" for name, count in sorted(columns.pop("outcome").items()))
    slices = "\n".join(f"- `{name}`: {_values(values, MOST.get(name, 12))}" for name, values in columns.items())
    python, isolation = data.task.environment()
    settings = dump(data).rstrip()
    # Longer than any run of backticks in the settings, which could else end the block.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", settings)), default=0))
    packages = ", ".join(f"{name} {version(name)}" for name in ("cwm-remedy", "pyarrow", "tokenizers", "numpy"))
    return f"""---
{metadata.to_yaml()}
---
# {safe_in_markdown(one_line(data.task.kind))} traces in {data.format} format

{safe_in_markdown(data.task.describe())}. Every example is a function of (configuration, split, index). {data.task.split_rule()}.

{table}

Tokens per example: median {median:.0f}, 90 % {most:.0f}, longest {longest:.0f}.
Outcomes: {outcomes}.

## Slices

{slices}

## Columns

`input_ids`; for each token its role in `roles` ({", ".join(f"{role.value} {role.label}" for role in Role)}), its
frame's number in `frames`, and in `strings` whether it is of a string value's text
(`remedy.load_tokenizer(folder).decode(ids)` gives the text); `program`, `answer`, `outcome`, `index`; the slices above.

## Configuration

{fence}yaml
{settings}
{fence}

Tokenizer: `{tokenizer}`{OWN_VOCABULARY if '"bpe"' in tokenizer else ""}

The programs ran on {python}, isolation: {isolation}. Traces of other Python versions differ. Made with
Python {platform.python_version()}, {packages}.

A state is the program's own word: what its values say of themselves, recorded in the process that ran it.
"""


def size_category(examples: int) -> str:
    """Return the hub's size category: `1K<n<10K`."""
    ends = ["1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"]
    exponent = max(0, len(str(max(examples, 1))) - 3)
    return "n<1K" if not exponent else f"{ends[exponent - 1]}<n<{ends[exponent]}" if exponent < len(ends) else "n>1T"


def _values(counter: Counter[str], most: int) -> str:
    if len(counter) > most:
        return f"{len(counter):,} different values"
    return ", ".join(f"{safe_in_markdown(value)} ({count:,})" for value, count in sorted(counter.items()))
