"""A report as one HTML page, as Markdown with figures beside it, and as JSON and CSV for machines."""

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
    counted,
    difference_of,
    dots,
    evidence_row,
    headline,
    leading,
    scope,
    undecidable,
    verdict_row,
)
from remedy.eval.tables.colours import WORD_COLOURS
from remedy.eval.tables.sections import GROUPS, Section, tidied
from remedy.files import write_text, writing
from remedy.messages import as_markdown

PAGE = "report.html"


class Report(NamedTuple):
    """A report before it is rendered. `remarks`: sentences on what is missing, and on baselines that nobody chose; `records`: of all
    evaluations."""

    verdicts: list[Verdict]
    remarks: list[str]
    sections: list[Section]
    records: pd.DataFrame
    conditions: list[ConditionSummary]


def write_pages(found: Report, output: Path, title: str) -> Path:
    """Write `report.html`, `report.md`, `report.json`, `verdicts.csv`, `conditions.csv` and `figures/`; returns the page's path.

    Raises:
        OSError: a file cannot be written.
    """
    with writing(output):
        rendered = [(section, *drawn(section, output / "figures")) for section in found.sections]
    groups = {
        name: [
            (section._replace(rows=tidied(section.rows or [[]])), anchor, image)
            for section, anchor, image in rendered
            if section.group == name and (image or len(section.rows or []) > 1)
        ]
        for name in GROUPS
    }
    word, sentence = headline(found.verdicts)
    why = undecidable(leading(found.verdicts)) if found.verdicts else ""
    remarks = [*filter(None, [why, counted(found.verdicts)]), *found.remarks]
    about: dict[str, Any] = {"title": title or "Report", "word": word, "sentence": sentence, "remarks": remarks}
    made = f"Report made with cwm-remedy {version('cwm-remedy')}."
    content = {
        **about,
        "colours": WORD_COLOURS,
        "forests": forests(found.verdicts),
        "verdicts": [VERDICT_HEAD, *map(verdict_row, found.verdicts)],
        "words": [item.word for item in found.verdicts],
        "evidence": tidied([EVIDENCE_HEAD, *map(evidence_row, found.verdicts)]),
        "groups": {name: shown for name, shown in groups.items() if shown},
        "methods": NOTES["methods"],
        "made": made,
    }
    tables = {
        "verdicts": [*map(verdict_record, found.verdicts)],
        "conditions": [*map(condition_record, found.conditions)],
    }
    for name in (PAGE, "report.md"):
        write_text(output / name, _environment(name).get_template(f"{name}.j2").render(content))
    for name, rows in tables.items():
        plain = pd.DataFrame([{key: _plain(value) for key, value in row.items()} for row in rows], dtype=object)
        write_text(output / f"{name}.csv", plain.to_csv(index=False))
    write_json(output / "report.json", {**about, **tables, "made": made})
    return output / PAGE


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


def drawn(section: Section, folder: Path) -> tuple[str, str]:
    """The name of a section's place and file, and its figure as a data URL, which is written to a file too; empty without one."""
    anchor = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")
    figure = section.draw() if section.draw is not None else None
    if figure is None:
        return anchor, ""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{anchor}.png"
    figure.savefig(path, bbox_inches="tight", dpi=150)
    return anchor, f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def forests(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The comparisons by their scale, for forest plots: `ticks` as text and place; of each row `places` of its mean and the ends of its
    interval, and of seeds of either side, in percent of the width."""
    scales = {item.comparison.metric: METRICS[item.comparison.metric][1] or "answers" for item in verdicts}
    return [
        _forest(f"points more right {scale}", [item for item in verdicts if item.comparison.metric == metric])
        for metric, scale in scales.items()
    ]


def _forest(scale: str, items: Sequence[Verdict]) -> dict[str, Any]:
    found = [[100 * value for value in (item.found.difference, *item.interval)] for item in items]
    ends = [0.0, *chain(*found), *chain(*(side for item in items for side in dots(item)))]
    reach = max(1e-9, *map(abs, ends))
    left, right = max(min(ends), -reach) - 0.1 * reach, min(max(ends), reach) + 0.1 * reach

    def places(values: Sequence[float]) -> list[float]:
        return [round(100 * (min(max(value, left), right) - left) / (right - left), 2) for value in values]

    step = 10 ** math.floor(math.log10(right - left))
    step = next(step * share for share in (0.2, 0.25, 0.5, 1.0, 2.0) if (right - left) / (step * share) <= 6)
    marks = [step * number for number in range(math.ceil(left / step), math.floor(right / step) + 1)]
    rows = [
        {
            "name": item.comparison.mitigation,
            "word": item.word,
            "text": difference_of(item),
            "scope": scope(item),
            "places": places(one),
            **dict(zip(("before", "after"), map(places, dots(item)))),
        }
        for item, one in zip(items, found)
    ]
    ticks = [(f"{mark:+.10g}" if mark else "0", place) for mark, place in zip(marks, places(marks))]
    return {"scale": scale, "ticks": ticks, "rows": rows}


def verdict_record(item: Verdict) -> dict[str, Any]:
    """A verdict for machines; rates and differences as shares."""
    about = item.comparison
    record: dict[str, Any] = {"comparison": about.mitigation, "word": str(item.word), "primary": about.primary}
    record |= {"failure": about.failure, "metric": about.metric}
    sides = {"baseline": (about.baseline, item.baseline), "treatment": (about.treatment, item.treatment)}
    for name, (side, rates) in sides.items():
        record |= {name: side.run, f"{name}_where": side.where, f"{name}_mean": rates.estimate.mean}
        record |= {f"{name}_seeds": list(rates.points), f"{name}_solved": rates.solved}
    low, high = item.interval
    return {
        **record,
        "difference": item.found.difference,
        "low": low,
        "high": high,
        "level": item.level,
        "p": item.evidence.p_value,
        "asked": item.evidence.asked,
        "token_ratio": None if math.isnan(item.token_ratio) else item.token_ratio,
        "written_ratio": None if math.isnan(item.written_ratio) else item.written_ratio,
        "without": item.without[0],
        "above_without": [item.above.difference, *item.above.interval()] if item.above else [],
        "programs": item.programs,
        "remarks": list(item.remarks),
        "refused": item.refused,
        "unplanned": item.unplanned,
    }


def condition_record(condition: ConditionSummary) -> dict[str, Any]:
    """A condition of a run for machines."""
    about: Mapping[str, Any] = condition
    found = {key: about[key] for key in ("run", "variant", "diagnostic")} | condition["labels"]
    found |= {key: about[key] for key in ("examples", "programs", "truncated", "trace_tokens", "written_tokens")}
    rates = {**about, "changed_states": about["per_frame"].get("changed_states")}
    for key in ("right", "changed_states", "state_exact", "action_exact", "value_exact", "valid_format"):
        if (one := rates[key]) is not None:
            found |= {key: one.mean, f"{key}_low": one.low, f"{key}_high": one.high}
    return found | {name: share for name, share in about["baselines"].items() if share is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={one}" for key, one in value.items())
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
