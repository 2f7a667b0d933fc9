"""The report: Markdown, and one self-contained HTML page, from the records of any number of evaluations."""

from __future__ import annotations

import io
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from remedy.data_gen.config import UserError
from remedy.eval.evaluate import RECORDS, REQUEST, read_records
from remedy.eval.figures import FIGURES
from remedy.eval.stats import rate
from remedy.eval.verdicts import COST, Comparison, Verdict, judge, pairwise

MARKDOWN, PAGE = "report.md", "report.html"


class FigureFile(NamedTuple):
    """A drawn figure: its name, caption and SVG source."""

    name: str
    caption: str
    svg: str


def report(
    directories: Sequence[Path], output: Path, comparisons: Sequence[Comparison] | None = None, title: str = "Report"
) -> Path:
    """Write `report.md`, `report.html` and `figures/`; returns the page's path.

    Without `comparisons`, every run is compared with the first one found, condition by condition.

    Raises:
        UserError: no evaluation is found, or a comparison does not fit the records.
    """
    evaluations = find_evaluations(directories)
    records = pd.concat(
        [read_records(path) for folder in evaluations for path in sorted((folder / RECORDS).glob("*.parquet"))],
        ignore_index=True,
    )
    first = str(records["run"].iloc[0])
    verdicts = [judge(c, records) for c in (pairwise(records, first) if comparisons is None else comparisons)]
    requests = [json.loads((folder / REQUEST).read_text(encoding="utf-8")) for folder in evaluations]
    output.mkdir(parents=True, exist_ok=True)
    figures = _draw(records, output / "figures")
    tables = {"Runs": _runs_table(requests, records), **_accuracy_tables(records)}
    (output / MARKDOWN).write_text(_markdown(title, verdicts, figures, tables), encoding="utf-8")
    environment = jinja2.Environment(loader=jinja2.PackageLoader("remedy.eval", "."), autoescape=True)
    page = environment.get_template("report.html.j2").render(
        title=title,
        verdicts=[_verdict_row(v) for v in verdicts],
        columns=VERDICT_COLUMNS,
        figures=figures,
        tables=tables,
        made=made_with(),
    )
    (output / PAGE).write_text(page, encoding="utf-8")
    return output / PAGE


def find_evaluations(directories: Sequence[Path]) -> list[Path]:
    """All evaluation folders at or below the given ones, in the order given.

    Raises:
        UserError: a folder holds none.
    """
    found: list[Path] = []
    for directory in directories:
        below = sorted(path.parent for path in directory.rglob(REQUEST))
        below = [folder for folder in below if any((folder / RECORDS).glob("*.parquet"))]
        if not below:
            raise UserError(f"{directory}: no evaluation found there; `remedy evaluate` writes one")
        found += [folder for folder in below if folder not in found]
    return found


VERDICT_COLUMNS = [
    "Mitigation",
    "Failure",
    "Baseline",
    "With it",
    "Difference",
    "95 % interval",
    "p",
    "Tokens",
    "Verdict",
]


def _verdict_row(item: Verdict) -> list[str]:
    result = item.result
    p_value = f"{result.p_value:.3f}" if result.p_value >= 0.001 else "< 0.001"
    return [
        item.comparison.mitigation,
        item.comparison.failure,
        f"{result.baseline:.1%}",
        f"{result.treatment:.1%}",
        f"{result.difference:+.1%}",
        f"{result.low:+.1%} to {result.high:+.1%}",
        p_value,
        f"x {item.token_ratio:.2f}",
        item.sentence,
    ]


def _runs_table(requests: list[dict[str, Any]], records: pd.DataFrame) -> list[list[str]]:
    rows = [["Run", "Model", "Parameters", "Tokenizer", "Data", "Records"]]
    for request in requests:
        about = request["checkpoint"]
        count = int((records["run"] == request["run"]).sum())
        rows.append(
            [
                request["run"],
                about["model"],
                f"{about['parameters']:,}",
                about["tokenizer"],
                about["data"],
                str(count),
            ]
        )
    return rows


def _accuracy_tables(records: pd.DataFrame) -> dict[str, list[list[str]]]:
    tables = {}
    permutation = records[records["diagnostic"] == "permutation"]
    if not permutation.empty:
        tables["Permutation programs: final state right"] = _grid(
            permutation, ["run", "every", "forcing"], "length", ["Run", "Spacing", "Forcing"]
        )
    composition = records[records["diagnostic"] == "composition"]
    if not composition.empty:
        composed = composition[composition["form"] != "atomic"]
        if not composed.empty:
            tables["Composition: answer right, by depth"] = _grid(
                composed, ["run", "family", "form", "forcing"], "depth", ["Run", "Family", "Form", "Forcing"]
            )
        atomic = composition[composition["form"] == "atomic"]
        tables["Single functions: answer right"] = _grid(
            atomic, ["family", "function", "forcing"], "run", ["Family", "Function", "Forcing"]
        )
    return tables


def _grid(records: pd.DataFrame, down: list[str], across: str, names: list[str]) -> list[list[str]]:
    columns = sorted(records[across].unique())
    heads = [str(int(c)) if isinstance(c, float) else str(c) for c in columns]
    rows = [[*names, *heads]]
    for keys, group in records.groupby(down, sort=True):
        cells = []
        for column in columns:
            chosen = group[group[across] == column]
            cells.append(_rate_cell(chosen) if len(chosen) else "")
        rows.append([*(f"{k:g}" if isinstance(k, float) else str(k) for k in keys), *cells])
    return rows


def _rate_cell(rows: pd.DataFrame) -> str:
    right = rate(rows["final_right"].tolist())
    tokens = rows[list(COST)].sum(axis=1).mean()
    return f"{right.mean:.1%} ({right.low:.0%} to {right.high:.0%}); {tokens:.0f} tokens"


def _draw(records: pd.DataFrame, folder: Path) -> list[FigureFile]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, (caption, make) in FIGURES.items():
        figure = make(records)
        if figure is None:
            continue
        figure.savefig(folder / f"{name}.png", bbox_inches="tight", dpi=150)
        drawn.append(FigureFile(name, caption, _svg(figure)))
        plt.close(figure)
    return drawn


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _markdown(
    title: str, verdicts: list[Verdict], figures: list[FigureFile], tables: dict[str, list[list[str]]]
) -> str:
    parts = [f"# {title}", "## Verdicts"]
    parts.append(
        _table([VERDICT_COLUMNS, *(_verdict_row(v) for v in verdicts)]) if verdicts else "No comparison asked for."
    )
    parts.append(
        "Differences are over the same examples; intervals are Agresti and Min's for matched pairs, p-values McNemar's exact "
        "test. Fixed: significantly better and at least 95 % right. Tokens: the trace's, relative to the baseline's."
    )
    parts += [f"## {figure.caption}\n\n![{figure.caption}](figures/{figure.name}.png)" for figure in figures]
    parts += [f"## {name}\n\n{_table(rows)}" for name, rows in tables.items()]
    return "\n\n".join([*parts, made_with()]) + "\n"


def made_with() -> str:
    """One line on the software and machine behind a report."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("cwm-remedy", "torch", "transformers"))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} CPU cores, no GPU"
    return f"Report made with {packages}, Python {platform.python_version()}; {device}."


def _table(rows: list[list[str]]) -> str:
    cleaned = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in cleaned]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
