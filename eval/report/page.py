"""The report: Markdown, and one self-contained HTML page, from the records of any number of evaluations."""

from __future__ import annotations

import io
import json
import math
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from remedy.data_gen.settings import UserError
from remedy.eval.costs.measure import CUTS, TOKENS
from remedy.eval.costs.measure import REQUEST as MEASURED
from remedy.eval.evaluate import RECORDS, REQUEST
from remedy.eval.records import read_records, traced_only
from remedy.eval.report.costs import Measurement, measure_sections
from remedy.eval.report.generated import accuracy_by_length, accuracy_by_tokens, attribution, composition
from remedy.eval.report.programs import code_sections, left_out
from remedy.eval.report.sections import Draw, Section
from remedy.eval.report.seeds import seed_sections
from remedy.eval.report.verdicts import COST, Comparison, Verdict, default_comparisons, judge
from remedy.eval.stats import rate

MARKDOWN, PAGE = "report.md", "report.html"


class Drawn(NamedTuple):
    """A section ready for a page: a figure's file name and SVG source, or a table."""

    title: str
    note: str
    name: str
    svg: str
    rows: list[list[str]] | None


GENERATED: list[tuple[str, Draw]] = [
    ("Accuracy by length, per architecture and spacing", accuracy_by_length),
    ("Composition: observed against the product of atomic accuracies", composition),
    ("Where traces first go wrong", attribution),
    ("Accuracy against tokens", accuracy_by_tokens),
]
"""Figures of generated programs, with their captions."""


def report(
    directories: Sequence[Path], output: Path, comparisons: Sequence[Comparison] | None = None, title: str = "Report"
) -> Path:
    """Write `report.md`, `report.html` and `figures/` from evaluations and measurements; returns the page's path.

    Without `comparisons`, every run is compared with the first one found, condition by condition, and on real programs every
    condition with the first of its run; runs that are one variant with several seeds are put together instead.

    Raises:
        UserError: no evaluation or measurement is found, or a comparison does not fit the records.
    """
    evaluations, measured = find(directories)
    requests = [json.loads((folder / REQUEST).read_text(encoding="utf-8")) for folder in evaluations]
    everything = _records(evaluations)
    records = traced_only(everything)
    variants = {request["run"]: request["variant"] for request in requests if request.get("variant")}
    repeated = seed_sections(records, variants)
    if comparisons is None:  # of runs that repeat each other, none is a baseline for all
        comparisons = default_comparisons(records) if len(records) and not repeated else []
    chosen = comparisons
    verdicts = [judge(c, records) for c in chosen]
    fingerprints = {request["run"]: request["checkpoint"]["fingerprint"] for request in requests}
    sections = [
        *repeated,
        *_generated(records, variants if repeated else {}),
        *([Section("Runs", rows=_runs_table(requests, records))] if requests else []),
        *(Section(name, rows=rows) for name, rows in _accuracy_tables(records).items()),
        *code_sections(records, chosen, left_out(everything)),
        *measure_sections([read_measurement(folder) for folder in measured], records, fingerprints),
    ]
    output.mkdir(parents=True, exist_ok=True)
    drawn = [d for d in (_drawn(section, records, output / "figures") for section in sections) if d is not None]
    (output / MARKDOWN).write_text(_markdown(title, verdicts, drawn), encoding="utf-8")
    environment = jinja2.Environment(loader=jinja2.PackageLoader("remedy.eval.report", "."), autoescape=True)
    page = environment.get_template("report.html.j2").render(
        title=title,
        verdicts=[_verdict_row(v) for v in verdicts],
        columns=VERDICT_COLUMNS,
        sections=drawn,
        made=made_with(),
    )
    (output / PAGE).write_text(page, encoding="utf-8")
    return output / PAGE


def _generated(records: pd.DataFrame, variants: dict[str, str]) -> list[Section]:
    """Figures of generated programs, one line or bar a run, or a variant where runs repeat each other."""
    if variants:
        records = records.assign(run=records["run"].map(variants).fillna(records["run"]))
    drawn = [(caption, draw) for caption, draw in GENERATED if not (variants and draw is accuracy_by_length)]
    return [Section(caption, figure=draw, data=records) for caption, draw in drawn if len(records)]


def find(directories: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """All folders of evaluations, and all of measurements, at or below the given ones, in the order given.

    Raises:
        UserError: a folder holds none.
    """
    evaluations: list[Path] = []
    measured: list[Path] = []
    for directory in directories:
        below = sorted(path.parent for path in directory.rglob(REQUEST))
        below = [folder for folder in below if any((folder / RECORDS).glob("*.parquet"))]
        counted = sorted(path.parent for path in directory.rglob(MEASURED))
        if not below and not counted:
            raise UserError(
                f"{directory}: no evaluation or measurement found there; `remedy evaluate` and `remedy measure` write them"
            )
        evaluations += [folder for folder in below if folder not in evaluations]
        measured += [folder for folder in counted if folder not in measured]
    return evaluations, measured


def read_measurement(folder: Path) -> Measurement:
    """One folder of `remedy measure`.

    Raises:
        UserError: a file of it is missing or damaged.
    """
    try:
        request = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
        return Measurement(request, pd.read_parquet(folder / TOKENS), pd.read_parquet(folder / CUTS))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: damaged measurement ({str(error).splitlines()[0]}); measure again") from None


def _records(evaluations: Sequence[Path]) -> pd.DataFrame:
    found = [read_records(path) for folder in evaluations for path in sorted((folder / RECORDS).glob("*.parquet"))]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame({"diagnostic": [], "run": []})


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
        "" if math.isnan(item.token_ratio) else f"x {item.token_ratio:.2f}",
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
            permutation, ["run", "spacing", "forcing"], "length", ["Run", "Spacing", "Forcing"]
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


def _drawn(section: Section, records: pd.DataFrame, folder: Path) -> Drawn | None:
    """The section with its figure written; None for a figure whose data is not there."""
    if section.figure is None:
        return Drawn(section.title, section.note, "", "", section.rows)
    figure = section.figure(records if section.data is None else section.data)
    if figure is None:
        return None
    name = re.sub(r"[^a-z0-9]+", "_", section.figure.__name__ + section.title.partition("(")[2].lower()).strip("_")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", bbox_inches="tight", dpi=150)
    svg = _svg(figure)
    plt.close(figure)
    return Drawn(section.title, section.note, name, svg, None)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _markdown(title: str, verdicts: list[Verdict], sections: list[Drawn]) -> str:
    parts = [f"# {title}"]
    if verdicts:
        parts.append("## Verdicts\n\n" + _table([VERDICT_COLUMNS, *(_verdict_row(v) for v in verdicts)]))
        parts.append(
            "Differences are over the same examples; intervals are Agresti and Min's for matched pairs, p-values McNemar's exact "
            "test. Fixed: significantly better and at least 95 % right. Tokens: the trace's, relative to the baseline's."
        )
    for section in sections:
        shown = _table(section.rows) if section.rows else f"![{section.title}](figures/{section.name}.png)"
        parts.append("\n\n".join(part for part in (f"## {section.title}", shown, section.note) if part))
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
