"""A report as one HTML page, as Markdown with figures beside it, and as JSON and CSV for machines."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import pandas as pd

from remedy.checksums import write_json
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.evidence import EVIDENCE_HEAD, evidence_row, undecidable
from remedy.eval.report.notes import NOTES
from remedy.eval.report.verdicts import Verdict
from remedy.eval.report.wording import (
    VERDICT_HEAD,
    Found,
    counted,
    difference_of,
    dots,
    effect,
    headline,
    leading,
    scope,
    verdict_row,
)
from remedy.eval.tables.colours import WORD_COLOURS
from remedy.eval.tables.sections import GROUPS, Section, tidied
from remedy.files import replace_file, writing
from remedy.messages import as_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "report.html"
ROOM = 1.06
"""Width of a forest plot over that of its content."""


class Report(NamedTuple):
    """A report before it is rendered. `remarks`: sentences on what is missing, and on baselines that nobody chose; `records`: of all
    evaluations."""

    verdicts: list[Verdict]
    remarks: list[str]
    sections: list[Section]
    records: pd.DataFrame
    conditions: list[ConditionSummary]


class Rendered(NamedTuple):
    """A section ready for a page: a table, or a figure's SVG source."""

    section: Section
    anchor: str
    svg: str


class Row(NamedTuple):
    """A comparison in a forest plot: the places of its interval, mean and seeds in percent of the width."""

    name: str
    word: str
    text: str
    scope: str
    place: float
    low: float
    high: float
    before: list[float]
    after: list[float]


class Forest(NamedTuple):
    """Comparisons on one scale, with ticks as text and place."""

    scale: str
    ticks: list[tuple[str, float]]
    rows: list[Row]


def write_pages(found: Report, output: Path, title: str) -> Path:
    """Write `report.html`, `report.md`, `report.json`, `verdicts.csv`, `conditions.csv` and `figures/`; returns the page's path.

    Raises:
        OSError: a file cannot be written.
    """
    plots = forests(found.verdicts)
    with writing(output):
        rendered = [render(section, output / "figures") for section in found.sections]
    shown = [one for one in rendered if one.svg or (one.section.rows and len(one.section.rows) > 1)]
    names = list(dict.fromkeys(one.section.group for one in shown))
    names.sort(key=lambda name: GROUPS.index(name) if name in GROUPS else len(GROUPS) - 1.5)
    word, sentence = headline(found.verdicts)
    about: dict[str, Any] = {"title": title, "word": word, "sentence": sentence}
    why = undecidable(leading(found.verdicts)) if found.verdicts else ""
    about["remarks"] = [*filter(None, [why, counted(found.verdicts)]), *found.remarks]
    made = f"Report made with cwm-remedy {version('cwm-remedy')}."
    content = {
        **about,
        "colours": WORD_COLOURS,
        "forests": plots,
        "verdicts": [VERDICT_HEAD, *map(verdict_row, found.verdicts)],
        "words": [item.word for item in found.verdicts],
        "evidence": tidied([EVIDENCE_HEAD, *map(evidence_row, found.verdicts)]),
        "groups": {name: [one for one in shown if one.section.group == name] for name in names},
        "methods": NOTES["methods"],
        "made": made,
    }
    records = {
        "verdicts": [*map(verdict_record, found.verdicts)],
        "conditions": [*map(condition_record, found.conditions)],
    }
    for name in (PAGE, "report.md"):
        write_text(output / name, _environment(name).get_template(f"{name}.j2").render(content))
    for name, rows in records.items():
        write_text(
            output / f"{name}.csv",
            pd.DataFrame([{key: _plain(row[key]) for key in row} for row in rows], dtype=object).to_csv(index=False),
        )
    write_json(output / "report.json", {**about, **records, "made": made})
    return output / PAGE


def write_text(path: Path, text: str) -> None:
    """Write a file, the whole of it or none."""
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", dpi=150)


