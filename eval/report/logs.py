"""Results of other harnesses: lm-eval samples, inspect_ai logs, or tables.

Logs are untrusted: bytes are bounded before reading, and Parquet's rows.
"""

from __future__ import annotations

import csv
import json
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from pyarrow.parquet import ParquetFile

from remedy.files import read_text
from remedy.messages import escaped, shown, suggest
from remedy.settings import UserError

TABLES = (".csv", ".jsonl", ".parquet")
KINDS = (*TABLES, ".json", ".eval")
ZSTANDARD = 93
"""The number of zstd among ZIP compressions; Python's `zipfile` reads it from 3.14 on."""
MOST_BYTES = 2**30
"""Bytes of a log, unpacked: more may exhaust memory."""
MOST_JSON = 2**27
"""Bytes of JSON (a line, a file, or a file of an archive): Python's objects may take 30 times as many."""
MOST_ROWS = 500_000
"""Rows of a Parquet file, about 1 GB in memory: compression may hide any number of equal rows."""
INSPECT = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Letters of inspect_ai's scores, with its values."""
_WORDS = {"true": 1.0, "false": 0.0} | dict.fromkeys(("", "na", "none", "null"), math.nan)
"""Scores as texts; NaN for none."""
_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError, zlib.error, csv.Error)
"""Errors of a damaged log. RuntimeError: an archive that is encrypted or packed in an unknown way, or JSON too deep."""


class LogOptions(NamedTuple):
    """Options for reading logs.

    `metric`: a score, perhaps with lm-eval's filter (`exact_match,strict-match`). `cluster`: a field that names
    clusters. `right_from`: the lowest score that counts as right; None: scores are 0 or 1.
    """

    metric: str = ""
    cluster: str = ""
    right_from: float | None = None


class Row(NamedTuple):
    """One example of a log; unknown texts are empty."""

    where: str
    """The file, and the line or name in it."""
    task: str
    name: str
    scores: Mapping[str, Any]
    fields: Mapping[str, Any]
    seed: str = ""
    within: str = ""
    """The sample that it is an epoch of."""
    content: str = ""
    """The digest of the document."""
    answer: str = ""
    """The model's answer: texts, or likelihoods of choices."""
    prompt: str = ""
    settings: Mapping[str, str] = {}
    """Settings that the log was made with."""


def read_logs(path: Path, options: LogOptions) -> pd.DataFrame:
    """Read the results in a log, or in all logs below a folder.

    Columns: those of `Row`, `file`, `metric`, `example` (name and content), `cluster`, `right` (None without a score).

    Raises:
        UserError: a log is missing, unreadable, too large or failed; an option is needed; or a score is neither right nor wrong.
    """
    tables = [table for file in log_files(path) if len(table := _read_log(file, options))]
    if not tables:
        raise UserError(
            f"{path}: has no results by example: give lm-eval samples (--log_samples), inspect_ai logs, or a table with the "
            "columns id and right (CSV, JSON lines or Parquet)"
        )
    return pd.concat(tables)


def log_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    no_logs = (".", "results_", "logs.json", "eval-set.json")  # settings of lm-eval, and inspect_ai's lists of logs
    return sorted(file for file in path.rglob("*") if file.suffix in KINDS and not file.name.startswith(no_logs))


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """Turn errors of a damaged log into a UserError that names the place."""
    try:
        yield
    except (*_DAMAGED, zipfile.BadZipFile) as error:
        message = getattr(error, "msg", error)  # JSON's own, without its position in the line
        raise UserError(f"{where}: cannot be read as results by example ({type(error).__name__}: {message})") from None


def _json(text: str | bytes) -> Any:
    if len(text) > MOST_JSON:
        raise ValueError(f"{len(text):,} bytes of JSON, and at most {MOST_JSON:,} are read")
    return json.loads(text)


def _bound(path: Path, number: int, most: int, unit: str = "bytes") -> None:
    if number > most:
        raise UserError(f"{path}: has {number:,} {unit}, and at most {most:,} are read")


