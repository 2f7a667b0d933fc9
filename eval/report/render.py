"""A report's sections as Markdown with figures beside it, and as one HTML page."""

from __future__ import annotations

import io
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jinja2
from matplotlib.figure import Figure

from remedy.eval.report.opening import opening
from remedy.eval.report.verdicts import Verdict
from remedy.eval.report.wording import VERDICT_HEAD, VERDICT_NOTE, verdict_row
from remedy.eval.tables.sections import Rows, Section
from remedy.files import replace_file, writing
from remedy.messages import as_markdown

MARKDOWN, PAGE = "report.md", "report.html"


class Rendered(NamedTuple):
    """A section ready for a page: a table, or a figure's file name and SVG source."""

    title: str
    anchor: str
    note: str
    rows: Rows | None
    svg: str
    links: Mapping[str, str] = {}


def write_pages(
    verdicts: Sequence[Verdict], remarks: Sequence[str], sections: Sequence[Section], output: Path, title: str
) -> Path:
    """Write `report.md`, `report.html` and `figures/`; returns the HTML page's path. `remarks`: sentences of this
    report below its verdicts.

    Raises:
        OSError: a file cannot be written.
    """
    with writing(output):
        rendered = [render_section(section, output / "figures") for section in sections]
    shown = [section for section in rendered if section.rows or section.svg]
    note = " ".join([*remarks, VERDICT_NOTE])
    text = markdown(title, verdicts, note, shown)
    replace_file(output / MARKDOWN, lambda partial: partial.write_text(text, encoding="utf-8"))
    environment = jinja2.Environment(loader=jinja2.PackageLoader("remedy.eval.report", "."), autoescape=True)
    page = environment.get_template("report.html.j2").render(
        title=title,
        opening=opening(verdicts),
        head=VERDICT_HEAD,
        verdicts=[(str(verdict.word).replace(" ", "-"), verdict_row(verdict)) for verdict in verdicts],
        verdict_note=note,
        sections=shown,
        made=made_with(),
    )
    replace_file(output / PAGE, lambda partial: partial.write_text(page, encoding="utf-8"))
    return output / PAGE


def render_section(section: Section, folder: Path) -> Rendered:
    """The section with its figure written to a folder, too."""
    anchor = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")
    figure = section.draw() if section.draw is not None else None
    if figure is None:
        return Rendered(section.title, anchor, section.note, section.rows, "", section.links)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{anchor}.png", bbox_inches="tight", dpi=150)
    svg = _svg(figure)
    return Rendered(section.title, anchor, section.note, None, svg)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def markdown(title: str, verdicts: Sequence[Verdict], note: str, sections: Sequence[Rendered]) -> str:
    """The report as Markdown, with its figures in `figures/`. `note`: below the verdicts."""
    parts = [f"# {as_markdown(title)}", "\n".join(f"- {as_markdown(sentence)}" for sentence in opening(verdicts))]
    if verdicts:
        parts += ["## Verdicts", _table([VERDICT_HEAD, *map(verdict_row, verdicts)]), as_markdown(note)]
    for section in sections:
        shown = (
            _table(section.rows, section.links) if section.rows else f"![{section.title}](figures/{section.anchor}.png)"
        )
        parts += [part for part in (f"## {as_markdown(section.title)}", shown, as_markdown(section.note)) if part]
    return "\n\n".join([*parts, made_with()]) + "\n"


def made_with() -> str:
    """One line on the software and machine behind a report."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("cwm-remedy", "numpy", "pandas"))
    return f"Report made with {packages}, Python {platform.python_version()}."


def _table(rows: Rows, links: Mapping[str, str] = {}) -> str:
    cleaned = [
        [(as_markdown(cell).replace("|", "\\|").replace("\n", "<br>"), links.get(cell)) for cell in row] for row in rows
    ]
    linked = [[f"[{text}]({link})" if link else text for text, link in row] for row in cleaned]
    lines = ["| " + " | ".join(row) + " |" for row in linked]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
