"""Holds how sections become Markdown and one self-contained page."""

from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from remedy.eval.report.render import write_pages
from remedy.eval.report.verdicts import Comparison, Side, decide
from remedy.eval.report.wording import VERDICT_HEAD, verdict_row
from remedy.eval.tables.sections import Section
from tests.eval.made_records import made, together

NAMED = Comparison(mitigation="<b> & | co", baseline=Side(run="a"), treatment=Side(run="b"))


def figure() -> Figure:
    return plt.subplots()[0]


def nothing() -> None:
    return None


@pytest.fixture
def page(tmp_path: Path) -> Path:
    _, records = together(made([False] * 100, run="a"), made([True] * 100, run="b"))
    sections = [
        Section(
            "A table",
            rows=[["Head", "Other"], ["93.0%\n89 to 96 %", "<i>\x1b]0;x\x07![a](http://b)"]],
            note="In `code`.",
        ),
        Section("A figure (1)", draw=figure),
        Section("Nothing to draw", draw=nothing),
    ]
    return write_pages(decide([NAMED], records), ["Nobody named a baseline."], sections, tmp_path, "A <b>title</b>")


def test_the_page_is_self_contained_and_escaped(page: Path) -> None:
    html = page.read_text()
    assert "src=" not in html
    assert "A &lt;b&gt;title" in html
    assert "&lt;b&gt; &amp; | co" in html
    assert "<td>&lt;i&gt;" in html
    assert "<td>93.0%<small>89 to 96 %</small></td>" in html
    assert '<tr class="fixed">' in html
    assert '<a href="#a-table">' in html
    assert "Nothing to draw" not in html
    assert "Nobody named a baseline." in html
    assert html.index('<div class="opening"><p>“&lt;b&gt; &amp; | co” fixed the failure in this run;') < html.index(
        "<nav>"
    )


def test_markdown_has_the_same_sections_in_which_nothing_acts_with_figures_beside_it(page: Path) -> None:
    markdown = (page.parent / "report.md").read_text()
    assert markdown.splitlines()[2].startswith("- “&lt;b> & | co” fixed the failure in this run; 100 % of its answers")
    assert "| &lt;b> & \\| co |" in markdown
    assert "| 93.0%<br>89 to 96 % | &lt;i>\\x1b]0;x\\x07![a]\\(http://b) |" in markdown
    assert "![A figure (1)](figures/a-figure-1.png)" in markdown
    assert (page.parent / "figures" / "a-figure-1.png").exists()
    assert "Nothing to draw" not in markdown


def test_a_verdict_is_a_row_of_numbers_and_a_word() -> None:
    _, records = together(made([False] * 100, run="a"), made([True] * 100, run="b"))
    row = dict(zip(VERDICT_HEAD, verdict_row(decide([NAMED], records)[0])))
    assert (row["Baseline"], row["With it"]) == ("0 %\n0 to 4 %", "100 %\n96 to 100 %")
    assert row["Difference"] == "+100.0 points\n+94.7 to +100.0\n100 gained, 0 lost of 100 programs"
    assert row["Tokens"] == "x 1.00"
    assert row["p"] == "<\N{NO-BREAK SPACE}0.001"
    assert row["Verdict"] == "Fixed\nin this run"
