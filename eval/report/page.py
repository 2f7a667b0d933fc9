"""The report: what was found first, all else folded away, from the evaluations and measurements in folders.

Records (a row for every example, condition and run) are compared side by side (`verdicts`), and put together by recipe and condition
(`groups`); of these are made sections, and of all a page (`render`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from remedy.eval.records.schema import label_columns
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison
from remedy.eval.report.failures import failure_sections, moved_sections
from remedy.eval.report.fairness import as_it_is, judged
from remedy.eval.report.groups import grouped
from remedy.eval.report.measured import measured_sections
from remedy.eval.report.notes import NOTES
from remedy.eval.report.planned import Missing, missing_runs, named, read_plans, read_selection
from remedy.eval.report.reading import Evaluations, find, read_evaluations, read_measurement, variants_of
from remedy.eval.report.render import Report, write_pages
from remedy.eval.report.results import result_sections, token_section
from remedy.eval.report.runs import losses, run_sections
from remedy.eval.report.verdicts import decide
from remedy.eval.report.wording import diagnosis_rows
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
    """Write `report.html`, `report.md`, `report.json`, CSV, `figures/` and `records/` from evaluations and measurements; returns the
    page's path.

    Without `comparisons`, every variant is compared with the baseline, condition by condition, and on real programs every
    condition with the plainest of its variant. `baselines`: variants or runs that are baselines; of a diagnostic without one, it
    is the first found. `partial`: judge recipes of which runs are missing, by the others.

    Raises:
        UserError: no evaluation or measurement is found, a comparison does not fit the records, there is no such baseline, it is to be
            partial and nothing is missing, or another process writes to `output`.
    """
    from remedy.eval.report.records import record_sections

    found = compose(directories, comparisons, baselines, partial)
    for item in found.verdicts:
        if item.unplanned:
            log.warning("%s: %s", item.comparison.mitigation, item.unplanned)
    with owned(output):
        pages = record_sections(find(directories).evaluations, found.records, output)
        return write_pages(found._replace(sections=[*found.sections, *pages]), output, title)


def compose(
    directories: Sequence[Path],
    comparisons: Sequence[Comparison] | None = None,
    baselines: Sequence[str] = (),
    partial: bool = False,
) -> Report:
    """The verdicts and sections of a report.

    Raises:
        UserError: as `report`.
    """
    from remedy.eval.report.defaults import default_comparisons, diagnoses

    folders, measured, selections = find(directories)
    found = read_evaluations(folders)
    missing = [*found.missing, *missing_runs(folders)]
    variants = variants_of(found.requests)
    known = [*variants, *variants.values()]
    if unknown := [name for name in baselines if name not in known]:
        raise UserError(f"baseline: no variant or run {unknown[0]!r}; {suggest(unknown[0], known)}")
    remarks = [*missing_said(missing, partial), *uncounted(found.records)]
    if comparisons is None:
        remarks += chosen_baselines(found.conditions, baselines)
        comparisons = default_comparisons(found.conditions, baselines) + diagnoses(found.conditions)
    as_they_are = [one["run"] for one in found.requests if as_it_is(one)]
    decided = decide(comparisons, found.records, as_they_are, losses(found.requests))
    plans = read_plans(folders)
    decided = [judged(item, found.requests, missing, partial, plans, comparisons) for item in decided]
    verdicts, fed = ([item for item in decided if (item.word is None) is diagnosis] for diagnosis in (False, True))
    sections = []
    if fed:
        title = "Diagnosis: what feeding the truth changes"
        sections.append(Section(title, rows=diagnosis_rows(fed), note=NOTES["diagnosis"]))
    for diagnostic in dict.fromkeys(condition["diagnostic"] for condition in found.conditions):
        sections += diagnostic_sections(diagnostic, found)
    sections += moved_sections(verdicts)
    sections += measured_sections([read_measurement(folder) for folder in measured])
    sections += run_sections(found, [read_selection(one) for one in selections], missing)
    first = {one.note: one.title for one in reversed(sections)}  # each note stands where it is first needed
    sections = [one if first[one.note] == one.title else one._replace(note="") for one in sections]
    return Report(verdicts, remarks, sections, found.records, found.conditions)


def missing_said(missing: Sequence[Missing], partial: bool) -> list[str]:
    """A sentence on what is missing, if anything is.

    Raises:
        UserError: a partial report is asked for, and nothing is.
    """
    if not missing and partial:
        raise UserError("--partial does nothing, since no run is missing: remove it")
    how = "recipes are judged without it (--partial)" if partial else "no recipe is judged without all of its runs"
    return [f"Missing: {named([str(one) for one in missing])}; {how}."] if missing else []


def uncounted(records: pd.DataFrame) -> list[str]:
    """A sentence on runs whose records are older than counts of states by kind, if there are any."""
    kinds = records.get("unchanged_states", pd.Series(index=records.index))
    old = list(records.loc[kinds.isna(), "run"].unique())
    return [f"States are not counted by kind in older records: {named(old)}; evaluate again."] if old else []


def chosen_baselines(conditions: Sequence[ConditionSummary], baselines: Sequence[str]) -> list[str]:
    """A sentence on each baseline that several variants are compared with because it comes first."""
    from remedy.eval.report.defaults import baseline_of, by_diagnostic

    found = []
    for diagnostic, mine in by_diagnostic(conditions).items():
        first = baseline_of(mine, baselines)
        declared = {first, *(one["run"] for one in mine if one["variant"] == first)} & {*baselines}
        if len({one["variant"] for one in mine}) > 1 and not declared:
            found.append(
                f"No baseline was named for {diagnostic}, so {first}, the first, is used (name another by `baseline: true` on a run "
                "of an experiment, or by `remedy report --baseline`)."
            )
    return found


def diagnostic_sections(diagnostic: str, found: Evaluations) -> list[Section]:
    """The sections on one diagnostic: its own, and those that any diagnostic has."""
    from remedy.eval.diagnostics import DIAGNOSTICS

    conditions = [condition for condition in found.conditions if condition["diagnostic"] == diagnostic]
    records = found.records[found.records["diagnostic"] == diagnostic]
    records = records.drop(columns=[name for name in label_columns(records) if records[name].isna().all()])
    groups = grouped(conditions, records)
    kind = DIAGNOSTICS.find(diagnostic)
    if kind is not None:
        name, axis, published = kind.title, kind.axis, kind.published
        sections = [*kind.headline(conditions), *(kind.sections(conditions, records) or [])]
    else:
        name, axis, published, sections = diagnostic.capitalize(), None, (), []
    axis = axis if all(axis in one["labels"] for one in conditions) else None
    sections += result_sections(name, axis, groups, found.requests, published)
    return [*sections, *failure_sections(name, groups), token_section(name, groups)]
