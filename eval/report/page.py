"""The report: Markdown, and one self-contained HTML page, from the evaluations and measurements in folders."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.schema import label_columns
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.budgets import NOTE as BUDGET_NOTE
from remedy.eval.report.budgets import as_it_is, runs_table
from remedy.eval.report.comparable import judged
from remedy.eval.report.comparisons import baseline_of, by_diagnostic, default_comparisons, diagnoses
from remedy.eval.report.constrained import constraint_sections
from remedy.eval.report.costs import measure_sections
from remedy.eval.report.curves import curve_section
from remedy.eval.report.failures import failure_sections, moved_section
from remedy.eval.report.held_out import held_out_section
from remedy.eval.report.in_training import in_training_section
from remedy.eval.report.one_step import one_step_sections
from remedy.eval.report.planned import Missing, missing_runs
from remedy.eval.report.reading import (
    Evaluations,
    find,
    named,
    read_evaluations,
    read_measurement,
    read_readings,
    variants_of,
)
from remedy.eval.report.record_pages import record_sections
from remedy.eval.report.render import write_pages
from remedy.eval.report.results import accuracy_by_cost, axis_sections, by_trace_tokens, metric_sections
from remedy.eval.report.seeds import seed_sections
from remedy.eval.report.selection import read_selection, selection_sections
from remedy.eval.report.token_costs import token_cost_sections
from remedy.eval.report.trust import doubt
from remedy.eval.report.verdicts import Comparison, Verdict, decide
from remedy.eval.report.wording import DIAGNOSIS_NOTE, diagnosis_rows
from remedy.eval.tables.sections import Section
from remedy.messages import suggest
from remedy.owner import owned
from remedy.settings import UserError

MISSING_NOTE = (
    "Conditions that were asked for and have no records yet: `remedy evaluate`, run again, goes on with them. All of a run: its "
    "experiment planned it (`experiment.json`), and no evaluation of it is in this report; `remedy run`, run again, makes what is not "
    "made."
)


class Report(NamedTuple):
    """A report before it is rendered. `remarks`: sentences on what is missing, and on baselines that nobody chose."""

    verdicts: list[Verdict]
    remarks: list[str]
    sections: list[Section]
    records: pd.DataFrame
    """Of all evaluations."""


def report(
    directories: Sequence[Path],
    output: Path,
    comparisons: Sequence[Comparison] | None = None,
    title: str = "Report",
    baselines: Sequence[str] = (),
    trusts: Sequence[Path] = (),
    partial: bool = False,
) -> Path:
    """Write `report.md`, `report.html`, `figures/` and `records/` from evaluations and measurements; returns the page's path.

    Without `comparisons`, every variant is compared with the baseline, condition by condition, and on real programs every
    condition with the plainest of its variant. `baselines`: variants or runs that are baselines; of a diagnostic without one, it
    is the first found. `trusts`: files of calibrators, each judged on what the report holds of its model. `partial`: judge recipes of
    which runs are missing, by the others.

    Raises:
        UserError: no evaluation or measurement is found, a comparison does not fit the records, there is no such baseline, it is to be
            partial and nothing is missing, or another process writes to `output`.
    """
    composed = compose(directories, comparisons, baselines, trusts, partial)
    with owned(output):
        pages = record_sections(find(directories).evaluations, composed.records, output)
        return write_pages(composed.verdicts, composed.remarks, [*composed.sections, *pages], output, title)


def compose(
    directories: Sequence[Path],
    comparisons: Sequence[Comparison] | None = None,
    baselines: Sequence[str] = (),
    trusts: Sequence[Path] = (),
    partial: bool = False,
) -> Report:
    """The verdicts and sections of a report.

    Raises:
        UserError: as `report`.
    """
    folders, measured, selections = find(directories)
    found = read_evaluations(folders)
    found = found._replace(missing=[*found.missing, *missing_runs(folders)])
    variants = variants_of(found.requests)
    unknown = next((name for name in baselines if name not in {*variants, *variants.values()}), None)
    if unknown is not None:
        raise UserError(f"baseline: no variant or run {unknown!r}; {suggest(unknown, [*variants, *variants.values()])}")
    said = missing_said(found.missing, partial)
    if comparisons is None:
        said += chosen_baselines(found.conditions, variants, baselines)
        comparisons = default_comparisons(found.conditions, variants, baselines)
        comparisons += diagnoses(found.conditions, variants)
    decided = decide(comparisons, found.records, [one["run"] for one in found.requests if as_it_is(one)])
    requests = read_readings(folders, found.requests)
    decided = [judged(item, requests, variants, found.missing, partial) for item in decided]
    fingerprints = {request["run"]: request["checkpoint"]["tokenizer_fingerprint"] for request in found.requests}
    trained = any(request.get("training") for request in found.requests)
    sections = [Section("Runs", rows=runs_table(found), note=BUDGET_NOTE if trained else "")] if found.requests else []
    sections += curve_section(found.requests, variants)
    sections += selection_sections([read_selection(folder) for folder in selections])
    sections += missing_section(found)
    for diagnostic in dict.fromkeys(condition["diagnostic"] for condition in found.conditions):
        sections += diagnostic_sections(diagnostic, found, variants)
    sections += doubt(trusts, [*zip(folders, found.requests)])
    if found.conditions:
        sections.append(
            Section("Right answers by tokens", draw=functools.partial(accuracy_by_cost, found.conditions, variants))
        )
    sections += token_cost_sections(found.conditions)
    sections += diagnosis_section([item for item in decided if item.word is None])
    sections += moved_section([item.comparison for item in decided if item.word is not None], found.records)
    sections += measure_sections(
        [read_measurement(folder) for folder in measured], found.conditions, found.records, fingerprints
    )
    return Report([item for item in decided if item.word is not None], said, said_once(sections), found.records)


def missing_said(missing: Sequence[Missing], partial: bool) -> list[str]:
    """A sentence on what is missing, if anything is.

    Raises:
        UserError: a partial report is asked for, and nothing is.
    """
    if not missing and partial:
        raise UserError("--partial does nothing, since no run is missing: remove it")
    judged = "recipes are judged without it (--partial)" if partial else "no recipe is judged without all of its runs"
    return [f"Missing: {named([str(one) for one in missing])}; {judged}."] if missing else []


def chosen_baselines(
    conditions: Sequence[ConditionSummary], variants: dict[str, str], baselines: Sequence[str]
) -> list[str]:
    """A sentence on each baseline that several variants are compared with because it comes first."""
    found = []
    for diagnostic, mine in by_diagnostic(conditions).items():
        names = {variants[condition["run"]] for condition in mine}
        first = baseline_of(mine, variants, baselines)
        declared = {first, *(run for run, variant in variants.items() if variant == first)} & set(baselines)
        if len(names) > 1 and not declared:
            found.append(
                f"Nobody named a baseline for {diagnostic}: it is {first}, which comes first (`baseline: true` on a run of an "
                "experiment, or `remedy report --baseline`, names another)."
            )
    return found


def diagnosis_section(items: list[Verdict]) -> list[Section]:
    """What feeding the truth changes; nothing where nothing was fed."""
    title = "Diagnosis: what feeding the truth changes"
    return [Section(title, rows=diagnosis_rows(items), note=DIAGNOSIS_NOTE)] if items else []


def said_once(sections: Sequence[Section]) -> list[Section]:
    """The sections, each note only where it is first given."""
    notes: set[str] = set()
    found = []
    for section in sections:
        found.append(section._replace(note="") if section.note in notes else section)
        notes.add(section.note)
    return found


def diagnostic_sections(diagnostic: str, found: Evaluations, variants: dict[str, str]) -> list[Section]:
    """The sections on one diagnostic: its own, or those that any diagnostic has. `variants`: of every run."""
    conditions = [condition for condition in found.conditions if condition["diagnostic"] == diagnostic]
    records = found.records[found.records["diagnostic"] == diagnostic]
    others = [name for name in label_columns(records) if records[name].isna().all()]  # labels of other diagnostics
    records = records.drop(columns=others)
    kind = DIAGNOSTICS.get(diagnostic)
    name, axis = (kind.title, kind.axis) if kind is not None else (diagnostic.capitalize(), None)
    if any(axis not in condition["labels"] for condition in conditions):
        axis = None  # records of a version that had another one
    sections = kind.headline(conditions) if kind is not None else []
    sections += in_training_section(name, conditions, records, found.requests)
    sections += seed_sections(name, axis, conditions, records, variants)
    own = kind.sections(conditions, records) if kind is not None else None
    if own is not None:
        sections += own
    elif axis is not None:
        sections += axis_sections(name, axis, conditions, variants)
    else:
        sections += metric_sections(name, conditions, kind.published if kind is not None else ())
    sections += held_out_section(name, conditions, records, found.requests)
    sections += one_step_sections(name, axis, conditions, records, variants)
    sections += constraint_sections(name, conditions)
    sections += failure_sections(name, conditions)
    if axis is None and not records.empty:
        sections.append(
            Section(
                f"{name}: right answers by tokens of the true trace",
                draw=functools.partial(by_trace_tokens, records, conditions),
            )
        )
    return sections


def missing_section(found: Evaluations) -> list[Section]:
    """The runs, and conditions of runs, that should be in the report and are not, if there are any."""
    rows = [
        [one.run, condition.replace("__", ", ")] for one in found.missing for condition in one.conditions or ("all",)
    ]
    return [Section("Missing", rows=[["Run", "Condition"], *rows], note=MISSING_NOTE)] if rows else []
