"""The report: Markdown, and one self-contained HTML page, from the evaluations and measurements in folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from remedy.data_gen.settings import UserError
from remedy.eval.checkpoint import Checkpoint
from remedy.eval.costs.measure import CUTS, TOKENS
from remedy.eval.costs.measure import REQUEST as MEASURED
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.evaluate import RECORDS, REQUEST, SUMMARY, read_request
from remedy.eval.records import LabelValue, read_records, traced_only
from remedy.eval.report.costs import Measurement, measure_sections
from remedy.eval.report.failures import failure_sections, moved_section
from remedy.eval.report.render import write_pages
from remedy.eval.report.results import accuracy_by_cost, axis_sections, by_trace_tokens, metric_sections
from remedy.eval.report.seeds import repeated, seed_sections
from remedy.eval.report.verdicts import Comparison, Verdict, decide, default_comparisons
from remedy.eval.sections import Section
from remedy.eval.summary import ConditionSummary, read_summary, summarise


class Evaluations(NamedTuple):
    """What a report is made of: the requests, their conditions as they were summarised, and the traced programs' records."""

    requests: list[dict[str, Any]]
    conditions: list[ConditionSummary]
    records: pd.DataFrame


class Report(NamedTuple):
    """A report before it is rendered."""

    verdicts: list[Verdict]
    sections: list[Section]


def report(
    directories: Sequence[Path], output: Path, comparisons: Sequence[Comparison] | None = None, title: str = "Report"
) -> Path:
    """Write `report.md`, `report.html` and `figures/` from evaluations and measurements; returns the page's path.

    Without `comparisons`, every run is compared with the first one found, condition by condition, and on real programs every
    condition with the first of its run; runs that are one variant with several seeds are put together instead.

    Raises:
        UserError: no evaluation or measurement is found, or a comparison does not fit the records.
    """
    return write_pages(*compose(directories, comparisons), output, title)


def compose(directories: Sequence[Path], comparisons: Sequence[Comparison] | None = None) -> Report:
    """The verdicts and sections of a report.

    Raises:
        UserError: as `report`.
    """
    folders, measured = find(directories)
    found = read_evaluations(folders)
    variants = {request["run"]: request["variant"] for request in found.requests if request.get("variant")}
    if not repeated(variants):
        variants = {}
    if comparisons is None:  # of runs that repeat each other, none is a baseline for all
        comparisons = [] if variants else default_comparisons(found.conditions)
    fingerprints = {request["run"]: request["checkpoint"]["tokenizer_fingerprint"] for request in found.requests}
    sections = [Section("Runs", rows=runs_table(found))] if found.requests else []
    for diagnostic in dict.fromkeys(condition["diagnostic"] for condition in found.conditions):
        sections += diagnostic_sections(diagnostic, found, variants)
    if found.conditions:
        sections.append(Section("Right answers by tokens", draw=partial(accuracy_by_cost, found.conditions)))
    sections += moved_section(comparisons, found.records)
    sections += measure_sections(
        [read_measurement(folder) for folder in measured], found.conditions, found.records, fingerprints
    )
    return Report([decide(comparison, found.records) for comparison in comparisons], said_once(sections))


def said_once(sections: Sequence[Section]) -> list[Section]:
    """The sections, each note only where it is first given."""
    notes: set[str] = set()
    found = []
    for section in sections:
        found.append(section._replace(note="") if section.note in notes else section)
        notes.add(section.note)
    return found


def diagnostic_sections(diagnostic: str, found: Evaluations, variants: dict[str, str]) -> list[Section]:
    """The sections on one diagnostic: its own, or those that any diagnostic has. `variants`: of runs that repeat each other."""
    conditions = [condition for condition in found.conditions if condition["diagnostic"] == diagnostic]
    records = found.records[found.records["diagnostic"] == diagnostic].dropna(axis=1, how="all")
    kind = DIAGNOSTICS.get(diagnostic)
    name, axis = (kind.title, kind.axis) if kind is not None else (diagnostic.capitalize(), None)
    sections = seed_sections(name, axis, conditions, variants)
    own = kind.sections(conditions, records) if kind is not None else None
    if own is not None:
        sections += own
    elif axis is not None:
        sections += axis_sections(name, axis, conditions)
    else:
        sections += metric_sections(name, conditions, kind.published if kind is not None else ())
    sections += failure_sections(name, conditions)
    if axis is None and not records.empty:
        sections.append(
            Section(f"{name}: right answers by tokens of the true trace", draw=partial(by_trace_tokens, records))
        )
    return sections


