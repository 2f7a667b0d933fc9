"""Reading of evaluations and measurements from folders."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from remedy.checksums import digest_of, read_json, read_table
from remedy.eval.costs import PATTERNS, TOKENS
from remedy.eval.costs import REQUEST as MEASURED
from remedy.eval.records.folder import READING, RECORDS, REQUEST, SUMMARY, read_request
from remedy.eval.records.knowledge import Knowledge
from remedy.eval.records.schema import CURE, LabelValue, read_records, traced_only
from remedy.eval.records.summary import ConditionSummary, summarise
from remedy.eval.report.planned import SELECTION, MissingRun, first_names
from remedy.settings import UserError

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)


class Evaluations(NamedTuple):
    """Contents of evaluations; `records`: of traced programs."""

    requests: list[dict[str, Any]]
    conditions: list[ConditionSummary]
    records: pd.DataFrame
    missing: list[MissingRun]


class Measurement(NamedTuple):
    """One folder of `remedy measure`."""

    request: Mapping[str, Any]
    tokens: pd.DataFrame
    patterns: pd.DataFrame


class Folders(NamedTuple):
    """Folders of evaluations, measurements and tried settings (`selection.json`)."""

    evaluations: list[Path]
    measured: list[Path]
    selections: list[Path]


def find(directories: Sequence[Path]) -> Folders:
    """Find these folders at or below the given ones.

    Raises:
        UserError: a given folder has none.
    """
    result = Folders([], [], [])
    for directory in directories:
        lists = [sorted(path.parent for path in directory.rglob(name)) for name in (REQUEST, MEASURED, SELECTION)]
        if not any(lists):
            raise UserError(
                f"{directory}: no evaluation or measurement found there; `remedy evaluate` and `remedy measure` write them"
            )
        for known, folders in zip(result, lists):
            known += [folder for folder in folders if folder not in known]
    return result


def read_evaluations(folders: Sequence[Path]) -> Evaluations:
    """Read evaluations, also unfinished ones.

    Raises:
        UserError: a file is damaged or missing, no condition is evaluated, or two folders hold the same condition of a
            run.
    """
    import pandas as pd  # here: commands that only read settings start without pandas

    evaluations = Evaluations([], [], pd.DataFrame({"run": [], "variant": [], "diagnostic": [], "failure": []}), [])
    records = []
    folder_of: dict[tuple[str, str, frozenset[tuple[str, LabelValue]]], Path] = {}
    for folder in folders:
        request = read_request(folder)
        evaluation, variant = digest_of(request), request.get("variant") or request["run"]
        paths = {slug: folder / RECORDS / f"{slug}.parquet" for slug in request["conditions"]}
        absent = tuple(slug for slug, path in paths.items() if not path.exists())
        if absent:
            names = first_names([slug.replace("__", ", ") for slug in absent])
            if (folder / SUMMARY).exists():
                raise UserError(f"{folder / RECORDS}: the records of {names} are missing; evaluate again")
            evaluations.missing.append(MissingRun(request["run"], variant, absent))
            log.warning("%s: not evaluated yet, so not in the report: %s", folder, names)
        knowledge = Knowledge(request.get("training"), request.get("new_tokens", 0))
        for slug in [slug for slug in paths if slug not in absent]:
            of_condition = read_records(paths[slug], evaluation).assign(variant=variant)
            (condition,) = summarise(of_condition, knowledge)
            records.append(of_condition)
            evaluations.conditions.append(condition)
            key = condition["run"], condition["diagnostic"], frozenset(condition["labels"].items())
            if (other := folder_of.setdefault(key, folder)) != folder:
                raise UserError(
                    f"{other} and {folder} hold the same conditions of a run {condition['run']!r}: "
                    "evaluate one of them anew with another --name"
                )
        path = folder / READING
        evaluations.requests.append({**request, "reading": read_json(path, CURE) if path.exists() else {}})
    if folders and not records:
        raise UserError(f"{folders[0]}: no condition is evaluated yet; `remedy evaluate`, run again, goes on")
    if not records:
        return evaluations
    combined = pd.concat(records, ignore_index=True)
    # pandas selects rows of object columns faster than of string columns.
    combined = combined.astype(dict.fromkeys(combined.select_dtypes("string"), object))
    return evaluations._replace(records=traced_only(combined))


def variants_of(requests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Map each run to its variant, or else to itself."""
    return {request["run"]: request.get("variant") or request["run"] for request in requests}


def read_measurement(folder: Path) -> Measurement:
    """Read one folder of `remedy measure`.

    Raises:
        UserError: a file is missing or damaged.
    """
    cure = "delete the folder and measure again"
    request = read_json(folder / MEASURED, cure)
    tokens, patterns = (read_table(folder / name, cure, digest_of(request)).to_pandas() for name in (TOKENS, PATTERNS))
    return Measurement(request, tokens, patterns)
