"""Tokens: written and read by models, and measurements of traces without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.notes import NOTES
from remedy.eval.report.reading import Measurement
from remedy.eval.stats import rate
from remedy.eval.tables.sections import TOKENS, Group, Rows, Section, grouped, interval, table

_SET = ["benchmark", "tokenizer", "format", "string_encoding"]
_HEAD = ["Programs", "Tokenizer", "Format", "String encoding"]
DENSITIES = (
    "every state in full",
    "every state as a diff",
    "wider spacing",
    "calls stepped over",
    "nothing fits",
)
"""What is given up for a program to fit into a limit."""


def token_sections(conditions: Sequence[ConditionSummary]) -> list[Section]:
    """The sections on the tokens of models; nothing where none was evaluated."""
    if not conditions:
        return []

    def mean(key: str, group: Group) -> str:
        return f"{group.total(key) / len(group.runs):,.1f}"

    def ratio(group: Group) -> str:
        written = group.total("written_tokens")
        return f"{group.total('read_tokens') / written:,.1f}" if written else ""

    columns: dict[str, Callable[[Group], str]] = {
        "Diagnostic": lambda group: group.runs[0]["diagnostic"],
        "Written": partial(mean, "written_tokens"),
        "Read": partial(mean, "read_tokens"),
        "Read for one written": ratio,
    }
    rows = table(grouped(conditions), columns)
    return [Section("Tokens written and read", rows=rows, note=NOTES["tokens"], group=TOKENS)]


def measure_sections(measurements: Sequence[Measurement]) -> list[Section]:
    """The sections on measurements."""
    found: list[Section] = []
    for number, measurement in enumerate(measurements, start=1):
        which = f" ({number})" if len(measurements) > 1 else ""
        tokens, costs = with_total(measurement.tokens), measurement.request["config"]["costs"]
        ran = f"Programs ran on {measurement.request['python']} ({measurement.request['isolation']})."
        rows, note = token_table(tokens, costs["limits"]), f"{NOTES['measured']} {ran}"
        found.append(Section(f"Tokens of traces{which}", rows=rows, note=note))
        if (tokens["variant"] == "densest").any():
            title = f"How programs are written in {costs['max_tokens']:,} tokens{which}"
            found.append(Section(title, rows=densest_table(tokens), note=NOTES["densest"]))
        if len(measurement.cuts):
            title = f"How tokenizers cut strings{which}"
            found.append(Section(title, rows=cut_table(measurement.cuts), note=NOTES["cuts"]))
    return [section._replace(group=TOKENS) for section in found]


def with_total(tokens: pd.DataFrame) -> pd.DataFrame:
    """The rows with `tokens`, what a model writes; missing where a program was not traced."""
    return tokens.assign(tokens=tokens[TRACE_COLUMNS].sum(axis=1, min_count=1))


def token_table(tokens: pd.DataFrame, limits: Sequence[int]) -> Rows:
    """Quantiles, and programs over each limit, for every variant."""
    head = [*_HEAD, "Locals", "Spacing", "Count", "Median", "90 %", "Longest"]
    rows = [[*head, *(f"Over {limit:,}" for limit in limits)]]
    for values, mine in tokens.groupby(_SET, sort=False):
        fixed, fitted = mine[mine["variant"] == "fixed"], mine[mine["variant"] == "densest"]
        for variant, group in fixed.groupby(["locals", "spacing"], sort=False):
            rows.append([*_texts((*values, *variant)), *_quantiles(group["tokens"], limits)])
        if len(fitted):
            rows.append([*_texts(values), "densest", "", *_quantiles(fitted["tokens"], limits)])
    return rows


def _texts(values: tuple[Any, ...]) -> list[str]:
    return [f"{v:g}" if isinstance(v, float) else str(v) for v in values]


def _quantiles(counts: pd.Series, limits: Sequence[int]) -> list[str]:
    middle, most = counts.quantile([0.5, 0.9])
    shown = [f"{middle:,.1f}", f"{most:,.0f}", f"{counts.max():,.0f}"] if counts.notna().any() else ["", "", ""]
    over = [int((counts.isna() | (counts > limit)).sum()) for limit in limits]
    return [str(len(counts)), *shown, *(f"{count}\n{count / len(counts):.1%}" for count in over)]


def densest_table(tokens: pd.DataFrame) -> Rows:
    """Programs by the variant that fits, and their tokens then and with every state in full."""
    whole = tokens[(tokens["variant"] == "fixed") & (tokens["locals"] == "full") & (tokens["spacing"] == 1)]
    fitted = tokens[tokens["variant"] == "densest"].merge(
        whole[[*_SET, "example", "tokens"]], on=[*_SET, "example"], how="left", suffixes=("", "_whole")
    )
    full, diff, spaced, stepped_over, nothing = DENSITIES
    given_up = [~fitted["written"].astype(bool), fitted["call_depth"].notna(), fitted["spacing"] > 1]
    given_up.append(fitted["locals"] == "full")
    fitted = fitted.assign(density=np.select(given_up, [nothing, stepped_over, spaced, full], diff))
    rows = [[*_HEAD, "Written with", "Count", "Median tokens", "Each state in full"]]
    for values, mine in fitted.groupby(_SET, sort=False):
        for kind in DENSITIES:
            group = mine[mine["density"] == kind]
            if len(group):
                medians = (group["tokens"].median(), group["tokens_whole"].median())
                shown = ("" if pd.isna(median) else f"{median:,.0f}" for median in medians)
                rows.append([*_texts(values), kind, str(len(group)), *shown])
    return rows


def cut_table(cuts: pd.DataFrame) -> Rows:
    """Share of uses whose pattern is cut, by benchmark, operation and tokenizer, with intervals over clusters: executions of one
    function use the same patterns."""
    names = list(dict.fromkeys(cuts["tokenizer"]))
    rows = [["Benchmark", "Operation", "Uses", *names]]
    for benchmark, those in cuts.groupby("benchmark", sort=False):
        for operation, group in [*those.groupby("operation", sort=True), ("all", those)]:
            cells = []
            for name in names:
                mine = group[group["tokenizer"] == name]
                found = rate(mine["discontinuous"].astype(bool).tolist(), mine["cluster"].tolist())
                cells.append(f"{found.mean:.0%}\n{interval(found.low, found.high)}")
            rows.append([str(benchmark), str(operation), str(len(group) // len(names)), *cells])
    return rows
