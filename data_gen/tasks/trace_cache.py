"""Cache of traces, so that each given program runs once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from remedy.data_gen import execution
from remedy.data_gen.execution.pool import Outcome, environment, trace_all
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.data_gen.execution.replies import read
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.execution.wire import problem_writer, reply_writer

log = logging.getLogger(__name__)
T = TypeVar("T")
VARIABLE = "REMEDY_CACHE"
"""The environment variable that names the folder; empty: nothing is kept."""
# Outcomes without a trace that are the program's own. What a machine's speed or walls decided is tried again.
OF_THE_PROGRAM = ("syntax", "entry", "raised", "repr", "recursion", "frames", "output", "unstable", "observed")
AT_A_TIME = 64  # programs of each worker between two writes to the cache


def traced_once(programs: Sequence[Program], tracer: TracerConfig, workers: int = 1) -> Iterator[Outcome]:
    """Yield every program's outcome in order; run those that are not cached."""
    folder = cache_folder()
    if folder is None or not programs:
        yield from trace_all(programs, tracer, workers)
        return
    cache = _Cache(folder, tracer)
    for start in range(0, len(programs), AT_A_TIME * workers):
        batch = programs[start : start + AT_A_TIME * workers]
        cached = cache.read(batch)
        missing = [program for program, outcome in zip(batch, cached) if outcome is None]
        new = list(trace_all(missing, tracer, workers)) if missing else []
        cache.write(missing, new)
        outcomes = iter(new)
        yield from (next(outcomes) if outcome is None else outcome for outcome in cached)


def cache_folder() -> Path | None:
    """Return the folder of cached outcomes, or None."""
    if (folder := os.environ.get(VARIABLE)) is not None:
        return Path(folder) if folder else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cwm-remedy"


class _Cache:
    """Outcomes of one tracer in one file."""

    def __init__(self, folder: Path, tracer: TracerConfig) -> None:
        identity = [tracer.model_dump(mode="json"), *environment(tracer), _tracers_code()]
        name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
        self._path = folder / f"traces-{name}.sqlite"

    def read(self, programs: Sequence[Program]) -> list[Outcome | None]:
        keys = [_key(program) for program in programs]
        query = f"SELECT key, outcome FROM outcomes WHERE key IN ({', '.join('?' * len(keys))})"
        stored = self._ask(lambda file: dict(file.execute(query, keys).fetchall())) or {}
        return [_outcome(stored.get(key), program) for key, program in zip(keys, programs)]

    def write(self, programs: Sequence[Program], outcomes: Sequence[Outcome]) -> None:
        rows = [(_key(program), text) for program, outcome in zip(programs, outcomes) if (text := _text(outcome))]
        if rows:
            self._ask(lambda file: file.executemany("INSERT OR REPLACE INTO outcomes VALUES (?, ?)", rows))

    def _ask(self, ask: Callable[[sqlite3.Connection], T]) -> T | None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as file, file:
                file.execute("CREATE TABLE IF NOT EXISTS outcomes (key BLOB PRIMARY KEY, outcome BLOB) WITHOUT ROWID")
                return ask(file)
        except (OSError, sqlite3.Error) as error:
            _say_once(f"{self._path}: traces are not kept there ({error}); ${VARIABLE} names another folder")
            return None


def _key(program: Program) -> bytes:
    return hashlib.sha256(json.dumps([program.name, program.code]).encode()).digest()


def _text(outcome: Outcome) -> bytes | None:
    if not isinstance(outcome, ProgramError):
        return zlib.compress(reply_writer()(outcome), 1)
    reproducible = outcome.kind in OF_THE_PROGRAM
    return zlib.compress(problem_writer()(outcome.kind, str(outcome)), 1) if reproducible else None


def _outcome(text: bytes | None, program: Program) -> Outcome | None:
    """Check a cached outcome as a sandbox's reply; None if missing or damaged."""
    if text is None:
        return None
    try:
        return read(zlib.decompress(text), program)
    except zlib.error:
        return None
    except ProgramError as error:
        return error if error.kind in OF_THE_PROGRAM else None


@lru_cache(maxsize=1)
def _tracers_code() -> str:
    [folder] = execution.__path__
    digest = hashlib.sha256()
    for path in sorted(Path(folder).glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=8)
def _say_once(words: str) -> None:
    log.warning("%s", words)
