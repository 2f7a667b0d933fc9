"""A report as one HTML page, as Markdown with figures beside it, and as JSON and CSV for machines."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2

from remedy.checksums import write_json
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.evidence import EVIDENCE_HEAD, evidence_row
from remedy.eval.report.verdicts import Verdict
from remedy.eval.report.wording import (
    METHODS,
    VERDICT_HEAD,
    Found,
    counted,
    difference_of,
    dots,
    effect,
    headline,
    scope,
    verdict_row,
)
from remedy.eval.stats import VerdictWord
from remedy.eval.tables.colours import WORD_COLOURS
from remedy.eval.tables.sections import GROUPS, Rows, Section, tidied
from remedy.files import replace_file, writing
from remedy.messages import as_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKDOWN, PAGE, FOREST = "report.md", "report.html", "forest"
ROOM = 1.06
"""Width of a forest plot over that of its content."""


class Rendered(NamedTuple):
    """A section ready for a page: a table, or a figure's SVG source."""

    section: Section
    anchor: str
    svg: str


class Row(NamedTuple):
    """A comparison in a forest plot: the places of its interval, mean and seeds in percent of the width."""

    name: str
    word: str
    kind: str
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


def write_pages(
    verdicts: Sequence[Verdict],
    remarks: Sequence[str],
    sections: Sequence[Section],
    output: Path,
    title: str,
    conditions: Sequence[ConditionSummary] = (),
    variants: Mapping[str, str] | None = None,
) -> Path:
    """Write `report.html`, `report.md`, `report.json`, `verdicts.csv`, `conditions.csv` and `figures/`; returns the page's path.
    `remarks`: sentences of this report below its first one.

    Raises:
        OSError: a file cannot be written.
    """
    with writing(output):
        rendered = [render(section, output / "figures") for section in sections]
        if verdicts:
            figure = forest_figure(forests(verdicts))
            (output / "figures").mkdir(parents=True, exist_ok=True)
            figure.savefig(output / "figures" / f"{FOREST}.png", bbox_inches="tight", dpi=150)
    shown = [one for one in rendered if one.svg or (one.section.rows and len(one.section.rows) > 1)]
    groups = {name: [one for one in shown if one.section.group == name] for name in _groups(shown)}
    word, sentence = headline(verdicts)
    about = {
        "title": title,
        "word": word,
        "sentence": sentence,
        "remarks": [*filter(None, [counted(verdicts)]), *remarks],
    }
    texts = {
        MARKDOWN: markdown(about, verdicts, groups),
        PAGE: _page(about, verdicts, groups),
        "verdicts.csv": _csv(map(verdict_record, verdicts)),
        "conditions.csv": _csv(condition_record(one, variants or {}) for one in conditions),
    }
    for name, text in texts.items():
        _write(output / name, text)
    records = [condition_record(one, variants or {}) for one in conditions]
    content = {**about, "verdicts": [*map(verdict_record, verdicts)], "conditions": records, "made": made_with()}
    write_json(output / "report.json", content)
    return output / PAGE


def _write(path: Path, text: str) -> None:
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _groups(shown: Sequence[Rendered]) -> list[str]:
    names = list(dict.fromkeys(one.section.group for one in shown))
    return sorted(names, key=lambda name: GROUPS.index(name) if name in GROUPS else len(GROUPS) - 1.5)


def _page(about: Mapping[str, Any], verdicts: Sequence[Verdict], groups: Mapping[str, Sequence[Rendered]]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("remedy.eval.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    return environment.get_template("report.html.j2").render(
        **about,
        colours={_kind(word): colour for word, colour in WORD_COLOURS.items()},
        kind=_kind(about["word"]),
        forests=forests(verdicts),
        head=VERDICT_HEAD,
        verdicts=[(_kind(item.word), verdict_row(item)) for item in verdicts],
        evidence=tidied([EVIDENCE_HEAD, *map(evidence_row, verdicts)]) if verdicts else [],
        methods=METHODS if verdicts else {},
        below=METHODS["Chance"] if any("chance (" in cell for item in verdicts for cell in verdict_row(item)) else "",
        groups=groups,
        made=made_with(),
    )


def _kind(word: str | None) -> str:
    return str(word or "").replace(" ", "-")


def render(section: Section, folder: Path) -> Rendered:
    """The section without what says nothing, its figure written to a folder, too."""
    anchor = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")
    figure = section.draw() if section.draw is not None else None
    if figure is None:
        rows = tidied(section.rows) if section.rows else None
        return Rendered(section._replace(rows=rows), anchor, "")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{anchor}.png", bbox_inches="tight", dpi=150)
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
            _kind(item.word),
            difference_of(item),
            scope(item),
            place(one.centre),
            place(one.low),
            place(one.high),
            [place(value) for value in dots(item)[0]],
            [place(value) for value in dots(item)[1]],
        )
        for item, one in items
    ]
    return Forest(scale, [(f"{mark:+.10g}" if mark else "0", place(mark)) for mark in marks], rows)


