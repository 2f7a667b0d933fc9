"""Evaluated runs in two files: every record of a question in one table, every small file of its runs in another.

python -m benchmarks.packed pack FOLDER ROOT/QUESTION      an experiment's folder, or several evaluations'
python -m benchmarks.packed unpack ROOT/QUESTION FOLDER    the folders again, for `remedy report` and `remedy run`

`pack --replace /home/me/x.jsonl=x.jsonl` writes small files with another path; files with a digest get that of what they then hold.

`ROOT/QUESTION/records.parquet`: a row an example and condition, with all columns of records, the labels of all conditions, and
`folder` (the evaluation's, below the experiment's), `group` and `seed`. `generations.parquet` beside it, where evaluations kept what
was written. `ROOT/runs.parquet`: a row a run, with `folder` (`QUESTION/GROUP/RUN`) and a column for each file that it has, as
`train.yaml` and `evaluation/evaluation.json`, of the file's text. Summaries are left out, since reports make them anew of the records;
so are weights and logs.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from remedy.checksums import DIGEST_KEY, digest_of, read_json, write_json, write_table
from remedy.eval.records.folder import GENERATIONS, RECORDS, REQUEST, SUMMARY, read_request
from remedy.eval.records.schema import NULLABLE, Record
from remedy.settings import UserError

RUNS = "runs.parquet"
TABLES = (RECORDS, GENERATIONS)
OWN = ("folder", "group", "seed")
"""Columns of packed records that evaluations do not have."""
INNER = ("model", "evaluation")
"""Folders of a run, whose files are the run's."""
LEFT_OUT = ("report", *TABLES)
TEXTS = {".json", ".yaml", ""}


def pack(source: Path, question: Path, replaced: Mapping[str, str] = {}) -> None:
    """Write the evaluations and runs below a folder as one question's. `replaced`: texts of small files, and what is written for them.

    Raises:
        UserError: no evaluation is there, or a file is not what its digest says.
    """
    evaluations = sorted(path.parent for path in source.rglob(REQUEST))
    if not evaluations:
        raise UserError(f"{source}: no evaluation found there; `remedy evaluate` and `remedy run` write them")
    question.mkdir(parents=True, exist_ok=True)
    for kind in TABLES:
        parts = [part for folder in evaluations for part in _tables(folder, kind, source)]
        if parts:
            _write(question / f"{kind}.parquet", pa.concat_tables(parts, promote_options="permissive"))
    mine = pd.DataFrame(_files(source, question.name, replaced)).pivot(index="folder", columns="file", values="text")
    path = question.parent / RUNS
    if path.exists():
        held = read_runs(question.parent)
        mine = pd.concat([held[~held.index.str.startswith(f"{question.name}/")], mine])
    mine = mine.sort_index(axis=0).sort_index(axis=1)
    _write(path, pa.Table.from_pandas(mine.reset_index(), preserve_index=False))


def _tables(folder: Path, kind: str, source: Path) -> Iterator[pa.Table]:
    """Yield the tables of an evaluation, ordered by name."""
    place = folder.relative_to(source).as_posix()
    seed = re.search(r"seed[=-](\d+)", place)
    own = pa.string(), pa.string(), pa.int64()
    for path in sorted((folder / kind).glob("*.parquet")):
        table = pq.ParquetFile(path).read().replace_schema_metadata(None)
        for name, value, of in zip(OWN, (place, place.split("/")[0], seed and int(seed[1])), own):
            table = table.append_column(name, pa.array([value] * len(table), of))
        if kind == GENERATIONS:
            table = table.append_column("condition", pa.array([path.stem] * len(table)))
        yield table


def _files(source: Path, question: str, replaced: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Every small file with the folder of its run and its name there."""
    for path in sorted(path for path in source.rglob("*") if path.is_file() and path.suffix in TEXTS):
        place = path.relative_to(source)
        if path.name != SUMMARY and not set(place.parts) & set(LEFT_OUT):
            depth = 2 if path.parent.name in INNER else 1
            folder, name = place.parts[:-depth], "/".join(place.parts[-depth:])
            yield {"folder": "/".join([question, *folder]), "file": name, "text": _text(path, replaced)}


def _text(path: Path, replaced: Mapping[str, str]) -> str:
    text = held = path.read_text(encoding="utf-8")
    for old, new in replaced.items():
        text = text.replace(old, new)
    if path.suffix != ".json" or DIGEST_KEY not in json.loads(text):
        return text
    read_json(path, "pack what was written")
    if text == held:
        return text
    with tempfile.TemporaryDirectory() as folder:
        anew = Path(folder) / path.name
        write_json(anew, {key: value for key, value in json.loads(text).items() if key != DIGEST_KEY})
        return anew.read_text(encoding="utf-8")


def _write(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, compression="zstd", compression_level=19)


def read_runs(root: Path) -> pd.DataFrame:
    """Read the small files of all runs, by folder; null where a file is missing."""
    return pq.ParquetFile(root / RUNS).read().to_pandas().set_index("folder")


def read_records(question: Path) -> pd.DataFrame:
    """All records of a question, in the order of their runs and conditions."""
    return pq.ParquetFile(question / f"{RECORDS}.parquet").read().to_pandas()


def unpack(question: Path, out: Path) -> None:
    """Write a question's folders as they were: every record and small file; a report writes the summaries."""
    runs = read_runs(question.parent)
    for place, texts in runs[runs.index.str.startswith(f"{question.name}/")].iterrows():
        for name, text in texts.dropna().items():
            path = out / str(place).removeprefix(f"{question.name}/") / str(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for kind in TABLES:
        if (question / f"{kind}.parquet").exists():
            _unpack_tables(pq.ParquetFile(question / f"{kind}.parquet").read(), kind, out)


def _unpack_tables(table: pa.Table, kind: str, out: Path) -> None:
    names = table.select(["folder", "condition"]).to_pandas()
    starts = names.index[(names != names.shift()).any(axis=1)].tolist()
    for start, stop in zip(starts, [*starts[1:], len(names)]):
        folder, condition = out / names["folder"][start], names["condition"][start]
        part = table.slice(start, stop - start).drop_columns(list(OWN))
        if kind == RECORDS:  # labels of other conditions are left out; nulls keep the types that records have
            other = [name for name in part.column_names if name not in Record.__annotations__]
            part = part.drop_columns([name for name in other if part[name].null_count == len(part)])
            types = {name: kind for name, kind in NULLABLE.items() if name in part.column_names}
            part = pa.Table.from_pandas(part.to_pandas().astype(types))
        else:
            part = part.drop_columns(["condition"])
        (folder / kind).mkdir(exist_ok=True)
        write_table(folder / kind / f"{condition}.parquet", part, digest_of(read_request(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("pack", "unpack"))
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--replace", action="append", default=[], metavar="OLD=NEW", help="of pack: a text of small files"
    )
    given = parser.parse_args()
    replaced = dict(one.partition("=")[::2] for one in given.replace)
    if given.action == "unpack" and replaced:
        parser.error("--replace is of pack")
    if given.action == "pack":
        pack(given.source, given.out, replaced)
    else:
        unpack(given.source, given.out)


if __name__ == "__main__":
    main()
