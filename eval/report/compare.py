"""Verdicts on results by example that other harnesses wrote: lm-evaluation-harness samples, inspect_ai logs, or a table of one's own.

Two sides' logs are paired by example, and make one comparison a task.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.render import Report
from remedy.eval.report.verdicts import decide
from remedy.eval.stats import BAR, MARGIN
from remedy.messages import shown, suggest
from remedy.settings import UserError

TABLES = (".csv", ".jsonl", ".parquet")
KINDS = (*TABLES, ".json", ".eval")
ZSTANDARD = 93
"""The number of zstd among the compressions of ZIP archives, which Python's `zipfile` reads from 3.14 on."""
MOST_BYTES = 2**30
"""Of a file in an archive, unpacked: more is no log, and may fill the memory."""
INSPECT = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Letters of inspect_ai's scores, with the values that its own metrics give them."""


NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("split", "condition", "forcing", "diagnostic", "true_answer"), ""),
    **dict.fromkeys(("chance", "start_right"), math.nan),
    **dict.fromkeys(TRACE_COLUMNS, 0),
    **dict.fromkeys(("index", "written_tokens"), 0),
    "truncated": False,
}
"""What records have that logs do not tell."""
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

    task: str
    seed: str
    example: str
    scores: Mapping[str, Any]
    fields: Mapping[str, Any]
    within: str
    """The cluster that it is in unless a field is named: the example that repeats are of."""


def compare_logs(
    baseline: Path, treatment: Path, how: Reading | None = None, margin: float = MARGIN, solved_at: float = BAR
) -> Report:
    """Compare two logs, or two folders of logs, task by task. Several logs of a task are trainings with several seeds.

    Examples are paired by name (and content, where a log has its digest); those that a run lacks are left out and counted. All tasks
    share the level of one comparison (Holm).

    Raises:
        UserError: as `read_logs`; the sides share a log, or no task, or no example of one.
    """
    if same := {one.resolve() for one in _files(baseline)} & {one.resolve() for one in _files(treatment)}:
        raise UserError(f"{min(same)}: is on both sides: give logs of two models")
    names = side_names(baseline, treatment)
    sides = [
        read_logs(path, how or Reading()).assign(variant=side)
        for path, side in ((baseline, "baseline"), (treatment, "treatment"))
    ]
    every = [list(side["task"].unique()) for side in sides]
    tasks = [task for task in every[0] if task in every[1]]
    if not tasks:
        said = [", ".join(map(repr, one)) for one in every]
        raise UserError(f"{treatment}: has results of {said[1]}, and {baseline} of {said[0]}: the sides share no task")
    remarks = [
        f"{task} is in {path} alone: left out."
        for path, mine in zip((baseline, treatment), every)
        for task in mine
        if task not in tasks
    ]
    for path, side in zip((baseline, treatment), sides):
        if len(none := side.loc[side["right"].isna(), "example"]):
            remarks.append(
                f"{path}: {len(none)} of {len(side)} examples have no score, the first of them {none.iloc[0]!r}."
            )
    records = pd.concat(sides).assign(**NEUTRAL)
    records["run"] = records["variant"] + " " + records["run"]
    comparisons = []
    for task in tasks:
        about = task if len(tasks) > 1 else f"{names[1]} in place of {names[0]}{f' on {task}' if task else ''}"
        before, after = (Side(run=side, where={"task": task}) for side in ("baseline", "treatment"))
        one = Comparison(mitigation=about, baseline=before, treatment=after, margin=margin, solved_at=solved_at)
        comparisons.append(one)
        mine = records[records["task"] == task]
        if mine["metric"].nunique() > 1:
            scored = " and ".join(f"{name!r}" for name in mine["metric"].unique())
            raise UserError(f"{one.where}: the sides are scored by {scored}: name one by --metric")
        examples = mine.groupby("example")
        logs, clusters = examples["right"].count(), examples["cluster"].nunique()
        if (clusters > 1).any():
            raise UserError(
                f"{one.where}: example {clusters.idxmax()!r} is in several clusters: name a field (--cluster) that all logs give alike"
            )
        left_out = int((logs < mine["run"].nunique()).sum())
        if left_out == len(logs):
            raise UserError(f"{one.where}: {baseline} and {treatment} share no example")
        if left_out:
            remarks.append(f"{about}: {left_out} of {len(logs)} examples are not scored in every log: left out.")
    shown = {"baseline": Side(run=names[0]), "treatment": Side(run=names[1])}
    scored = records.drop(columns="metric").dropna(subset="right").astype({"right": bool})
    found = decide(comparisons, scored)
    verdicts = [item._replace(comparison=item.comparison.model_copy(update=shown)) for item in found]
    return Report(verdicts, remarks, [], pd.DataFrame(), [])


