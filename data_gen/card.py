"""The card of a generated data set: what it is, how much, its slices, tokens by role, configuration and versions."""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from remedy.checksums import digest_of
from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.shards import CARD, WriteConfig, plan, read_manifest, read_shard
from remedy.files import replace_file
from remedy.messages import as_markdown
from remedy.settings import dump

_OWN = {"index", "outcome", "program", "answer", "spans", "input_ids", "roles", "frames", "strings"}


def write_card(data: DataConfig, config: WriteConfig, directory: Path, tokenizer: str) -> Path:
    """Read all shards and write `README.md` beside them; returns its path.

    Raises:
        DamagedFile: a shard is missing or damaged.
    """
    counts: dict[str, Counter[str]] = {}
    slices: dict[str, Counter[str]] = {}
    outcomes: Counter[str] = Counter()
    lengths: list[int] = []
    data_set = digest_of(read_manifest(directory))
    for shard in plan(config):
        table = read_shard(directory / "data" / shard.name, data_set)
        split = counts.setdefault(shard.split, Counter())
        split["examples"] += table.num_rows
        roles = table["roles"].combine_chunks().flatten()
        split.update({Role(r["values"]).label: r["counts"] for r in pc.value_counts(roles).to_pylist()})
        lengths += pc.list_value_length(table["input_ids"]).to_pylist()
        outcomes.update(table["outcome"].to_pylist())
        for name in table.column_names:
            if name not in _OWN:
                slices.setdefault(name, Counter()).update(str(v) for v in table[name].to_pylist())
    path = directory / CARD
    text = _text(data, tokenizer, counts, slices, outcomes, lengths)
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))
    return path


def _text(
    data: DataConfig,
    tokenizer: str,
    counts: dict[str, Counter[str]],
    slices: dict[str, Counter[str]],
    outcomes: Counter[str],
    lengths: list[int],
) -> str:
    roles = [role.label for role in Role]
    rows = [
        f"| {split} | {count['examples']:,} | {sum(count[r] for r in roles):,} | "
        + " | ".join(f"{count[r]:,}" for r in roles)
        + " |"
        for split, count in sorted(counts.items())
    ]
    quantiles = np.quantile(lengths, [0.5, 0.9, 1.0])
    shown = [f"- `{name}`: {_values(values)}" for name, values in slices.items()]
    python, isolation = data.task.environment()
    packages = ", ".join(f"{name} {version(name)}" for name in ("cwm-remedy", "pyarrow", "tokenizers", "numpy"))
    return "\n".join(
        [
            "---",
            "configs:",
            "- config_name: default",
            "  data_files:",
            *(f"  - split: {split}\n    path: data/{split}-*.parquet" for split in sorted(counts)),
            "---",
            f"# {data.task.kind} traces in {data.format} format",
            "",
            f"{data.task.describe()}. Every example is a function of (configuration, split, index). {data.task.split_rule()}.",
            "",
            "| split | examples | tokens | " + " | ".join(roles) + " |",
            "|---" * (3 + len(roles)) + "|",
            *rows,
            "",
            f"Tokens per example: median {quantiles[0]:.0f}, 90 % {quantiles[1]:.0f}, longest {quantiles[2]:.0f}.",
            f"Outcomes: {', '.join(f'{name} {count:,}' for name, count in sorted(outcomes.items()))}.",
            "",
            "## Slices",
            "",
            *shown,
            "",
            "## Columns",
            "",
            "`spans`: the trace as pieces of text with their role, frame number, and whether a piece is one special token or",
            f"the text of a string value; `input_ids`, `roles` ({', '.join(f'{role.value} {role.label}' for role in Role)})",
            "`frames` and `strings`: the same per token; `program`, `answer`, `outcome`, `index`; the slices above.",
            "",
            "## Configuration",
            "",
            "```yaml",
            dump(data).rstrip(),
            "```",
            "",
            f"Tokenizer: `{tokenizer}`",
            "",
            f"The programs ran on {python}, isolation: {isolation}. Traces of other Python versions differ. Made with Python "
            f"{platform.python_version()}, {packages}.",
            "",
            "A state is the program's own word: what its values say of themselves, recorded in the process that ran it.",
            "",
        ]
    )


def _values(counter: Counter[str]) -> str:
    if len(counter) > 12:
        return f"{len(counter):,} different values"
    return ", ".join(f"{as_markdown(value)} ({count:,})" for value, count in sorted(counter.items()))
