"""The report: Markdown, and one self-contained HTML page, from the evaluations and measurements in folders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from remedy.eval.checkpoint import Checkpoint
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.report.costs import measure_sections
from remedy.eval.report.failures import failure_sections, moved_section
from remedy.eval.report.reading import Evaluations, find, read_evaluations, read_measurement
from remedy.eval.report.render import write_pages
from remedy.eval.report.results import accuracy_by_cost, axis_sections, by_trace_tokens, metric_sections
from remedy.eval.report.seeds import repeated, seed_sections
from remedy.eval.report.verdicts import Comparison, Verdict, decide, default_comparisons
from remedy.eval.sections import Section

MISSING_NOTE = (
    "These conditions were asked for and have no records yet; `remedy evaluate`, run again, goes on with them."
)


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
    sections += missing_section(found)
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


def missing_section(found: Evaluations) -> list[Section]:
    """The conditions that evaluations were asked for and have no records of, if there are any."""
    rows = [[run, condition.replace("__", ", ")] for run, conditions in found.missing for condition in conditions]
    return [Section("Not evaluated yet", rows=[["Run", "Condition"], *rows], note=MISSING_NOTE)] if rows else []


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
