"""Results by example that other harnesses wrote: lm-evaluation-harness samples, inspect_ai logs, or a table of one's own.

Logs are strangers' files: their kind, bytes and examples are bounded before they are read.
"""

from __future__ import annotations

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
"""The number of zstd among the compressions of ZIP archives, which Python's `zipfile` reads from 3.14 on."""
MOST_BYTES = 2**30
"""Of a log, unpacked: more may fill the memory."""
MOST_JSON = 2**27
"""Of a line, or of a file of an archive: as Python's objects, a stranger's may take 30 times as many."""
MOST_ROWS = 500_000
"""Of a Parquet file, which then take about 1 GB: a small file may hold any number of equal rows."""
INSPECT = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Letters of inspect_ai's scores, with the values that its own metrics give them."""
_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError, zlib.error)
"""What is raised by a log that is none. A RuntimeError: an archive that is encrypted or packed in an unknown way, or JSON too deep."""


class Reading(NamedTuple):
    """Choices in reading logs. `metric`: the name of a score, with lm-eval's filter where it has several (`exact_match,strict-match`);
    `cluster`: the field whose equal values belong together; `right_from`: the least score that counts as right, where scores are
    neither 0 nor 1."""

    metric: str = ""
    cluster: str = ""
    right_from: float | None = None


class Row(NamedTuple):
    """One example of a log before it is judged."""

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
    """What the model answered: texts, or likelihoods of choices."""
    prompt: str = ""
    settings: Mapping[str, str] = {}
    """How the log was made. This and the texts above are empty where the log does not tell."""


def read_logs(path: Path, how: Reading) -> pd.DataFrame:
    """Return the results in a log, or in all logs below a folder.

    The columns are those of `Row`, and `file`, `metric`, `example` (name and content), `cluster` and whether it is `right` (None
    without a score).

    Raises:
        UserError: no log is found, a log cannot be read, is too large or did not end well, a score or cluster must be named, or a
            score is neither right nor wrong.
    """
    tables = [table for file in log_files(path) if len(table := _read_log(file, how))]
    if not tables:
        raise UserError(
            f"{path}: has no results by example: give lm-eval samples (--log_samples), inspect_ai logs, or a table with the "
            "columns id and right (CSV, JSON lines or Parquet)"
        )
    return pd.concat(tables)


def log_files(path: Path) -> list[Path]:
    """Return the logs below a folder in the order of their names, or the one log."""
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.rglob("*") if one.suffix in KINDS and not one.name.startswith((".", "results_")))


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """Makes an error of a damaged log one line that says where."""
    try:
        yield
    except (*_DAMAGED, zipfile.BadZipFile) as error:
        said = getattr(error, "msg", error)  # of JSON, without a place in what is one line of the file
        raise UserError(f"{where}: cannot be read as results by example ({type(error).__name__}: {said})") from None


def _json(text: str | bytes) -> Any:
    if len(text) > MOST_JSON:
        raise ValueError(f"{len(text):,} bytes of JSON, and at most {MOST_JSON:,} are read")
    return json.loads(text)


def _bound(path: Path, number: int, most: int, unit: str = "bytes") -> None:
    if number > most:
        raise UserError(f"{path}: has {number:,} {unit}, and at most {most:,} are read")


def _read_log(path: Path, how: Reading) -> pd.DataFrame:
    if not path.is_file():
        raise UserError(f"{path}: {'is no plain file' if path.exists() else 'no such file or folder'}")
    with _readable(str(path)):
        rows = list(_rows(path))
        metric = _metric(path, rows, how.metric) if rows else ""
        if path.suffix == ".jsonl":  # lm-eval's rows of another filter
            rows = [row for row in rows if metric in row.scores or not row.scores]
        table = pd.DataFrame(rows, columns=Row._fields).assign(
            file=str(path),
            metric=metric,
            example=["-".join(filter(None, (row.name, row.content))) for row in rows],
            cluster=[_cluster(row, how.cluster) for row in rows],
            right=[_right(row, metric, how.right_from) for row in rows],
        )
    for _, twice in table[table.duplicated(["seed", "task", "name"])].iterrows():
        raise UserError(
            f"{twice['where']}: example {twice['name']!r} is there twice: give each seed or repeat a file, or a `seed`"
        )
    if rows and not table["right"].count():
        raise UserError(f"{path}: no example has a value of {metric!r}")
    return table


def _rows(path: Path) -> Iterator[Row]:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in dict.fromkeys(archive.namelist()) if name.startswith("samples/")]
            _bound(path, sum(archive.getinfo(name).file_size for name in [*names, "header.json"]), MOST_BYTES)
            about = _json(_member(archive, "header.json"))
            made = _inspect_settings(path, about)
            for name in names:  # summaries.json has long metadata cut, and no answers
                with _readable(where := f"{path}: {name}"):
                    yield _inspect_row(where, _json(_member(archive, name)), *made)
    elif path.suffix == ".json":
        log = _json(read_text(path, MOST_BYTES))
        made = _inspect_settings(path, log)
        for number, sample in enumerate(log["samples"], 1):
            yield _inspect_row(f"{path}: sample {number}", sample, *made)
    elif path.suffix == ".jsonl":
        made = _lm_eval_settings(path)
        for number, text in enumerate(read_text(path, MOST_BYTES).split("\n"), 1):
            with _readable(where := f"{path}: line {number}"):
                if text.strip() and "doc_id" in (line := _json(text)):
                    yield _lm_eval_row(where, line, *made)
                elif text.strip():
                    yield _table_row(where, line)
    elif path.suffix in TABLES:
        read = _parquet if path.suffix == ".parquet" else _csv
        for number, row in enumerate(read(path), 1):
            yield _table_row(f"{path}: row {number}", row)
    else:
        raise UserError(f"{path}: is no log that is known here: {', '.join(KINDS)}")


