"""The report: what was found first, all else folded away, from the evaluations and measurements in folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from remedy.eval.records.schema import label_columns
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison
from remedy.eval.report.costs import measure_sections, token_sections
from remedy.eval.report.defaults import baseline_of, by_diagnostic, default_comparisons, diagnoses
from remedy.eval.report.failures import failure_sections, moved_section
from remedy.eval.report.fairness import as_it_is, judged
from remedy.eval.report.planned import Missing, missing_runs, read_selection
from remedy.eval.report.reading import (
    Evaluations,
    find,
    named,
    read_evaluations,
    read_measurement,
    read_readings,
    variants_of,
)
from remedy.eval.report.results import held_out_section, result_sections
from remedy.eval.report.runs import losses, run_sections
from remedy.eval.report.steps import step_sections
from remedy.eval.report.verdicts import Verdict, decide
from remedy.eval.report.wording import DIAGNOSIS_NOTE, diagnosis_rows
from remedy.eval.tables.sections import RIGHT, Rows, Section, folded
from remedy.messages import suggest
from remedy.owner import owned
from remedy.settings import UserError


class Report(NamedTuple):
    """A report before it is rendered. `remarks`: sentences on what is missing, and on baselines that nobody chose; `records`: of all
    evaluations; `variants`: of every run."""

    verdicts: list[Verdict]
    remarks: list[str]
    sections: list[Section]
    records: pd.DataFrame
    conditions: list[ConditionSummary]
    variants: dict[str, str]


def report(
    directories: Sequence[Path],
    output: Path,
    comparisons: Sequence[Comparison] | None = None,
    title: str = "Report",
    baselines: Sequence[str] = (),
    trusts: Sequence[Path] = (),
    partial: bool = False,
) -> Path:
    """Write `report.html`, `report.md`, `report.json`, CSV, `figures/` and `records/` from evaluations and measurements; returns the
    page's path.

    Without `comparisons`, every variant is compared with the baseline, condition by condition, and on real programs every
    condition with the plainest of its variant. `baselines`: variants or runs that are baselines; of a diagnostic without one, it
    is the first found. `trusts`: files of calibrators, each judged on what the report holds of its model. `partial`: judge recipes of
    which runs are missing, by the others.

    Raises:
        UserError: no evaluation or measurement is found, a comparison does not fit the records, there is no such baseline, it is to be
            partial and nothing is missing, or another process writes to `output`.
    """
    from remedy.eval.report.records import record_sections
    from remedy.eval.report.render import write_pages

    found = compose(directories, comparisons, baselines, trusts, partial)
    with owned(output):
        sections = [*found.sections, *record_sections(find(directories).evaluations, found.records, output)]
        return write_pages(found.verdicts, found.remarks, sections, output, title, found.conditions, found.variants)


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
    remarks = missing_said(found.missing, partial)
    if comparisons is None:
        remarks += chosen_baselines(found.conditions, variants, baselines)
        comparisons = default_comparisons(found.conditions, variants, baselines)
        comparisons += diagnoses(found.conditions, variants)
    untrained = [one["run"] for one in found.requests if as_it_is(one)]
    decided = decide(comparisons, found.records, untrained, losses(found.requests))
    requests = read_readings(folders, found.requests)
    decided = [judged(item, requests, variants, found.missing, partial) for item in decided]
    verdicts = [item for item in decided if item.word is not None]
    sections = diagnosis_section([item for item in decided if item.word is None])
    for diagnostic in dict.fromkeys(condition["diagnostic"] for condition in found.conditions):
        sections += diagnostic_sections(diagnostic, found, variants)
    sections += moved_section([item.comparison for item in verdicts], found.records)
    sections += token_sections(found.conditions, variants)
    sections += measure_sections([read_measurement(folder) for folder in measured])
    if trusts:
        from remedy.eval.report.trust import doubt

        sections += doubt(trusts, [*zip(folders, found.requests)])
    sections += run_sections(found, variants, [read_selection(one) for one in selections], missing_rows(found))
    return Report(verdicts, remarks, said_once(sections), found.records, found.conditions, variants)


def missing_said(missing: Sequence[Missing], partial: bool) -> list[str]:
    """A sentence on what is missing, if anything is.

    Raises:
        UserError: a partial report is asked for, and nothing is.
    """
    if not missing and partial:
        raise UserError("--partial does nothing, since no run is missing: remove it")
    how = "recipes are judged without it (--partial)" if partial else "no recipe is judged without all of its runs"
    return [f"Missing: {named([str(one) for one in missing])}; {how}."] if missing else []


def missing_rows(found: Evaluations) -> Rows:
    """The runs, and conditions of runs, that should be in the report and are not."""
    return [
        ["Run", "Condition"],
        *([one.run, slug.replace("__", ", ")] for one in found.missing for slug in one.conditions or ("all",)),
    ]


def chosen_baselines(
    conditions: Sequence[ConditionSummary], variants: Mapping[str, str], baselines: Sequence[str]
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
    """Tell what feeding the truth changes; nothing where nothing was fed."""
    title = "Diagnosis: what feeding the truth changes"
    return [Section(title, rows=diagnosis_rows(items), note=DIAGNOSIS_NOTE, group=RIGHT)] if items else []


def said_once(sections: Sequence[Section]) -> list[Section]:
    """The sections, each note only where it is first given."""
    notes: set[str] = set()
    found = []
    for section in sections:
        found.append(section._replace(note="") if section.note in notes else section)
        notes.add(section.note)
    return found


def _by_recipe(section: Section, variants: Mapping[str, str]) -> Section:
    """A table of runs as one of recipes, in the last column of which their runs differ."""
    head, *rows = section.rows or [[]]
    named_ = [[variants.get(row[0], row[0]), *row[1:]] for row in rows]
    return section._replace(rows=folded([["Recipe", *head[1:]], *named_], len(head) - 1)[0])


def diagnostic_sections(diagnostic: str, found: Evaluations, variants: Mapping[str, str]) -> list[Section]:
    """The sections on one diagnostic: its own, and those that any diagnostic has. `variants`: of every run."""
    from remedy.eval.diagnostics import DIAGNOSTICS

    conditions = [condition for condition in found.conditions if condition["diagnostic"] == diagnostic]
    records = found.records[found.records["diagnostic"] == diagnostic]
    others = [name for name in label_columns(records) if records[name].isna().all()]  # labels of other diagnostics
    records = records.drop(columns=others)
    kind = DIAGNOSTICS.get(diagnostic)
    name, axis = (kind.title, kind.axis) if kind is not None else (diagnostic.capitalize(), None)
    if any(axis not in condition["labels"] for condition in conditions):
        axis = None  # records of a version that had another one
    sections = [_by_recipe(section, variants) for section in (kind.headline(conditions) if kind is not None else ())]
    sections += (kind.sections(conditions, records) or []) if kind is not None else []
    published = kind.published if kind is not None else ()
    sections += result_sections(name, axis, conditions, records, variants, published)
    sections += held_out_section(name, conditions, records, found.requests)
    sections += step_sections(name, conditions, records)
    return sections + failure_sections(name, conditions, variants)
