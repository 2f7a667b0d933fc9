"""The evaluations and measurements in folders that a report is made of."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from remedy.checksums import digest_of, read_json, read_table
from remedy.eval.costs import PATTERNS, TOKENS
from remedy.eval.costs import REQUEST as MEASURED
from remedy.eval.records.folder import READING, RECORDS, REQUEST, SUMMARY, read_request
from remedy.eval.records.knowledge import Knowledge
from remedy.eval.records.schema import CURE, LabelValue, read_records, traced_only
from remedy.eval.records.summary import ConditionSummary, summarise
from remedy.eval.report.planned import SELECTION, Missing, named
from remedy.settings import UserError

log = logging.getLogger(__name__)


class Evaluations(NamedTuple):
    """The requests, with how each model was read as `reading` where that was kept; their conditions; the records of traced programs
    with their `variant`; and what is missing."""

    requests: list[dict[str, Any]]
    conditions: list[ConditionSummary]
    records: pd.DataFrame
    missing: list[Missing]


class Measurement(NamedTuple):
    """One folder of `remedy measure`: the request, token counts, and uses of patterns."""

    request: Mapping[str, Any]
    tokens: pd.DataFrame
    patterns: pd.DataFrame


class Found(NamedTuple):
    """The folders of evaluations, of measurements, and of trials by which variants chose their settings."""

    evaluations: list[Path]
    measured: list[Path]
    selections: list[Path]


def find(directories: Sequence[Path]) -> Found:
    """All folders at or below the given ones, in the order given.

    Raises:
        UserError: a folder holds none.
    """
    found = Found([], [], [])
    for directory in directories:
        here = [sorted(path.parent for path in directory.rglob(name)) for name in (REQUEST, MEASURED, SELECTION)]
        if not any(here):
            raise UserError(
                f"{directory}: no evaluation or measurement found there; `remedy evaluate` and `remedy measure` write them"
            )
        for kept, folders in zip(found, here):
            kept += [folder for folder in folders if folder not in kept]
    return found


def read_evaluations(folders: Sequence[Path]) -> Evaluations:
    """The evaluations in folders, each summarised as far as it has come; what is missing is said.

    Raises:
        UserError: a file is damaged, or missing from an evaluation that is finished; or two folders hold the same run under
            the same condition.
    """
    found = Evaluations([], [], pd.DataFrame({"run": [], "variant": [], "diagnostic": [], "failure": []}), [])
    records = []
    held: dict[tuple[str, str, frozenset[tuple[str, LabelValue]]], Path] = {}
    for folder in folders:
        request = read_request(folder)
        evaluation, variant = digest_of(request), request.get("variant") or request["run"]
        paths = {slug: folder / RECORDS / f"{slug}.parquet" for slug in request["conditions"]}
        absent = tuple(slug for slug, path in paths.items() if not path.exists())
        if absent:
            said = named([slug.replace("__", ", ") for slug in absent])
            if (folder / SUMMARY).exists():
                raise UserError(f"{folder / RECORDS}: the records of {said} are missing; evaluate again")
            found.missing.append(Missing(request["run"], variant, absent))
            log.warning("%s: not evaluated yet, so not in the report: %s", folder, said)
        knowledge = Knowledge(request.get("training"), request.get("new_tokens", 0))
        for slug in [slug for slug in paths if slug not in absent]:
            mine = read_records(paths[slug], evaluation).assign(variant=variant)
            (condition,) = summarise(mine, knowledge)
            records.append(mine)
            found.conditions.append(condition)
            key = condition["run"], condition["diagnostic"], frozenset(condition["labels"].items())
            if (other := held.setdefault(key, folder)) != folder:
                raise UserError(
                    f"{other} and {folder} hold the same conditions of a run {condition['run']!r}: "
                    "evaluate one of them anew with another --name"
                )
        path = folder / READING
        found.requests.append({**request, "reading": read_json(path, CURE) if path.exists() else {}})
    if folders and not records:
        raise UserError(f"{folders[0]}: no condition is evaluated yet; `remedy evaluate`, run again, goes on")
    if not records:
        return found
    together = pd.concat(records, ignore_index=True)
    together = together.astype(dict.fromkeys(together.select_dtypes("string"), object))  # its rows are taken faster
    return found._replace(records=traced_only(together))


def variants_of(requests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Each run's variant; a run that names none is its own."""
    return {request["run"]: request.get("variant") or request["run"] for request in requests}


def read_measurement(folder: Path) -> Measurement:
    """One folder of `remedy measure`.

    Raises:
        UserError: a file of it is missing or damaged.
    """
    cure = "delete the folder and measure again"
    request = read_json(folder / MEASURED, cure)
    tokens, patterns = (read_table(folder / name, cure, digest_of(request)).to_pandas() for name in (TOKENS, PATTERNS))
    return Measurement(request, tokens, patterns)
