"""Reads the published failure reports: what each row says of an execution, and the text that the model wrote for it.

Two HTML pages of github.com/Babak70/code-world-models-blog (`assets/reports/`): one table row and one `<details>` of prompt and output
for every failed execution. All of it is data: nothing of it is run or shown as HTML.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from remedy.data_gen.execution.program import MARKER, Program
from remedy.settings import UserError

FILES = {
    "cruxeval": "assets/reports/cruxeval_failure_report.html",
    "humaneval": "assets/reports/humaneval_failure_report.html",
}
EXECUTIONS = {"cruxeval": 800, "humaneval": 723}
"""How many executions the reports say there were."""
_ID = re.compile(r"sample_(\d+)|HumanEval_(\d+)_tc(\d+)")
_TOTAL = re.compile(r"(\d+)/(\d+)")


class Failed(NamedTuple):
    """One failed execution as it was published. `case`: its name among the package's own; `call`: what the prompt asks for."""

    id: str
    case: str
    cause: str
    truncated: bool
    """Whether the report has it among the truncated."""
    recovered: str
    """Which intervention is said to have recovered it; empty if none is."""
    code: tuple[str, ...]
    """The program before and after the intervention."""
    expected: str
    predicted: str
    prompt: str
    output: str

    @property
    def call(self) -> str:
        """The call whose result is asked for, as the prompt has it."""
        _, _, asked = self.prompt.rpartition(MARKER)
        return asked.strip().removeprefix("return ").strip()

    @property
    def program(self) -> Program:
        """The program that the prompt shows last, laid out as it shows it."""
        shown = self.prompt.rpartition(f"with a {MARKER} marker.")[2]
        return Program(shown.strip("\n") + "\n", self.id)

    @property
    def unchanged(self) -> bool:
        """Say if both programs shown are one: the same syntax tree, or one alone is shown."""
        try:
            return len({ast.dump(ast.parse(code)) for code in self.code}) < 2
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return len({code.strip() for code in self.code}) < 2


class Report(NamedTuple):
    """One report. `counts`: what its summary says, by the label beside the number, in the order of the page."""

    failed: list[Failed]
    counts: list[tuple[str, str]]


def read_report(folder: Path, benchmark: str) -> Report:
    """The report of a benchmark in a clone of the repository.

    Raises:
        UserError: the file is missing, or is not of this shape.
    """
    path = folder / FILES[benchmark]
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({type(error).__name__}): give the folder of a clone") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Report:
    """A report from its HTML. Raises UserError where a row has no output or no known id."""
    page = _Page()
    page.feed(text)
    page.close()
    if not page.rows or set(page.rows) != set(page.raw):
        raise UserError(f"{name}: {len(page.rows)} rows and {len(page.raw)} outputs: not such a report")
    return Report([_failed(id, page, name) for id in page.rows], page.counts)


def _failed(id: str, page: _Page, name: str) -> Failed:
    row, raw = page.rows[id], page.raw[id]
    found = _ID.fullmatch(id)
    if found is None or len(raw) != 2:
        raise UserError(f"{name}: {id}: an unknown id, or not one prompt and one output")
    sample, task, number = found.groups()
    case = f"cruxeval/sample_{sample}" if sample else f"HumanEval/{task}/{number}"
    badges = row.get("badge", [])
    recovered = next((badge for badge in badges if "RECOVERED" in badge), "")
    return Failed(
        id,
        case,
        next(iter(row.get("root-cause", [])), ""),
        "TRUNCATED" in badges,
        recovered.removeprefix("✓ ").removesuffix("RECOVERED").strip().lower() or ("yes" if recovered else ""),
        tuple(row.get("pre", [])),
        _after(row.get("expected", [])),
        _after(row.get("predicted", [])),
        *raw,
    )


def _after(texts: list[str]) -> str:
    return texts[0] if texts else ""


class _Page(HTMLParser):
    """Collects, by execution, the texts of a row's cells and of its raw data; and the numbers of the summary."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: dict[str, dict[str, list[str]]] = {}
        self.raw: dict[str, list[str]] = {}
        self.counts: list[tuple[str, str]] = []
        self._row = self._details = ""
        self._open: list[tuple[str, str]] = []
        """The tags that are open, with the kind of what they hold."""
        self._texts: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "tr" and given.get("id", "").startswith("row-"):
            self._row = given["id"].removeprefix("row-")
            self.rows[self._row] = {}
        elif tag == "details":
            self._details = given.get("id", "").removeprefix("raw-")
            self.raw[self._details] = []
        elif tag in ("br", "meta", "link"):
            return
        self._open.append((tag, given.get("class", "")))
        self._texts.append([])

    def handle_data(self, data: str) -> None:
        for held in self._texts[-4:]:
            held.append(data)

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            (opened, kind), text = self._open.pop(), "".join(self._texts.pop())
            self._take(opened, kind, text)
            if opened == tag:
                break
        if tag in ("tr", "details"):
            self._row = self._details = ""

    def _take(self, tag: str, kind: str, text: str) -> None:
        inside = [kind for _, kind in self._open]
        if tag == "pre" and self._details:
            self.raw[self._details].append(text)
        elif self._row:
            self._take_cell(tag, kind.split(" ")[0], text, inside)
        elif kind in ("stat-number", "stat-label", "legend-label", "legend-count") or tag in ("td", "p"):
            self.counts.append((kind or tag, text.strip()))

    def _take_cell(self, tag: str, kind: str, text: str, inside: list[str]) -> None:
        cell = self.rows[self._row]
        if tag in ("pre", "span") and (tag == "pre" or kind == "badge"):
            cell.setdefault("pre" if tag == "pre" else "badge", []).append(text)
        elif tag == "strong":
            cell.setdefault(inside[-1], []).append(text)


def summary(report: Report) -> Iterator[tuple[str, str]]:
    """The numbers of a report's summary: (label, number)."""
    for (kind, first), (other, second) in zip(report.counts, report.counts[1:]):
        if (kind, other) == ("stat-number", "stat-label"):
            yield second, first
        elif (kind, other) == ("legend-label", "legend-count"):
            yield f"cause: {first}", second