def _read_log(path: Path, options: LogOptions) -> pd.DataFrame:
    if not path.is_file():
        raise UserError(f"{path}: {'is no plain file' if path.exists() else 'no such file or folder'}")
    with _readable(str(path)):
        rows = list(_rows(path))
        metric = _metric(path, rows, options.metric) if rows else ""
        if path.suffix == ".jsonl":  # drop rows of lm-eval's other filters
            rows = [row for row in rows if metric in row.scores or not row.scores]
        table = pd.DataFrame(rows, columns=Row._fields).assign(
            file=str(path),
            metric=metric,
            example=["-".join(filter(None, (row.name, row.content))) for row in rows],
            cluster=[_cluster(row, options.cluster) for row in rows],
            right=[_right(row, metric, options.right_from) for row in rows],
        )
    for _, duplicate in table[table.duplicated(["seed", "task", "name"])].iterrows():
        raise UserError(
            f"{duplicate['where']}: example {duplicate['name']!r} is there twice: put each seed or repeat in a file of its "
            "own, or add a `seed` column"
        )
    if rows and not table["right"].count():
        raise UserError(f"{path}: no example has a value of {metric!r}")
    return table


def _rows(path: Path) -> Iterator[Row]:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in dict.fromkeys(archive.namelist()) if name.startswith("samples/")]
            _bound(path, sum(archive.getinfo(name).file_size for name in [*names, "header.json"]), MOST_BYTES)
            header = _json(_member(archive, "header.json"))
            task_and_settings = _inspect_settings(path, header)
            for name in names:  # summaries.json cannot be used: it cuts metadata and has no answers
                with _readable(where := f"{path}: {name}"):
                    yield _inspect_row(where, _json(_member(archive, name)), *task_and_settings)
    elif path.suffix == ".json":
        log = _json(read_text(path, MOST_JSON))
        task_and_settings = _inspect_settings(path, log)
        for number, sample in enumerate(log["samples"], 1):
            yield _inspect_row(f"{path}: sample {number}", sample, *task_and_settings)
    elif path.suffix == ".jsonl":
        task_and_settings = _lm_eval_settings(path)
        for number, text in enumerate(read_text(path, MOST_BYTES, "utf-8-sig").split("\n"), 1):
            with _readable(where := f"{path}: line {number}"):
                if text.strip() and "doc_id" in (line := _json(text)):
                    yield _lm_eval_row(where, line, *task_and_settings)
                elif text.strip():
                    yield _table_row(where, line)
    elif path.suffix in TABLES:
        read_rows = _parquet if path.suffix == ".parquet" else _csv
        for number, row in enumerate(read_rows(path), 1):
            yield _table_row(f"{path}: row {number}", row)
    else:
        raise UserError(f"{path}: is not a known kind of log: {', '.join(KINDS)}")


def _lm_eval_settings(path: Path) -> tuple[str, dict[str, str]]:
    """Return the task of `samples_TASK_DATE.jsonl`, and settings of `results_DATE.json`."""
    task, _, date = path.stem.removeprefix("samples_").rpartition("_")
    results_path = path.with_name(f"results_{date}.json")
    if not results_path.is_file():
        return task or date, {}
    with _readable(str(results_path)):
        results = _json(read_text(results_path, MOST_JSON))
        shots = {"n-shot": results["n-shot"][task], "limit": results["config"]["limit"]}
        return task, _written(shots, results["configs"][task].get("generation_kwargs"))