def _lm_eval_settings(path: Path) -> tuple[str, dict[str, str]]:
    """Return the task of `samples_TASK_DATE.jsonl`, and its settings in the file `results_DATE.json` beside it, if there is one."""
    task, _, date = path.stem.removeprefix("samples_").rpartition("_")
    beside = path.with_name(f"results_{date}.json")
    if not beside.is_file():
        return task or date, {}
    with _readable(str(beside)):
        about = _json(read_text(beside, MOST_BYTES))
        shots = {"n-shot": about["n-shot"][task], "limit": about["config"]["limit"]}
        return task, _written(shots, about["configs"][task].get("generation_kwargs"))


def _inspect_settings(path: Path, about: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the task of an inspect_ai log that ended, and its settings."""
    if about["status"] != "success":
        raise UserError(f"{path}: the log's status is {about['status']!r}: give one that ended")
    if not isinstance(task := about["eval"]["task"], str):
        raise UserError(f"{path}: the log's task is {shown(task)}, which is no name")
    parts = map(about["eval"].get, ("task_args", "config", "model_generate_config"))
    return task, _written(*parts, about.get("plan"))


def _written(*parts: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: repr(value) for part in parts for key, value in (part or {}).items()}


def _lm_eval_row(where: str, line: Mapping[str, Any], task: str, settings: Mapping[str, str]) -> Row:
    """Return the document of a line of lm-eval's samples."""
    # Before December 2024 nothing names the scores: they are the numbers among the keys.
    names = line.get("metrics") or [
        key for key in line if isinstance(line[key], int | float) and key not in ("doc_id", "target")
    ]
    scores = {f"{name},{line.get('filter', 'none')}": line.get(name) for name in names}
    answer, prompt = (escaped(str(line.get(key, ""))) for key in ("resps", "prompt_hash"))
    name, digest = str(line["doc_id"]), str(line.get("doc_hash", ""))[:8]
    return Row(where, task, name, scores, line.get("doc", {}), "", "", digest, answer, prompt, settings)


def _inspect_row(where: str, sample: Mapping[str, Any], task: str, settings: Mapping[str, str]) -> Row:
    """Return a sample of an inspect_ai log in one epoch; epochs of a sample are one cluster."""
    scores: dict[str, Any] = {}
    for scorer, score in (sample.get("scores") or {}).items():
        value = score["value"]  # of a scorer with several, each by its name
        scores |= (
            {f"{one},{scorer}": each for one, each in value.items()} if isinstance(value, dict) else {scorer: value}
        )
    said = [choice["message"]["content"] for choice in sample.get("output", {}).get("choices", ())]
    asked = takewhile(
        lambda one: one["role"] != "assistant" or one.get("source") == "input", sample.get("messages", ())
    )
    name, texts = str(sample["id"]), (str(said or ""), str([one["content"] for one in asked] or ""))
    fields = sample.get("metadata") or {}
    return Row(where, task, f"{name}-{sample['epoch']}", scores, fields, "", name, "", *texts, settings)


def _table_row(where: str, row: Mapping[str, Any]) -> Row:
    """Return the example of a row with `id`, `right`, and where there are any `task`, `seed` and clusters."""
    if missing := {"id", "right"} - set(row):
        raise UserError(f"{where}: has no column {min(missing)!r}; {suggest(min(missing), map(str, row))}")
    task, name, seed = (str(row.get(key, "")) for key in ("task", "id", "seed"))
    return Row(where, task, name, {"right": row["right"]}, row, seed)


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    yield from pd.read_csv(StringIO(read_text(path, MOST_BYTES)), dtype={"id": str}).to_dict("records")


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows, in batches that fit: a value that stands in the file once may be that of all rows."""
    with ParquetFile(path) as file:
        about = file.metadata
        _bound(path, about.num_rows, MOST_ROWS, "rows")
        size = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
        unpacked = 0
        for batch in file.iter_batches(1 + MOST_BYTES // (size + 1)):
            for row in batch.to_pylist():
                _bound(path, unpacked := unpacked + len(str(row)), MOST_BYTES)
                yield row


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of an archive; pyarrow decompresses those of zstd."""
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    size, info.compress_type, info.file_size = info.file_size, zipfile.ZIP_STORED, info.compress_size
    del info.CRC  # of what is unpacked
    return bytes(pa.input_stream(pa.py_buffer(archive.read(info)), compression="zstd").read(size))


def _metric(path: Path, rows: Iterable[Row], asked: str) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    fitting = [name for name in names if not asked or asked in (name, name.partition(",")[0])]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise UserError(
            f"{path}: has no score {asked!r}; {suggest(asked, names)}" if names else f"{path}: has no scores"
        )
    raise UserError(f"{path}: has several scores: name one by --metric: {', '.join(fitting)}")


def _cluster(row: Row, field: str) -> str:
    if not field:
        return row.within or row.name
    if field not in row.fields:
        raise UserError(
            f"{row.where}: example {row.name!r} has no field {field!r}; {suggest(field, map(str, row.fields))}"
        )
    return str(row.fields[field])


def _right(row: Row, metric: str, right_from: float | None) -> bool | None:
    """Return whether an example is right; None without a score: JSON has null for inspect_ai's NaN."""
    value = row.scores.get(metric)
    value = INSPECT.get(value, value) if isinstance(value, str) else value
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
