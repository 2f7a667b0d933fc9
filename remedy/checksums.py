"""Files that can tell whether they are what was written: JSON and Parquet with a digest inside.

A digest inside needs no second file that could be lost, or be older than the first. Any program reads these files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from remedy.files import replace_file
from remedy.settings import UserError

KEY = "digest"
_OWNER = b"remedy.owner"
_MARK = b"sha256: "
_SEAL = len(_MARK) + hashlib.sha256().digest_size
_MAGIC = b"PAR1"
_TAIL = 4 + len(_MAGIC)


class DamagedFile(UserError):
    """A file that is missing, cannot be read or is not what was written; names the file and what to do."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object with a digest of it and of the file's name, the whole file or none of it.

    Raises:
        OSError: it cannot be written.
    """
    text = json.dumps({**content, KEY: _json_digest(path, content)}, indent=1)
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def read_json(path: Path, cure: str) -> dict[str, Any]:
    """An object that `write_json` wrote, without its digest. `cure`: what to do if it is damaged.

    Raises:
        DamagedFile: it is not there, or not what was written.
    """
    content = plain_json(path, cure)
    if content.pop(KEY, None) != _json_digest(path, content):
        raise DamagedFile(
            f"{path}: is damaged, or of an earlier version (its digest is not that of its content): {cure}"
        )
    return content


def plain_json(path: Path, cure: str) -> dict[str, Any]:
    """Any file that holds one JSON object.

    Raises:
        DamagedFile: it is not there, or holds anything else.
    """
    try:
        content = json.loads(_bytes(path, cure).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path}: is damaged ({_first_line(error):.200}): {cure}") from None
    if not isinstance(content, dict):
        raise DamagedFile(f"{path}: is damaged (it holds {type(content).__name__}, no object): {cure}")
    return content


def write_table(path: Path, table: pa.Table, owner: str) -> None:
    """Write Parquet with a digest of the file and its name, the whole file or none of it.

    `owner`: what the file is a part of. The digest stands before the footer, where no reader looks: all of a file is found
    from its footer, which ends it.

    Raises:
        OSError: it cannot be written.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({**(table.schema.metadata or {}), _OWNER: owner}), sink, compression="zstd"
    )
    content = sink.getvalue().to_pybytes()
    body, footer = content[: _footer(content)], content[_footer(content) :]
    whole = body + _MARK + _table_digest(path, body, footer) + footer
    replace_file(path, lambda partial: partial.write_bytes(whole))


def read_table(path: Path, cure: str, owner: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """A table that `write_table` wrote under this name, or some of its columns; every byte of the file is checked first.

    Raises:
        DamagedFile: it is not there, not what was written, or a part of something else than `owner`.
    """
    content = _bytes(path, cure)
    place = _footer(content)
    seal = content[max(0, place - _SEAL) : place]
    if not seal.startswith(_MARK):
        raise DamagedFile(f"{path}: is damaged, or of an earlier version (it has no digest): {cure}")
    view = memoryview(content)
    if seal[len(_MARK) :] != _table_digest(path, view[: place - _SEAL], view[place:]):
        raise DamagedFile(f"{path}: is damaged (its digest is not that of its content): {cure}")
    try:
        # Not pq.read_table: its scanner's threads may let go of these bytes while the interpreter ends, which aborts the process.
        table = pq.ParquetFile(pa.BufferReader(content)).read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedFile(f"{path}: cannot be read ({_first_line(error)}): {cure}") from None
    _check_owner(path, cure, table.schema, owner)
    return table


def look_at_table(path: Path, cure: str, owner: str) -> None:
    """Read a table's footer alone, which takes a moment at any size; what stands before it may still be damaged.

    Raises:
        DamagedFile: it is not there, shorter than it was, or a part of something else than `owner`.
    """
    try:
        schema = pq.read_schema(path)
    except FileNotFoundError:
        raise DamagedFile(f"{path}: is missing: {cure}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedFile(f"{path}: is damaged ({_first_line(error)}): {cure}") from None
    _check_owner(path, cure, schema, owner)


def foreign_table(folder: Path, owner: str) -> Path | None:
    """A table in a folder that is a part of something else than `owner`, if there is one."""
    for path in sorted(folder.glob("*.parquet")):
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowException, OSError, ValueError):
            continue  # nobody's, since nobody can read it
        if _owner(schema) != owner:
            return path
    return None


def digest_of(content: Mapping[str, Any]) -> str:
    """Identifies an object by what it holds, as JSON writes it."""
    plain = json.loads(json.dumps(content))  # tuples are lists there, and numbers as keys are text
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _bytes(path: Path, cure: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DamagedFile(f"{path}: is missing: {cure}") from None
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read ({error.strerror or error}): {cure}") from None


def _owner(schema: pa.Schema) -> str:
    owner: bytes = (schema.metadata or {}).get(_OWNER, b"")
    return owner.decode(errors="replace")


def _check_owner(path: Path, cure: str, schema: pa.Schema, owner: str | None) -> None:
    if owner is not None and _owner(schema) != owner:
        raise DamagedFile(f"{path}: belongs to something else than the folder that it is in: {cure}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _json_digest(path: Path, content: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{path.name} {digest_of(content)}".encode()).hexdigest()


def _footer(content: bytes) -> int:
    """Where the footer of a Parquet file begins; 0 if it has none."""
    length = int.from_bytes(content[-_TAIL : -len(_MAGIC)], "little")
    return max(0, len(content) - _TAIL - length) if content.endswith(_MAGIC) else 0


def _table_digest(path: Path, body: bytes | memoryview, footer: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(os.fsencode(path.name))
    digest.update(body)
    digest.update(footer)
    return digest.digest()