def side_names(first: Path, second: Path) -> tuple[str, str]:
    """Names of two sides: of their files or folders, or of the folders above where these are equal; else as they were given."""
    one, other = first, second
    while one.stem == other.stem and one != other:
        one, other = one.parent, other.parent
    if one.stem and other.stem and one != other:
        return one.stem, other.stem
    return (first.name, second.name) if first.name != second.name else (str(first), str(second))


def read_logs(path: Path, how: Reading) -> pd.DataFrame:
    """The results in a log, or in all logs below a folder: `run`, `task`, `metric`, `example`, `cluster` and whether it is `right`
    (None where it was not scored).

    Raises:
        UserError: no log is found, a log cannot be read or did not end well, a score or cluster must be named, or a score is neither
            right nor wrong.
    """
    tables = [table for file in _files(path) if len(table := _read_log(file, how))]
    if not tables:
        raise UserError(
            f"{path}: has no results by example: give lm-eval samples (--log_samples), inspect_ai logs, or a table with the "
            "columns id and right (CSV, JSON lines or Parquet)"
        )
    return pd.concat(tables)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.rglob("*") if one.suffix in KINDS and not one.name.startswith((".", "results_")))


def _read_log(path: Path, how: Reading) -> pd.DataFrame:
    try:
        rows = list(_rows(path))
    except (*_DAMAGED, zipfile.BadZipFile) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: cannot be read as results by example ({type(error).__name__}: {error})") from None
    tasks = dict.fromkeys(row.task for row in rows)
    metrics = {task: _metric(path, [row for row in rows if row.task == task], how.metric) for task in tasks}
    found = []
    for row in rows:
        metric = metrics[row.task]
        if metric in row.scores or not row.scores or path.suffix not in TABLES:  # not lm-eval's row of another filter
            right = _right(path, row, metric, how.right_from) if metric in row.scores else None
            names = row.task, metric, row.example, _cluster(path, row, how.cluster)
            found.append((f"{path} {row.seed}", *names, right, "" if right else "wrong"))
    table = pd.DataFrame(found, columns=["run", "task", "metric", "example", "cluster", "right", "failure"])
    twice = table.loc[table.duplicated(["run", "task", "example"]), "example"]
    if len(twice):
        raise UserError(
            f"{path}: example {twice.iloc[0]!r} is there twice: give each seed or repeat a file, or a `seed`"
        )
    return table


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
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
        if lines and "doc_id" in lines[0]:
            return [_lm_eval_row(path, line) for line in lines]
        return _table_rows(path, pd.DataFrame(lines))
    return _table_rows(path, pd.read_csv(path, dtype={"id": str}) if path.suffix == ".csv" else pd.read_parquet(path))


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
    rows = []
    for sample in samples:
        scores: dict[str, Any] = {}
        for scorer, score in (sample.get("scores") or {}).items():
            value = score["value"]  # of a scorer with several, each by its name
            scores |= (
                {f"{one},{scorer}": each for one, each in value.items()} if isinstance(value, dict) else {scorer: value}
            )
        scores = {name: value for name, value in scores.items() if value == value}  # its sign of no score is NaN
        name, fields = f"{sample['id']}-{sample['epoch']}", sample.get("metadata") or {}
        rows.append(Row(about["eval"]["task"], "", name, scores, fields, str(sample["id"])))
    return rows


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
    if info.file_size > MOST_BYTES:
        raise UserError(f"{path}: {name} has {info.file_size:,} bytes, and at most {MOST_BYTES:,} are read")
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)  # lengths of the local header's name and extra field
        name_length, extra_length = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(name_length + extra_length, 1)
        packed = file.read(info.compress_size)
    return bytes(pa.input_stream(pa.py_buffer(packed), compression="zstd").read(info.file_size))


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
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{path}: example {row.example!r}: {metric} is {shown(value)}, which is no number") from None
    if math.isnan(score):
        raise UserError(
            f"{path}: example {row.example!r}: {metric} is nan, neither right nor wrong: leave the example out"
        )
    if right_from is None and score not in (0.0, 1.0):
        raise UserError(
            f"{path}: example {row.example!r}: {metric} is {score:g}, neither right (1) nor wrong (0): say from which score on an "
            "example is right (--right-from)"
        )
    return score >= (1.0 if right_from is None else right_from)
