"""Report on evaluations and measurements, with verdicts first.

Records become verdicts and groups, these become sections, and `render` writes the sections.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pandas as pd

from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.schema import label_columns
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison
from remedy.eval.report.defaults import baseline_of, by_diagnostic, default_comparisons, diagnoses
from remedy.eval.report.failures import failure_sections, moved_sections
from remedy.eval.report.fairness import has_no_seed, with_fairness
from remedy.eval.report.measured import measured_sections
from remedy.eval.report.notes import NOTES
from remedy.eval.report.planned import MissingRun, first_names, missing_runs, read_plans, read_selection
from remedy.eval.report.reading import Evaluations, find, read_evaluations, read_measurement, variants_of
from remedy.eval.report.records import record_sections
from remedy.eval.report.render import Report, write_pages
from remedy.eval.report.results import result_sections, token_section
from remedy.eval.report.runs import run_sections
from remedy.eval.report.verdicts import compute_verdicts
from remedy.eval.report.wording import diagnosis_rows
from remedy.eval.tables.groups import grouped
from remedy.eval.tables.sections import Section
from remedy.messages import suggest
from remedy.owner import owned
from remedy.settings import UserError

log = logging.getLogger(__name__)


def report(
    directories: Sequence[Path],
    output: Path,
    comparisons: Sequence[Comparison] | None = None,
    title: str = "",
    baselines: Sequence[str] = (),
    partial: bool = False,
) -> Path:
    """Write the report's pages, tables, `figures/` and `records/`; return `report.html`.

    Without `comparisons`, those of `default_comparisons`. `partial`: judge recipes without their missing runs.

    Raises:
        UserError: nothing is found, a comparison or baseline does not fit, `partial` does nothing, or `output` is in use.
    """
    composed = compose(directories, comparisons, baselines, partial)
    for verdict in composed.verdicts:
        if verdict.unplanned:
            log.warning("%s: %s", verdict.comparison.mitigation, verdict.unplanned)
    with owned(output):
        pages = record_sections(find(directories).evaluations, composed.records, output)
        return write_pages(composed._replace(sections=[*composed.sections, *pages]), output, title)


def compose(
    directories: Sequence[Path],
    comparisons: Sequence[Comparison] | None = None,
    baselines: Sequence[str] = (),
    partial: bool = False,
) -> Report:
    """Compute verdicts and sections of a report.

    Raises:
        UserError: as `report`.
    """
    folders, measured, selections = find(directories)
    evaluations = read_evaluations(folders)
    missing = [*evaluations.missing, *missing_runs(folders)]
    known = list(chain.from_iterable(variants_of(evaluations.requests).items()))
    if unknown := [name for name in baselines if name not in known]:
        raise UserError(f"baseline: no variant or run {unknown[0]!r}; {suggest(unknown[0], known)}")
    remarks = [*missing_remarks(missing, partial), *old_record_remarks(evaluations.records)]
    if comparisons is None:
        remarks += baseline_remarks(evaluations.conditions, baselines)
        comparisons = default_comparisons(evaluations.conditions, baselines) + diagnoses(evaluations.conditions)
    without_seeds = [request["run"] for request in evaluations.requests if has_no_seed(request)]
    decided = compute_verdicts(comparisons, evaluations.records, without_seeds)
    plans = read_plans(folders)
    decided = [
        with_fairness(verdict, evaluations.requests, missing, partial, plans, comparisons) for verdict in decided
    ]
    verdicts = [verdict for verdict in decided if verdict.word is not None]
    sections = []
    if diagnosed := [verdict for verdict in decided if verdict.word is None]:
        title = "Diagnosis: what feeding the truth changes"
        sections.append(Section(title, rows=diagnosis_rows(diagnosed), note=NOTES["diagnosis"]))
    for diagnostic in dict.fromkeys(condition["diagnostic"] for condition in evaluations.conditions):
        sections += diagnostic_sections(diagnostic, evaluations)
    sections += moved_sections(verdicts)
    sections += measured_sections([read_measurement(folder) for folder in measured])
    sections += run_sections(evaluations, [read_selection(folder) for folder in selections], missing)
    # Each note stands only where it is first needed.
    first = {section.note: section.title for section in reversed(sections)}
    sections = [section if first[section.note] == section.title else section._replace(note="") for section in sections]
    return Report(verdicts, remarks, sections, evaluations.records, evaluations.conditions)


def missing_remarks(missing: Sequence[MissingRun], partial: bool) -> list[str]:
    if not missing and partial:
        raise UserError("--partial does nothing, since no run is missing: remove it")
    how = "recipes are judged without it (--partial)" if partial else "no recipe is judged without all of its runs"
    return [f"Missing: {first_names([*map(str, missing)])}; {how}."] if missing else []


def old_record_remarks(records: pd.DataFrame) -> list[str]:
    unchanged = records.get("unchanged_states", pd.Series(index=records.index))
    old = list(records.loc[unchanged.isna(), "run"].unique())
    return [f"States are not counted by kind in older records: {first_names(old)}; evaluate again."] if old else []


def baseline_remarks(conditions: Sequence[ConditionSummary], baselines: Sequence[str]) -> list[str]:
    sentences = []
    for diagnostic, of_diagnostic in by_diagnostic(conditions).items():
        names = {name for condition in of_diagnostic for name in (condition["variant"], condition["run"])}
        if len({condition["variant"] for condition in of_diagnostic}) > 1 and names.isdisjoint(baselines):
            first = baseline_of(of_diagnostic)
            sentences.append(
                f"No baseline was named for {diagnostic}, so {first}, the first, is used (name another by `baseline: true` on a run "
                "of an experiment, or by `remedy report --baseline`)."
            )
    return sentences


def diagnostic_sections(diagnostic: str, evaluations: Evaluations) -> list[Section]:
    conditions = [condition for condition in evaluations.conditions if condition["diagnostic"] == diagnostic]
    records = evaluations.records[evaluations.records["diagnostic"] == diagnostic]
    # Labels of other diagnostics, which are empty here.
    records = records.drop(columns=[name for name in label_columns(records) if records[name].isna().all()])
    groups = grouped(conditions, records)
    kind = DIAGNOSTICS.find(diagnostic)
    name, axis, published = (kind.title, kind.axis, kind.published) if kind else (diagnostic.capitalize(), None, ())
    sections = kind.sections(conditions, records) if kind else []
    axis = axis if all(axis in condition["labels"] for condition in conditions) else None
    sections += result_sections(name, axis, groups, evaluations.requests, published)
    return [*sections, *failure_sections(name, groups), token_section(name, groups)]
