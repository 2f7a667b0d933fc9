"""The evaluations and measurements in folders that a report is made of, checked as they are read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from remedy.checksums import digest_of, read_json, read_table
from remedy.eval.costs.measure import CUTS, TOKENS
from remedy.eval.costs.measure import REQUEST as MEASURED
from remedy.eval.records.folder import READING, RECORDS, REQUEST, SUMMARY, read_request, refuse_unprintable
from remedy.eval.records.remarks import untrained
from remedy.eval.records.schema import ROLE_COLUMNS, LabelValue, read_records, traced_only
from remedy.eval.records.summary import ConditionSummary, read_summary, summarise
from remedy.eval.report.planned import SELECTION, Missing
from remedy.settings import UserError

log = logging.getLogger(__name__)


class Evaluations(NamedTuple):
    """The requests, their conditions as they were summarised, the traced programs' records with their `variant`, and what is
    missing."""

    requests: list[dict[str, Any]]
    conditions: list[ConditionSummary]
    records: pd.DataFrame
    missing: list[Missing]


class Measurement(NamedTuple):
    """One folder of `remedy measure`: the request, token counts, and uses of patterns."""

    request: Mapping[str, Any]
    tokens: pd.DataFrame
    cuts: pd.DataFrame


class Found(NamedTuple):
    """The folders of evaluations, of measurements, and of trials by which variants chose their settings."""

    evaluations: list[Path]
    measured: list[Path]
    selections: list[Path]


def find(directories: Sequence[Path]) -> Found:
    """All folders at or below the given ones, in the order given.

    Raises:
        UserError: a folder holds none, or records without the evaluation that they are of.
    """
    evaluations: list[Path] = []
    measured: list[Path] = []
    selections: list[Path] = []
    for directory in directories:
        below = sorted(path.parent for path in directory.rglob(REQUEST))
        counted = sorted(path.parent for path in directory.rglob(MEASURED))
        for records in sorted(directory.rglob(RECORDS)):
            if records.parent not in below and any(records.glob("*.parquet")):
                raise UserError(f"{records.parent / REQUEST}: is missing beside its records: evaluate again")
        for tokens in sorted(directory.rglob(TOKENS)):
            if tokens.parent not in counted:
                raise UserError(f"{tokens.parent / MEASURED}: is missing beside {TOKENS}: measure again")
        chosen = sorted(path.parent for path in directory.rglob(SELECTION))
        if not below and not counted and not chosen:
            raise UserError(
                f"{directory}: no evaluation or measurement found there; `remedy evaluate` and `remedy measure` write them"
            )
        evaluations += [folder for folder in below if folder not in evaluations]
        measured += [folder for folder in counted if folder not in measured]
        selections += [folder for folder in chosen if folder not in selections]
    return Found(evaluations, measured, selections)


def read_evaluations(folders: Sequence[Path]) -> Evaluations:
    """The evaluations in folders. One that is not finished is summarised as far as it has come, and what is missing is said.

    Raises:
        UserError: a file is damaged, or missing from an evaluation that is finished; or two folders hold the same run under
            the same condition.
    """
    requests, conditions, records, missing = [], [], [], []
    held: dict[tuple[str, str, frozenset[tuple[str, LabelValue]]], Path] = {}
    for folder in folders:
        request = read_request(folder)
        requests.append(request)
        evaluation = digest_of(request)
        paths = {slug: folder / RECORDS / f"{slug}.parquet" for slug in request["conditions"]}
        absent = [slug for slug, path in paths.items() if not path.exists()]
        mine = [read_records(path, evaluation) for slug, path in paths.items() if slug not in absent]
        if (folder / SUMMARY).exists():
            found = read_summary(folder / SUMMARY, evaluation)
            if absent:
                raise UserError(
                    f"{folder / RECORDS}: the records of {named(_spaced(absent))} are missing; evaluate again"
                )
        else:
            why = untrained(request.get("training"), request.get("new_tokens", 0))
            found = [condition for one in mine for condition in summarise(one, why)]
        if absent:
            missing.append(Missing(request["run"], request.get("variant") or request["run"], tuple(absent)))
            log.warning("%s: not evaluated yet, so not in the report: %s", folder, named(_spaced(absent)))
        for condition in found:
            for text in (condition["run"], condition["diagnostic"], *condition["labels"].values()):
                refuse_unprintable(text, str(folder))
            key = (condition["run"], condition["diagnostic"], frozenset(condition["labels"].items()))
            other = held.setdefault(key, folder)
            if other != folder:
                raise UserError(
                    f"{other} and {folder} hold the same conditions of a run {condition['run']!r}: "
                    "evaluate one of them anew with another --name"
                )
        conditions += found
        records += mine
    if folders and not conditions:
        raise UserError(f"{folders[0]}: no condition is evaluated yet; `remedy evaluate`, run again, goes on")
    together = (
        pd.concat(records, ignore_index=True) if records else pd.DataFrame({"run": [], "diagnostic": [], "failure": []})
    )
    together = together.astype(
        dict.fromkeys(together.select_dtypes("string"), object)
    )  # rows of these are taken faster
    together = together.assign(variant=together["run"].map(variants_of(requests)))
    return Evaluations(requests, conditions, traced_only(together), missing)


def read_readings(folders: Sequence[Path], requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The requests of these folders, each with how its model was read as `reading`; empty where that was not kept.

    Raises:
        UserError: a file is damaged.
    """
    cure = "evaluate again, which writes it anew"
    paths = [folder / READING for folder in folders]
    readings = [read_json(path, cure) if path.exists() else {} for path in paths]
    return [{**request, "reading": reading} for request, reading in zip(requests, readings, strict=True)]


def variants_of(requests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Each run's variant; a run that names none is its own."""
    return {request["run"]: request.get("variant") or request["run"] for request in requests}


def named(names: Sequence[str]) -> str:
    """The first of some names, and how many more."""
    return "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _spaced(slugs: Sequence[str]) -> list[str]:
    return [slug.replace("__", ", ") for slug in slugs]


def read_measurement(folder: Path) -> Measurement:
    """One folder of `remedy measure`.

    Raises:
        UserError: a file of it is missing or damaged.
    """
    cure = "delete the folder and measure again"
    request = read_json(folder / MEASURED, cure)
    tokens, cuts = (read_table(folder / name, cure, digest_of(request)).to_pandas() for name in (TOKENS, CUTS))
    for name in (*request["tokenizers"], *tokens["benchmark"].unique()):
        refuse_unprintable(name, str(folder))
    if missing := sorted({*ROLE_COLUMNS.values(), "cluster"} - {*tokens.columns}):
        raise UserError(f"{folder / TOKENS}: a measurement of another version, without {', '.join(missing)}: {cure}")
    return Measurement(request, tokens, cuts)