def forest_figure(found: Sequence[Forest]) -> Figure:
    """The forest plot as a figure for Markdown."""
    import textwrap

    from matplotlib.figure import Figure

    from remedy.eval.tables.plotting import WIDTH

    rows = [len(one.rows) for one in found]
    figure = Figure(figsize=(WIDTH, 0.55 * sum(rows) + 0.9 * len(found)))
    axes = figure.subplots(len(found), 1, squeeze=False, height_ratios=[count + 1 for count in rows])[:, 0]
    for axis, one in zip(axes, found):
        names = []
        for at, row in enumerate(one.rows):
            colour = WORD_COLOURS[VerdictWord(row.word)]
            axis.plot([row.low, row.high], [at, at], color=colour, lw=2.5, alpha=0.6)
            axis.plot(row.before, [at + 0.18] * len(row.before), "o", ms=4, mfc="none", color="0.5")
            axis.plot(row.after, [at - 0.18] * len(row.after), "o", ms=4, color=colour, alpha=0.6)
            axis.plot(row.place, at, "D", ms=7, color=colour)
            axis.text(
                1.01, at, f"{row.word}, {row.text}", color=colour, va="center", transform=axis.get_yaxis_transform()
            )
            names.append("\n".join(textwrap.wrap(row.name, 40)))
        axis.axvline(next(at for text, at in one.ticks if text == "0"), color="0.3", lw=1)
        axis.set_yticks(range(len(names)), names)
        axis.set_xticks([at for _, at in one.ticks], [text for text, _ in one.ticks])
        axis.set(xlim=(0, 100), ylim=(len(names) - 0.5, -0.5), xlabel=one.scale)
        axis.grid(axis="y", visible=False)
    return figure


def markdown(about: Mapping[str, Any], verdicts: Sequence[Verdict], groups: Mapping[str, Sequence[Rendered]]) -> str:
    """The report as Markdown, with its figures in `figures/`."""
    word = f"**{str(about['word']).capitalize()}.** " if about["word"] else ""
    parts = [
        f"# {as_markdown(about['title'])}",
        word + as_markdown(about["sentence"]),
        *map(as_markdown, about["remarks"]),
    ]
    if verdicts:
        parts += [f"![Every comparison with its interval and seeds](figures/{FOREST}.png)"]
        parts += [_table([VERDICT_HEAD, *map(verdict_row, verdicts)]), "## Evidence"]
        parts += [_table(tidied([EVIDENCE_HEAD, *map(evidence_row, verdicts)]))]
    for name, found in groups.items():
        parts.append(f"## {name}")
        for one in found:
            about_ = one.section
            image = f"![{about_.title}](figures/{one.anchor}.png)"
            table = image if one.svg else _table(about_.rows or [[]], about_.links)
            parts += filter(None, [f"### {as_markdown(about_.title)}", table, as_markdown(about_.note)])
    if verdicts:
        parts += ["## Methods", *(f"*{name}*: {as_markdown(text)}" for name, text in METHODS.items())]
    return "\n\n".join([*parts, made_with()]) + "\n"


def _table(rows: Rows, links: Mapping[str, str] = {}) -> str:
    cleaned = [
        [(as_markdown(cell).replace("|", "\\|").replace("\n", "<br>"), links.get(cell)) for cell in row] for row in rows
    ]
    linked = [[f"[{text}]({link})" if link else text for text, link in row] for row in cleaned]
    lines = ["| " + " | ".join(row) + " |" for row in linked]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def made_with() -> str:
    """One line on the software behind a report."""
    return f"Report made with cwm-remedy {version('cwm-remedy')}."


def verdict_record(item: Verdict) -> dict[str, Any]:
    """A verdict for machines; rates and differences as shares."""
    about, found = item.comparison, effect(item)
    low, high = item.interval
    sides = {"baseline": (about.baseline, item.baseline), "treatment": (about.treatment, item.treatment)}
    return {
        "comparison": about.mitigation,
        "word": str(item.word),
        "primary": about.primary,
        "failure": about.failure,
        "metric": about.metric,
        **{
            key: value
            for name, (side, rates) in sides.items()
            for key, value in {
                name: side.run,
                f"{name}_where": side.where,
                f"{name}_mean": rates.estimate.mean,
                f"{name}_seeds": list(rates.points),
                f"{name}_solved": rates.solved,
            }.items()
        },
        "difference": item.found.difference if found.scale.startswith("points") else found.centre,
        "low": _number(low),
        "high": _number(high),
        "level": item.level,
        "p": item.evidence.p_value,
        "asked": list(item.evidence.asked),
        "token_ratio": _number(item.token_ratio),
        "programs": item.programs,
        "remarks": list(item.remarks),
        "refused": item.refused,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def condition_record(condition: ConditionSummary, variants: Mapping[str, str]) -> dict[str, Any]:
    """A condition of a run for machines."""
    found: dict[str, Any] = {
        "run": condition["run"],
        "variant": variants.get(condition["run"], condition["run"]),
        "diagnostic": condition["diagnostic"],
        **condition["labels"],
    }
    found |= {key: condition[key] for key in ("examples", "programs", "truncated", "trace_tokens", "written_tokens")}
    for key in ("right", "state_exact", "action_exact", "value_exact", "valid_format"):
        interval = condition[key]
        found |= (
            {key: interval["mean"], f"{key}_low": interval["low"], f"{key}_high": interval["high"]} if interval else {}
        )
    return found | {name: share for name, share in condition["baselines"].items() if share is not None}


def _csv(rows: Iterable[Mapping[str, Any]]) -> str:
    found = list(rows)
    names = list(dict.fromkeys(name for row in found for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _plain(value) for key, value in row.items()} for row in found)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """A list or mapping as text."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={one}" for key, one in value.items())
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
