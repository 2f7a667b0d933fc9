"""Rendering of reports: HTML, Markdown with figures, and JSON."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from remedy.checksums import write_json
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.notes import NOTES
from remedy.eval.report.verdicts import Verdict
from remedy.eval.report.wording import (
    EVIDENCE_HEAD,
    METRICS,
    VERDICT_HEAD,
    difference_of,
    dots,
    evidence_row,
    headline,
    leading,
    scope,
    undecidable,
    verdict_row,
    word_counts,
)
from remedy.eval.tables.colours import WORD_COLOURS
from remedy.eval.tables.sections import GROUPS, Section, tidied
from remedy.files import write_text, writing
from remedy.messages import safe_in_markdown

PAGE = "report.html"


class Report(NamedTuple):
    """A report before it is rendered."""

    verdicts: list[Verdict]
    remarks: list[str]
    sections: list[Section]
    records: pd.DataFrame
    conditions: list[ConditionSummary]


def write_pages(report: Report, output: Path, title: str) -> Path:
    """Write pages, `report.json` and `figures/`; return the HTML page's path."""
    with writing(output):
        rendered = [(section, *draw_section(section, output / "figures")) for section in report.sections]
    groups = {
        name: [
            (section._replace(rows=tidied(section.rows or [[]])), anchor, image)
            for section, anchor, image in rendered
            if section.group == name and (image or len(section.rows or []) > 1)
        ]
        for name in GROUPS
    }
    opening, sentence = headline(report.verdicts)
    first = leading(report.verdicts) if report.verdicts else None
    undecided = undecidable(first) if first else ""
    remarks = [*filter(None, (undecided, word_counts(report.verdicts), *report.remarks))]
    lead: dict[str, Any] = {
        "title": title or "Report",
        "word": first and first.word,
        "sentence": sentence,
        "remarks": remarks,
    }
    made = f"Report made with cwm-remedy {version('cwm-remedy')}."
    content = {
        **lead,
        "opening": opening,
        "colours": WORD_COLOURS,
        "forests": forests(report.verdicts),
        "verdicts": [VERDICT_HEAD, *map(verdict_row, report.verdicts)],
        "words": [verdict.word for verdict in report.verdicts],
        "evidence": tidied([EVIDENCE_HEAD, *map(evidence_row, report.verdicts)]),
        "groups": {name: sections for name, sections in groups.items() if sections},
        "methods": NOTES["methods"],
        "made": made,
    }
    for name in (PAGE, "report.md"):
        write_text(output / name, _environment(name).get_template(f"{name}.j2").render(content))
    records = {
        "verdicts": list(map(verdict_record, report.verdicts)),
        "conditions": list(map(condition_record, report.conditions)),
    }
    write_json(output / "report.json", {**lead, **records, "made": made})
    return output / PAGE


def _environment(name: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("remedy.eval.report", "."),
        autoescape=name == PAGE,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Names and model output may be a stranger's: HTML is escaped above, Markdown by `escaped`.
    environment.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    environment.filters["kind"] = lambda word: str(word or "").replace(" ", "-")
    environment.filters["escaped"] = safe_in_markdown
    return environment


def draw_section(section: Section, folder: Path) -> tuple[str, str]:
    """Draw a section's figure, if any; return anchor and data URL."""
    anchor = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")
    figure = section.draw() if section.draw is not None else None
    if figure is None:
        return anchor, ""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{anchor}.png"
    figure.savefig(path, bbox_inches="tight", dpi=150)
    # In the page itself, which is one file.
    return anchor, f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def forests(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Lay out a forest plot for each metric; positions are in percent of the width."""
    return [
        _forest(
            f"points more right {METRICS[metric][1] or 'answers'}",
            [verdict for verdict in verdicts if verdict.comparison.metric == metric],
        )
        for metric in dict.fromkeys(verdict.comparison.metric for verdict in verdicts)
    ]


def _forest(scale: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    estimates = [[100 * value for value in (verdict.difference.mean, *verdict.interval)] for verdict in verdicts]
    drawn_values = [0.0, *chain(*estimates), *chain(*(side for verdict in verdicts for side in dots(verdict)))]
    margin = 0.1 * max(1e-9, *map(abs, drawn_values))
    left, right = min(drawn_values) - margin, max(drawn_values) + margin

    def positions(values: Sequence[float]) -> list[float]:
        return [round(100 * (value - left) / (right - left), 2) for value in values]

    # The roundest step that gives at most six ticks.
    step = 10 ** math.floor(math.log10(right - left))
    step = next(step * share for share in (0.2, 0.25, 0.5, 1.0, 2.0) if (right - left) / (step * share) <= 6)
    ticks_at = [step * number for number in range(math.ceil(left / step), math.floor(right / step) + 1)]
    rows = [
        {
            "name": verdict.comparison.mitigation,
            "word": verdict.word,
            "text": difference_of(verdict),
            "scope": scope(verdict),
            "places": positions(estimate),
            **dict(zip(("before", "after"), map(positions, dots(verdict)))),
        }
        for verdict, estimate in zip(verdicts, estimates)
    ]
    ticks = [(f"{mark:+.10g}" if mark else "0", position) for mark, position in zip(ticks_at, positions(ticks_at))]
    return {"scale": scale, "ticks": ticks, "rows": rows}


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict's JSON record; rates and differences are shares."""
    comparison, (low, high) = verdict.comparison, verdict.interval
    sides: dict[str, Any] = {}
    for name in ("baseline", "treatment"):
        side, rates = getattr(comparison, name), getattr(verdict, name)
        sides |= {name: side.run, f"{name}_where": side.where, f"{name}_mean": rates.estimate.mean}
        sides |= {f"{name}_seeds": list(rates.points), f"{name}_solved": rates.solved}
    ratios = {name: getattr(verdict, name) for name in ("token_ratio", "written_ratio")}
    return {
        "comparison": comparison.mitigation,
        "word": str(verdict.word),
        "primary": comparison.primary,
        "failure": comparison.failure,
        "metric": comparison.metric,
        **sides,
        "difference": verdict.difference.mean,
        "low": low,
        "high": high,
        "level": verdict.level,
        "p": verdict.evidence.p_value,
        "asked": verdict.evidence.question,
        **{name: None if math.isnan(ratio) else ratio for name, ratio in ratios.items()},
        "without": verdict.best_rule[0],
        "above_without": [verdict.above_rule.mean, *verdict.above_rule.interval()] if verdict.above_rule else [],
        "programs": verdict.programs,
        "remarks": list(verdict.remarks),
        "refused": verdict.refused,
        "unplanned": verdict.unplanned,
    }


def condition_record(condition: ConditionSummary) -> dict[str, Any]:
    summary: Mapping[str, Any] = condition
    keys = ("run", "variant", "diagnostic", "examples", "programs", "truncated", "trace_tokens", "written_tokens")
    record = {key: summary[key] for key in keys} | condition["labels"]
    rates = {**summary, "changed_states": summary["per_frame"].get("changed_states")}
    for key in ("right", "changed_states", "state_exact", "action_exact", "value_exact", "valid_format"):
        if (estimate := rates[key]) is not None:
            record |= {key: estimate.mean, f"{key}_low": estimate.low, f"{key}_high": estimate.high}
    return record | {name: share for name, share in summary["baselines"].items() if share is not None}
