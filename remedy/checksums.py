"""JSON and Parquet files that detect damage by digests and page checksums.

They hold their file names, and a table its owner. `cure`: advice on damage.
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

DIGEST_KEY = "digest"
MOST_BYTES = 1 << 28
"""The most bytes of a JSON file that is read."""
_OWNER, _FILE = b"remedy.owner", b"remedy.file"


class DamagedFile(UserError):
    """A missing, unreadable or altered file."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object with a digest, atomically."""
    text = json.dumps({**content, DIGEST_KEY: _json_digest(path, content)}, indent=1)
    write_text(path, text)


def read_json(path: Path, cure: str, form: Any = dict[str, Any]) -> dict[str, Any]:
    """Read an object of type `form` that `write_json` wrote.

    Raises:
        DamagedFile: with the `cure`.
    """
    with damage_named(path, cure):
        content = json.loads(read_text(path, MOST_BYTES))
        if not isinstance(content, dict) or content.pop(DIGEST_KEY, None) != _json_digest(path, content):
            raise ValueError("its digest is not that of its content")
        try:
            TypeAdapter(form).validate_json(json.dumps(content), strict=True)
        except ValidationError as error:
            raise ValueError(next(explain(content, error.errors()))) from None
        return content


def write_table(path: Path, table: pa.Table, owner: str) -> None:
    """Write a Parquet table atomically, marked with its owner."""
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _OWNER: owner, _FILE: path.name})
    replace_file(path, lambda partial: pq.write_table(table, partial, compression="zstd", write_page_checksum=True))


def read_table(
    path: Path,
    cure: str,
    owner: str | None = None,
    columns: Sequence[str] | None = None,
    check: Callable[[pq.FileMetaData], None] | None = None,
) -> pa.Table:
    """Read a table that `write_table` wrote, and check its pages.

    `columns`: [] reads the footer alone. `check` refuses a footer by a ValueError; with it, texts stay dictionaries, no
    larger than the footer says.

    Raises:
        DamagedFile: with the `cure`; also for another owner or name.
    """
    with damage_named(path, cure):
        metadata = pq.read_metadata(readable(path))  # first and alone: a damaged file may claim gigabytes
        leaves = map(metadata.schema.column, range(metadata.num_columns if check else 0))
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        if check:
            check(metadata)
        # One buffer, no threads (as pq.read_table would use): a reader thread that outlives the interpreter aborts the process.
        source = readable(path) if columns == [] else pa.BufferReader(readable(path).read_bytes())
        file = pq.ParquetFile(source, read_dictionary=texts, page_checksum_verification=True)
        table = file.read(columns=columns, use_threads=False)
    stored = {_FILE: path.name.encode(), **(table.schema.metadata or {})}
    if stored[_FILE] != path.name.encode() or owner not in (None, stored.get(_OWNER, b"").decode()):
        raise DamagedFile(
            f"{path}: belongs to something else than the folder that it is in, or to another name: {cure}"
        )
    return table


def check_columns(schema: pa.Schema, wanted: Mapping[str, str], others: str = ".*") -> None:
    """Check column types by regular expressions; `missing` matches no column.

    Raises:
        ValueError: names the first column that differs.
    """
    types = {field.name: str(field.type) for field in schema}
    for name in dict.fromkeys([*wanted, *types]):
        actual, expected = types.get(name, "missing"), wanted.get(name, others)
        if not re.fullmatch(expected, actual):
            raise ValueError(f"column {name!r} is {actual}, not {expected.replace('|', ' or ')}")


def foreign_table(folder: Path, owner: str) -> Path | None:
    """Find a table in a folder that another owner wrote."""
    for path in sorted(folder.glob("*.parquet")):
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):  # an unreadable table belongs to nobody
            if (pq.read_schema(readable(path)).metadata or {}).get(_OWNER) != owner.encode():
                return path
    return None


def digest_of(content: Mapping[str, Any]) -> str:
    """Hash an object by its JSON form."""
    as_json = json.loads(json.dumps(content))  # tuples become lists, number keys text: equal after a round trip
    return hashlib.sha256(json.dumps(as_json, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def damage_named(path: Path, cure: str) -> Iterator[None]:
    """Raise errors of reading a file as DamagedFile."""
    try:
        yield
    except FileNotFoundError:
        raise DamagedFile(f"{path}: is missing: {cure}") from None
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        problem = "cannot be read" if isinstance(error, OSError) and error.errno else "is damaged"
        raise DamagedFile(f"{path}: {problem} ({one_line(str(error), 200)}): {cure}") from None


def _json_digest(path: Path, content: Mapping[str, Any]) -> str:
    # With the name: a whole file that was copied over another is damage too.
    return hashlib.sha256(f"{path.name} {digest_of(content)}".encode()).hexdigest()