def _inspect_settings(path: Path, log: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the task and settings of a finished inspect_ai log."""
    if log["status"] != "success":
        raise UserError(f"{path}: the log's status is {log['status']!r}: give one that ended")
    if not isinstance(task := log["eval"]["task"], str):
        raise UserError(f"{path}: the log's task is {shown(task)}, which is no name")
    parts = map(log["eval"].get, ("task_args", "config", "model_generate_config"))
    return task, _written(*parts, log.get("plan"))


def _written(*parts: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: repr(value) for part in parts for key, value in (part or {}).items()}


def _lm_eval_row(where: str, line: Mapping[str, Any], task: str, settings: Mapping[str, str]) -> Row:
    # lm-eval before December 2024 does not name the scores: they are the numbers among the keys.
    names = line.get("metrics") or [
        key for key in line if isinstance(line[key], int | float) and key not in ("doc_id", "target")
    ]
    scores = {f"{name},{line.get('filter', 'none')}": line.get(name) for name in names}
    answer, prompt = (escaped(str(line.get(key, ""))) for key in ("resps", "prompt_hash"))
    name, digest = str(line["doc_id"]), str(line.get("doc_hash", ""))[:8]
    return Row(where, task, name, scores, line.get("doc", {}), "", "", digest, answer, prompt, settings)


def _inspect_row(where: str, sample: Mapping[str, Any], task: str, settings: Mapping[str, str]) -> Row:
    """Return one epoch of a sample; its epochs are one cluster."""
    scores: dict[str, Any] = {}
    for scorer, score in (sample.get("scores") or {}).items():
        value = score["value"]  # a scorer may have several, by name
        scores |= (
            {f"{key},{scorer}": each for key, each in value.items()} if isinstance(value, dict) else {scorer: value}
        )
    answers = [choice["message"]["content"] for choice in (sample.get("output") or {}).get("choices") or ()]
    # Assistant messages of the input are shots; the first other one begins the answer.
    prompt = takewhile(
        lambda message: message["role"] != "assistant" or message.get("source") == "input", sample.get("messages") or ()
    )
    name, texts = str(sample["id"]), (str(answers or ""), str([message["content"] for message in prompt] or ""))
    fields = sample.get("metadata") or {}
    return Row(where, task, f"{name}-{sample['epoch']}", scores, fields, "", name, "", *texts, settings)


def _table_row(where: str, row: Mapping[str, Any]) -> Row:
    """Return a row with `id`, `right`, and perhaps `task` and `seed`."""
    if missing := {"id", "right"} - set(row):
        raise UserError(f"{where}: has no column {min(missing)!r}; {suggest(min(missing), map(str, row))}")
    task, name, seed = ("" if row.get(key) is None else str(row[key]) for key in ("task", "id", "seed"))
    return Row(where, task, name, {"right": row["right"]}, row, seed)


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    """Yield rows as texts, so that no id becomes a number."""
    csv.field_size_limit(MOST_BYTES)  # a value may be a whole answer
    rows = csv.DictReader(StringIO(read_text(path, MOST_BYTES, "utf-8-sig"), ""), strict=True)
    names = list(rows.fieldnames or ())
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the column {repeated[0]!r} is there twice")
    for row in rows:
        if None in row:
            raise ValueError(f"{row['id']!r} has more values than there are columns")
        yield row


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    with ParquetFile(path) as file:
        metadata = file.metadata
        _bound(path, metadata.num_rows, MOST_ROWS, "rows")
        size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
        unpacked = 0
        # Any row may unpack to all `size` bytes: one stored value may repeat.
        for batch in file.iter_batches(1 + MOST_BYTES // (size + 1)):
            for row in batch.to_pylist():
                _bound(path, unpacked := unpacked + len(str(row)), MOST_BYTES)
                yield row


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a file of an archive; pyarrow decompresses zstd."""
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    size, info.compress_type, info.file_size = info.file_size, zipfile.ZIP_STORED, info.compress_size
    del info.CRC  # it is of the unpacked bytes, and zipfile would check it against the packed ones
    return bytes(pa.input_stream(pa.py_buffer(archive.read(info)), compression="zstd").read(size))


def _metric(path: Path, rows: Iterable[Row], wanted: str) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    matches = [name for name in names if not wanted or wanted in (name, name.partition(",")[0])]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UserError(
            f"{path}: has no score {wanted!r}; {suggest(wanted, names)}" if names else f"{path}: has no scores"
        )
    raise UserError(f"{path}: has several scores: name one by --metric: {', '.join(matches)}")


def _cluster(row: Row, field: str) -> str:
    if not field:
        return row.within or row.name
    if field not in row.fields:
        raise UserError(
            f"{row.where}: example {row.name!r} has no field {field!r}; {suggest(field, map(str, row.fields))}"
        )
    return str(row.fields[field])


def _right(row: Row, metric: str, right_from: float | None) -> bool | None:
    """Judge an example; None without a score."""
    value = row.scores.get(metric)
    value = INSPECT.get(value, _WORDS.get(value.strip().lower(), value)) if isinstance(value, str) else value
    try:
        score = math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{row.where}: {metric} is {shown(value)}, which is no number") from None
    if math.isnan(score):
        return None
    if right_from is None and score not in (0.0, 1.0):
        raise UserError(
            f"{row.where}: {metric} is {score:g}, neither right (1) nor wrong (0): say from which score on an "
            "example is right (--right-from)"
        )
    return score >= (1.0 if right_from is None else right_from)
