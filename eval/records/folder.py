"""An evaluation's folder: what lies where in it, and which evaluation it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from remedy.checksums import DamagedFile, digest_of, foreign_table, read_json, write_json
from remedy.data_gen.splits import text_hash
from remedy.files import clear_partials, file_name
from remedy.messages import shown
from remedy.settings import UserError

RECORDS = "records"
GENERATIONS = "generations"
SUMMARY = "summary.json"
REQUEST = "evaluation.json"
READING = "reading.json"
UNFINISHED = "unfinished"
"""What is written of conditions that are not done: a folder for each, with a file of each process."""
USUAL = {"rewrite": "none", "string_encoding": "plain", "spacing": "1", "answer_only": "False"}
"""Labels that a condition's name leaves out at these values."""
LONGEST = 150
"""Characters of a condition's name."""
NAMED = 4
"""Keys that are named at most where two evaluations differ."""


def condition_name(diagnostic: str, labels: Mapping[str, Any]) -> str:
    """A condition's name, and its files': `permutation__horizon-8__forcing-free`."""
    said = {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in labels.items()}
    parts = [f"{key}-{value}" for key, value in said.items() if value != USUAL.get(key)]
    name = "__".join(map(file_name, [diagnostic, *parts]))
    return name if len(name) <= LONGEST else f"{diagnostic}__{text_hash(str(said)):016x}"


def words_of(name: str) -> list[str]:
    """The words that `--condition` chooses a condition by: `horizon=8 forcing=free`."""
    words = [part if "=" in part else part.replace("-", "=", 1) for part in name.split("__")]
    given = {word.partition("=")[0] for word in words}
    return [*words, *(f"{key}={value}" for key, value in USUAL.items() if key not in given)]


def claim(directory: Path, request: dict[str, Any]) -> str:
    """Make the folder this evaluation's, whose digest is returned: its records and summary carry it.

    Raises:
        UserError: it is another one's.
    """
    evaluation = digest_of(request)
    path = directory / REQUEST
    for folder in (directory / RECORDS, directory / GENERATIONS):
        clear_partials(folder)
        if not path.exists() and (other := foreign_table(folder, evaluation)):
            raise UserError(f"{other}: belongs to another evaluation; choose another --out or delete it")
    if not path.exists():
        write_json(path, request)
    elif digest_of(held := read_request(directory)) != evaluation:
        differing = _differing(held, request)
        some = ", ".join(differing[:NAMED]) + (f" and {len(differing) - NAMED} more" if len(differing) > NAMED else "")
        raise UserError(
            f"{directory}: holds another evaluation (it differs in {some}); choose another --out or delete it"
        )
    return evaluation


def _differing(held: dict[str, Any], request: dict[str, Any]) -> list[str]:
    """The keys in which two requests differ, those of a section one by one."""
    found = []
    for key in dict.fromkeys([*request, *held]):
        one, other = held.get(key), request.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{key}.{inner}" for inner in _differing(one, other)]
        elif digest_of({key: one}) != digest_of({key: other}):
            found.append(key)
    return found


def read_request(folder: Path) -> dict[str, Any]:
    """Return what an evaluation's folder says it holds.

    Raises:
        UserError: it holds no evaluation, or its file is damaged.
    """
    if not (folder / REQUEST).exists():
        raise UserError(f"{folder}: holds no evaluation ({REQUEST} is missing)")
    return read_json(folder / REQUEST, "delete the file and evaluate again, which keeps the records that fit")


def refuse_unprintable(name: Any, where: str) -> None:
    """Refuse a run's name or a label that terminals and figures cannot show.

    Raises:
        UserError: the name, and `where` it is.
    """
    if isinstance(name, str) and not name.isprintable():
        raise UserError(f"{where}: the name {shown(name)} holds characters that cannot be shown: give it another")


def keep_reading(directory: Path, report: Callable[[], Mapping[str, Any]]) -> None:
    """Keep how the model is read beside the results; `report` is asked where the file is missing or damaged."""
    try:
        read_json(directory / READING, "it is written again")
    except DamagedFile:
        write_json(directory / READING, report())
