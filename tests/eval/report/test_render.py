"""Sections become one self-contained page, Markdown, JSON and CSV; in a browser nothing lies outside the page."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.render import Report, write_pages
from remedy.eval.report.verdicts import compute_verdicts
from remedy.eval.tables.sections import FAILURES, RECORDS, Section
from tests.eval.made_records import made, together

NAMED = Comparison(mitigation="<b> & | co", primary=True, baseline=Side(run="a"), treatment=Side(run="b"))
WIDE = [["Record", "Class", "Tokens"], ["r-1", "wrong state", "12"], ["r-2", "runaway", "400"]]
WIDE += [[f"r-{n}", "a_name_that_does_not_break_anywhere_at_all", str(n)] for n in range(3, 9)]


def figure() -> Figure:
    found = Figure()
    found.subplots()
    return found


def written(folder: Path) -> Path:
    names = [(name, seed) for name in "ab" for seed in range(3)]
    parts = [made([name == "b"] * 99 + [True], run=f"{name}-{seed}") for name, seed in names]
    conditions, records = together(*parts, variants={f"{name}-{seed}": name for name, seed in names})
    long = "a mitigation whose name goes on over many words, so that it has to be wrapped on every page"
    sides = {"baseline": Side(run="a"), "treatment": Side(run="b")}
    others = [
        Comparison.model_validate({"mitigation": f"{long}: {metric}", "metric": metric, **sides})
        for metric in ("answer", "state")
    ]
    table = [["Head", "Zero", "Other"], ["93.0%\n89 to 96 %", "0", "<i>\x1b]0;x\x07![a](http://b)"]]
    sections = [
        Section("A table", rows=table, note="In `code`."),
        Section("A figure (1)", draw=figure, group=FAILURES),
        Section("Nothing to draw", draw=lambda: None),
        Section("Nothing to say", rows=[["Head"]]),
        Section("Found", rows=WIDE, links={"r-1": "records/r-1.html"}, group=RECORDS),
    ]
    found = Report(
        compute_verdicts([NAMED, *others], records), ["No baseline was named."], sections, records, conditions
    )
    return write_pages(found, folder, "A <b>title</b>")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report"))


def test_the_page_says_first_what_was_found_and_folds_the_rest(page: Path) -> None:
    text = page.read_text()
    assert "A &lt;b&gt;title" in text
    assert "&lt;b&gt; &amp; | co: 100\xa0% against 1\xa0% right, +99 points (" in text
    body = text[text.index("<body>") :]
    places = [
        body.index(part) for part in ('class="word helped">Helped', 'class="forest"', 'class="verdicts"', "<details>")
    ]
    assert places == sorted(places)
    assert re.findall(r"<summary>([\w ]+)<", body) == ["Evidence", "Right answers", "Failures", "Records", "Methods"]
    assert "No baseline was named." in body
    assert body.count('class="dot after"') == 9  # of each seed of the comparisons
    assert '<td data-head="Head">93.0%<small>89 to 96\xa0%</small></td>' in body
    for left_out in ("Nothing to draw", "Nothing to say", 'data-head="Zero"'):
        assert left_out not in body


def test_the_page_is_self_contained_and_nothing_in_it_acts(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r'src="([^"]{15})', text)) == {"data:image/png;"}
    assert "default-src 'none'" in text
    assert text.count("<script>") == 1
    assert '<td data-head="Other">&lt;i&gt;' in text
    assert '<a href="records/r-1.html">r-1</a>' in text


def test_markdown_has_the_same_sections_in_which_nothing_acts_with_figures_beside_it(page: Path) -> None:
    markdown = (page.parent / "report.md").read_text()
    assert markdown.splitlines()[2].startswith("**Helped.** &lt;b> & | co: 100 % against 1 % right, +99 points")
    assert "| &lt;b> & \\| co |" in markdown
    assert "| 93.0%<br>89 to 96 % | &lt;i>\\x1b]0;x\\x07![a]\\(http://b) |" in markdown
    for name in ("A figure (1)](figures/a-figure-1.png)",):
        assert f"![{name}" in markdown
        assert (page.parent / name.split("(")[-1][:-1]).exists()
    assert "Nothing to draw" not in markdown


def test_machines_read_the_same_verdicts_and_rates(page: Path) -> None:
    content = json.loads((page.parent / "report.json").read_text())
    first, *_, last = content["verdicts"]
    assert (first["word"], first["treatment_mean"], first["treatment_seeds"]) == ("helped", 1.0, [1.0] * 3)
    assert (first["difference"], first["metric"], last["metric"]) == (pytest.approx(0.99), "answer", "state")
    assert (first["without"], first["written_ratio"], last["without"]) == ("", 1.0, "nothing changed")
    assert last["above_without"][0] == pytest.approx(0.5)
    assert content["conditions"][0]["nothing_changed"] == 0.5
    assert content["word"] == "helped"
    rates = {(row["variant"], row["run"]): row["right"] for row in content["conditions"]}
    assert rates["b", "b-1"] == 1.0
    assert len(rates) == len(content["conditions"]) == 6