def find(directories: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """All folders of evaluations, and all of measurements, at or below the given ones, in the order given.

    Raises:
        UserError: a folder holds none.
    """
    evaluations: list[Path] = []
    measured: list[Path] = []
    for directory in directories:
        below = sorted(path.parent for path in directory.rglob(REQUEST))
        below = [folder for folder in below if any((folder / RECORDS).glob("*.parquet"))]
        counted = sorted(path.parent for path in directory.rglob(MEASURED))
        if not below and not counted:
            raise UserError(
                f"{directory}: no evaluation or measurement found there; `remedy evaluate` and `remedy measure` write them"
            )
        evaluations += [folder for folder in below if folder not in evaluations]
        measured += [folder for folder in counted if folder not in measured]
    return evaluations, measured


def read_evaluations(folders: Sequence[Path]) -> Evaluations:
    """The evaluations in folders; one that is not finished is summarised as far as it has come.

    Raises:
        UserError: a file is damaged or missing, or two folders hold the same run under the same condition.
    """
    requests, conditions, records = [], [], []
    held: dict[tuple[str, str, frozenset[tuple[str, LabelValue]]], Path] = {}
    for folder in folders:
        requests.append(read_request(folder))
        mine = [read_records(path) for path in sorted((folder / RECORDS).glob("*.parquet"))]
        if (folder / SUMMARY).exists():
            found = read_summary(folder / SUMMARY)
            if len(found) > len(mine):
                raise UserError(f"{folder}: records of {len(found) - len(mine)} conditions are missing; evaluate again")
        else:
            found = [condition for one in mine for condition in summarise(one)]
        for condition in found:
            key = (condition["run"], condition["diagnostic"], frozenset(condition["labels"].items()))
            other = held.setdefault(key, folder)
            if other != folder:
                raise UserError(
                    f"{other} and {folder} hold the same conditions of a run {condition['run']!r}: "
                    "evaluate one of them anew with another --name"
                )
        conditions += found
        records += mine
    together = pd.concat(records, ignore_index=True) if records else pd.DataFrame({"diagnostic": [], "failure": []})
    return Evaluations(requests, conditions, traced_only(together))


def read_measurement(folder: Path) -> Measurement:
    """One folder of `remedy measure`.

    Raises:
        UserError: a file of it is missing or damaged.
    """
    try:
        request = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
        return Measurement(request, pd.read_parquet(folder / TOKENS), pd.read_parquet(folder / CUTS))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: damaged measurement ({str(error).splitlines()[0]}); measure again") from None


def runs_table(found: Evaluations) -> list[list[str]]:
    """What every run's checkpoint is, what it is evaluated on, and on how many examples it was scored."""
    rows = [["Run", "Model", "Parameters", "Tokenizer", "Data", "Examples"]]
    for request in found.requests:
        about: Checkpoint = request["checkpoint"]
        mixers = " + ".join(f"{mixer} ({values})" if values else mixer for mixer, values in about["mixers"].items())
        count = sum(condition["examples"] for condition in found.conditions if condition["run"] == request["run"])
        rows.append(
            [
                request["run"],
                f"{mixers or about['model_type']}\n{about['num_hidden_layers']} layers, width {about['hidden_size']}",
                f"{about['parameters']:,}",
                phrase(about["tokenizer"]),
                phrase(request["data"]["task"]),
                f"{count:,}",
            ]
        )
    return rows


def phrase(settings: dict[str, Any]) -> str:
    """Settings that have a kind, in words: `bpe: vocab_size 400`. Those that are empty are not said."""
    said = []
    for key, value in settings.items():
        if isinstance(value, list):
            value = " to ".join(map(str, value)) if _is_range(value) else ", ".join(map(str, value))
        if key != "kind" and value not in ("", None, False) and not isinstance(value, dict):
            said.append(key if value is True else f"{key} {value}")
    return f"{settings['kind']}: {'; '.join(said)}" if said else str(settings["kind"])


def _is_range(values: list[Any]) -> bool:
    return len(values) == 2 and all(isinstance(value, int) for value in values)