def _environment(name: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("remedy.eval.report", "."),
        autoescape=name == PAGE,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    environment.filters["kind"] = lambda word: str(word or "").replace(" ", "-")
    environment.filters["escaped"] = as_markdown
    return environment


def render(section: Section, folder: Path) -> Rendered:
    """The section without what says nothing, its figure written to a folder, too."""
    anchor = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")
    figure = section.draw() if section.draw is not None else None
    if figure is None:
        rows = tidied(section.rows) if section.rows else None
        return Rendered(section._replace(rows=rows), anchor, "")
    _save(figure, folder / f"{anchor}.png")
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return Rendered(section, anchor, text[text.index("<svg") :])


def forests(verdicts: Sequence[Verdict]) -> list[Forest]:
    """The comparisons by their scale."""
    found: dict[str, list[tuple[Verdict, Found]]] = {}
    for item in verdicts:
        one = effect(item)
        found.setdefault(one.scale, []).append((item, one))
    return [_forest(scale, items) for scale, items in found.items()]


def _forest(scale: str, items: Sequence[tuple[Verdict, Found]]) -> Forest:
    ends = [0.0]
    for item, one in items:
        ends += [one.centre, one.low, one.high, *(value for side in dots(item) for value in side)]
    reach = ROOM * max(1e-9, *(abs(end) for end in ends if math.isfinite(end)))
    left, right = (min(0.0, *ends), max(0.0, *ends))
    left, right = max(left * ROOM, -reach) - 0.04 * reach, min(right * ROOM, reach) + 0.04 * reach

    def place(value: float) -> float:
        return round(100 * (min(max(value, left), right) - left) / (right - left), 2)

    step = 10 ** math.floor(math.log10(right - left))
    step = next(step * share for share in (0.2, 0.25, 0.5, 1.0, 2.0) if (right - left) / (step * share) <= 6)
    marks = [step * number for number in range(math.ceil(left / step), math.floor(right / step) + 1)]
    rows = [
        Row(
            item.comparison.mitigation,
            str(item.word),
            difference_of(item),
            scope(item),
            place(one.centre),
            place(one.low),
            place(one.high),
            *([place(value) for value in side] for side in dots(item)),
        )
        for item, one in items
    ]
    return Forest(scale, [(f"{mark:+.10g}" if mark else "0", place(mark)) for mark in marks], rows)


def verdict_record(item: Verdict) -> dict[str, Any]:
    """A verdict for machines; rates and differences as shares."""
    about, found = item.comparison, effect(item)
    record: dict[str, Any] = {"comparison": about.mitigation, "word": str(item.word), "primary": about.primary}
    record |= {"failure": about.failure, "metric": about.metric}
    sides = {"baseline": (about.baseline, item.baseline), "treatment": (about.treatment, item.treatment)}
    for name, (side, rates) in sides.items():
        record |= {name: side.run, f"{name}_where": side.where, f"{name}_mean": rates.estimate.mean}
        record |= {f"{name}_seeds": list(rates.points), f"{name}_solved": rates.solved}
    low, high, ratio = (one if math.isfinite(one) else None for one in (*item.interval, item.token_ratio))
    return {
        **record,
        "difference": item.found.difference if found.scale.startswith("points") else found.centre,
        "low": low,
        "high": high,
        "level": item.level,
        "p": item.evidence.p_value,
        "asked": list(item.evidence.asked),
        "token_ratio": ratio,
        "programs": item.programs,
        "remarks": list(item.remarks),
        "refused": item.refused,
    }


def condition_record(condition: ConditionSummary) -> dict[str, Any]:
    """A condition of a run for machines."""
    about: Mapping[str, Any] = condition
    found = {key: about[key] for key in ("run", "variant", "diagnostic")} | condition["labels"]
    found |= {key: about[key] for key in ("examples", "programs", "truncated", "trace_tokens", "written_tokens")}
    for key in ("right", "state_exact", "action_exact", "value_exact", "valid_format"):
        if (one := about[key]) is not None:
            found |= {key: one["mean"], f"{key}_low": one["low"], f"{key}_high": one["high"]}
    return found | {name: share for name, share in about["baselines"].items() if share is not None}


def _plain(value: Any) -> Any:
    """A list or mapping as text."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={one}" for key, one in value.items())
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
