"""Files that can tell whether they are what was written: JSON with a digest inside, Parquet with checksums of its pages.

Each says under which name it was written, and a table what it is a part of. Any program reads these files. All that reads here takes a
`cure`, what to do about damage, and raises DamagedFile where a file is missing, cannot be read or is not what was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from remedy.files import read_text, readable, replace_file, write_text
from remedy.messages import one_line
from remedy.mistakes import explain
from remedy.settings import UserError

KEY = "digest"
MOST = 1 << 28
"""Bytes of an object."""
_OWNER, _FILE = b"remedy.owner", b"remedy.file"


class DamagedFile(UserError):
    """Names the file and what to do."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object with a digest of it and of the file's name, the whole file or none of it."""
    text = json.dumps({**content, KEY: _json_digest(path, content)}, indent=1)
    write_text(path, text)


def read_json(path: Path, cure: str, form: Any = dict[str, Any]) -> dict[str, Any]:
    """An object that `write_json` wrote, without its digest. `form`: its type, as a TypedDict."""
    with damage_named(path, cure):
        content = json.loads(read_text(path, MOST))
        if not isinstance(content, dict) or content.pop(KEY, None) != _json_digest(path, content):
            raise ValueError("its digest is not that of its content")
        try:
            TypeAdapter(form).validate_json(json.dumps(content), strict=True)
        except ValidationError as error:
            raise ValueError(next(explain(content, error.errors()))) from None
        return content


def write_table(path: Path, table: pa.Table, owner: str) -> None:
    """Write Parquet, the whole file or none of it. `owner`: what the file is a part of."""
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _OWNER: owner, _FILE: path.name})
    replace_file(path, lambda partial: pq.write_table(table, partial, compression="zstd", write_page_checksum=True))


def read_table(
    path: Path,
    cure: str,
    owner: str | None = None,
    columns: Sequence[str] | None = None,
    check: Callable[[pq.FileMetaData], None] | None = None,
) -> pa.Table:
    """A table that `write_table` wrote under this name, or some of its columns, whose pages are checked; of none, its footer alone.
    `check` raises a ValueError for a footer beyond which nothing is read; with it texts stay dictionaries, which take no more memory
    than the footer says."""
    with damage_named(path, cure):
        about = pq.read_metadata(readable(path))  # of a file with a hole of gigabytes, nothing more is read
        leaves = map(about.schema.column, range(about.num_columns if check else 0))
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        if check:
            check(about)
        # Read at once and without pq.read_table: threads that read may let go of it while the interpreter ends, which aborts the process.
        source = readable(path) if columns == [] else pa.BufferReader(readable(path).read_bytes())
        file = pq.ParquetFile(source, read_dictionary=texts, page_checksum_verification=True)
        table = file.read(columns=columns, use_threads=False)
    said = {_FILE: path.name.encode(), **(table.schema.metadata or {})}
    if said[_FILE] != path.name.encode() or owner not in (None, said.get(_OWNER, b"").decode()):
        raise DamagedFile(
            f"{path}: belongs to something else than the folder that it is in, or to another name: {cure}"
        )
    return table


def check_columns(schema: pa.Schema, wanted: Mapping[str, str], others: str = ".*") -> None:
    """Compare the types of columns with regular expressions, in which `missing` stands for none; `others`: that of other columns.

    Raises:
        ValueError: names the first column that differs.
    """
    types = {field.name: str(field.type) for field in schema}
    for name in dict.fromkeys([*wanted, *types]):
        has, form = types.get(name, "missing"), wanted.get(name, others)
        if not re.fullmatch(form, has):
            raise ValueError(f"column {name!r} is {has}, not {form.replace('|', ' or ')}")


def foreign_table(folder: Path, owner: str) -> Path | None:
    """A table in a folder that is a part of something else than `owner`, if there is one."""
    for path in sorted(folder.glob("*.parquet")):
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):  # nobody's, since nobody can read it
            if (pq.read_schema(readable(path)).metadata or {}).get(_OWNER) != owner.encode():
                return path
    return None


def digest_of(content: Mapping[str, Any]) -> str:
    """Identifies an object by what it holds, as JSON writes it."""
    plain = json.loads(json.dumps(content))  # tuples are lists there, and numbers as keys are text
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def damage_named(path: Path, cure: str) -> Iterator[None]:
    """Raise what is wrong with a file as DamagedFile."""
    try:
        yield
    except FileNotFoundError:
        raise DamagedFile(f"{path}: is missing: {cure}") from None
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        what = "cannot be read" if isinstance(error, OSError) and error.errno else "is damaged"
        raise DamagedFile(f"{path}: {what} ({one_line(str(error), 200)}): {cure}") from None


def _json_digest(path: Path, content: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{path.name} {digest_of(content)}".encode()).hexdigest()
