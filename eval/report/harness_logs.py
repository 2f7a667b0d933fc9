"""Results by example that other harnesses wrote: lm-evaluation-harness samples, inspect_ai logs, or a table of one's own."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from remedy.messages import suggest
from remedy.settings import UserError

TABLES = (".csv", ".jsonl", ".parquet")
KINDS = (*TABLES, ".json", ".eval")
ZSTANDARD = 93
"""The number of zstd among the compressions of ZIP archives, which Python's `zipfile` reads from 3.14 on."""
INSPECT = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Letters of inspect_ai's scores, with the values that its own metrics give them."""


class Reading(NamedTuple):
    """Choices in reading logs. `metric`: the name of a score, with lm-eval's filter where it has several (`exact_match,strict-match`);
    `cluster`: the field whose equal values belong together; `right_from`: the least score that counts as right, where scores are
    neither 0 nor 1."""

    metric: str = ""
    cluster: str = ""
    right_from: float | None = None


class Row(NamedTuple):
    """One example of a log before it is judged."""

    task: str
    seed: str
    example: str
    scores: Mapping[str, Any]
    fields: Mapping[str, Any]
    within: str
    """The cluster that it is in unless a field is named: the example that repeats are of."""


class Log(NamedTuple):
    """One run of one task. `outcomes`: of each example, its cluster and whether it is right."""

    path: Path
    task: str
    metric: str
    outcomes: dict[str, tuple[str, bool]]


def read_logs(path: Path, how: Reading) -> dict[str, list[Log]]:
    """The runs in a log, or in all logs below a folder, by task; several of one task are trainings with several seeds.

    Raises:
        UserError: no log is found, a log cannot be read or did not end well, a score or cluster must be named, or a score is neither
            right nor wrong.
    """
    files = [path]
    if path.is_dir():
        files = sorted(
            one for one in path.rglob("*") if one.suffix in KINDS and not one.name.startswith((".", "results_"))
        )
    found: dict[str, list[Log]] = {}
    for file in files:
        for log in _logs(file, how):
            found.setdefault(log.task, []).append(log)
    if not found:
        raise UserError(
            f"{path}: has no results by example: give lm-eval samples (--log_samples), inspect_ai logs, or a table with the "
            "columns id and right (CSV, JSON lines or Parquet)"
        )
    return found


def _logs(path: Path, how: Reading) -> Iterator[Log]:
    """The logs of a file, each task and seed by itself."""
    try:
        rows = list(_rows(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: cannot be read as results by example ({type(error).__name__}: {error})") from None
    for task, seed in dict.fromkeys((row.task, row.seed) for row in rows):
        mine = [row for row in rows if (row.task, row.seed) == (task, seed)]
        metric = _metric(path, mine, how.metric)
        outcomes: dict[str, tuple[str, bool]] = {}
        for row in mine:
            if metric not in row.scores:  # another filter's row, or an example that was not scored
                continue
            if row.example in outcomes:
                raise UserError(
                    f"{path}: example {row.example!r} is there twice: give each seed or repeat a file, or a `seed`"
                )
            outcomes[row.example] = _cluster(path, row, how.cluster), _right(path, row, metric, how.right_from)
        yield Log(path, task, metric, outcomes)


def _rows(path: Path) -> Iterable[Row]:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            about, samples = (json.loads(_member(path, archive, name)) for name in ("header.json", "summaries.json"))
        return _inspect_rows(path, about, samples)
    if path.suffix == ".json":
        log = json.loads(path.read_text(encoding="utf-8"))
        return _inspect_rows(path, log, log["samples"])
    if path.suffix not in TABLES:
        raise UserError(f"{path}: is no log that is known here: {', '.join(KINDS)}")
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        if lines and "doc_id" in lines[0]:
            return [_lm_eval_row(path, line) for line in lines]
        return _table_rows(path, pd.DataFrame(lines))
    return _table_rows(path, pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path))


def _lm_eval_row(path: Path, line: Mapping[str, Any]) -> Row:
    """A line of `samples_TASK_DATE.jsonl`. Documents are paired by number and content."""
    task = path.stem.removeprefix("samples_")
    task = task.rpartition("_")[0] or task
    key = f"{line['doc_id']}-{str(line.get('doc_hash', ''))[:8]}"
    filter_ = line.get("filter", "none")
    scores = {f"{name},{filter_}": line[name] for name in line.get("metrics", ()) if name in line}
    return Row(task, "", key, scores, line.get("doc", {}), key)


def _inspect_rows(path: Path, about: Mapping[str, Any], samples: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The samples of an inspect_ai log; epochs of a sample are one cluster."""
    if about["status"] != "success":
        raise UserError(f"{path}: the log's status is {about['status']!r}: give one that ended")
    return [
        Row(
            about["eval"]["task"],
            "",
            f"{sample['id']}-{sample['epoch']}",
            {name: score["value"] for name, score in (sample.get("scores") or {}).items()},
            sample.get("metadata") or {},
            str(sample["id"]),
        )
        for sample in samples
    ]


def _table_rows(path: Path, table: pd.DataFrame) -> list[Row]:
    """A table with a line for each example: `id`, `right`, and where there are any `task`, `seed` and clusters."""
    if missing := {"id", "right"} - set(table):
        raise UserError(f"{path}: has no column {min(missing)!r}; {suggest(min(missing), map(str, table.columns))}")
    return [
        Row(
            str(row.get("task", "")),
            str(row.get("seed", "")),
            str(row["id"]),
            {"right": row["right"]},
            row,
            str(row["id"]),
        )
        for row in table.to_dict("records")
    ]


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of an archive; zstd's are decompressed by pyarrow."""
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)  # lengths of the local header's name and extra field
        name_length, extra_length = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(name_length + extra_length, 1)
        packed = file.read(info.compress_size)
    return bytes(pa.input_stream(pa.py_buffer(packed), compression="zstd").read())


def _metric(path: Path, rows: Iterable[Row], asked: str) -> str:
    """The one score that is meant."""
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    fitting = [name for name in names if not asked or asked in (name, name.partition(",")[0])]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise UserError(
            f"{path}: has no score {asked!r}; {suggest(asked, names)}" if names else f"{path}: has no scores"
        )
    raise UserError(f"{path}: has several scores: name one by --metric: {', '.join(fitting)}")


def _cluster(path: Path, row: Row, field: str) -> str:
    if not field:
        return row.within
    if field not in row.fields:
        raise UserError(
            f"{path}: example {row.example!r} has no field {field!r}; {suggest(field, map(str, row.fields))}"
        )
    return str(row.fields[field])


def _right(path: Path, row: Row, metric: str, right_from: float | None) -> bool:
    value = row.scores[metric]
    value = INSPECT.get(value, value) if isinstance(value, str) else value
    try:
        score = float(value)
    except (TypeError, ValueError):
        raise UserError(f"{path}: example {row.example!r}: {metric} is {value!r}, which is no number") from None
    if right_from is None and score not in (0.0, 1.0):
        raise UserError(
            f"{path}: example {row.example!r}: {metric} is {score:g}, neither right (1) nor wrong (0): say from which score on an "
            "example is right (--right-from)"
        )
    return score >= (1.0 if right_from is None else right_from)
