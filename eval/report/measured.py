"""Measurements of traces without a model: tokens by how they are written, what fits a limit, and how tokenizers cut strings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.report.notes import NOTES
from remedy.eval.report.reading import Measurement
from remedy.eval.stats import rate
from remedy.eval.tables.sections import TOKENS, Rows, Section, interval, text

_SET = ["benchmark", "tokenizer", "format", "string_encoding"]
_HEAD = ["Programs", "Tokenizer", "Format", "String encoding"]
DENSITIES = ("every state in full", "every state as a diff", "wider spacing", "calls stepped over", "nothing fits")
"""What is given up for a program to fit into a limit."""


def measured_sections(measurements: Sequence[Measurement]) -> list[Section]:
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
        if len(measurement.patterns):
            title = f"How tokenizers cut strings{which}"
            found.append(Section(title, rows=pattern_table(measurement.patterns), note=NOTES["patterns"]))
    return [section._replace(group=TOKENS) for section in found]


def with_total(tokens: pd.DataFrame) -> pd.DataFrame:
    """The rows with `tokens`, what a model writes; missing where a program was not traced."""
    return tokens.assign(tokens=tokens[TRACE_COLUMNS].sum(axis=1, min_count=1))


def token_table(tokens: pd.DataFrame, limits: Sequence[int]) -> Rows:
    """Quantiles, and programs over each limit, for every variant."""
    head = [*_HEAD, "Locals", "Spacing", "Count", "Median", "90 %", "Longest"]
    rows = [[*head, *(f"Over {limit:,}" for limit in limits)]]
    dense = tokens["variant"] == "densest"
    ways = tokens.assign(locals=tokens["locals"].mask(dense, "densest"), spacing=tokens["spacing"].mask(dense, -1.0))
    for _, mine in ways.groupby(_SET, sort=False):
        mine = mine.sort_values("variant", key=lambda variant: variant == "densest", kind="stable")
        for values, group in mine.groupby([*_SET, "locals", "spacing"], sort=False):
            counts = group["tokens"]
            middle, most, longest = counts.quantile(0.5), counts.quantile(0.9), counts.max()
            shown = [f"{middle:,.1f}", f"{most:,.0f}", f"{longest:,.0f}"] if counts.notna().any() else ["", "", ""]
            over = [int((counts.isna() | (counts > limit)).sum()) for limit in limits]
            about = ["" if value == -1.0 else text(value) for value in values]
            rows.append([*about, str(len(group)), *shown, *(f"{one}\n{one / len(group):.1%}" for one in over)])
    return rows


def densest_table(tokens: pd.DataFrame) -> Rows:
    """Programs by the variant that fits, and their tokens then and with every state in full."""
    whole = tokens[(tokens["variant"] == "fixed") & (tokens["locals"] == "full") & (tokens["spacing"] == 1)]
    fitted = tokens[tokens["variant"] == "densest"].merge(
        whole[[*_SET, "example", "tokens"]], on=[*_SET, "example"], how="left", suffixes=("", "_whole")
    )
    full, diff, spaced, stepped_over, nothing = DENSITIES
    given_up = [~fitted["written"].astype(bool), fitted["call_depth"].notna(), fitted["spacing"] > 1]
    given_up.append(fitted["locals"] == "full")
    density = np.select(given_up, [nothing, stepped_over, spaced, full], diff)
    fitted = fitted.assign(density=pd.Categorical(density, DENSITIES))
    rows = [[*_HEAD, "Written with", "Count", "Median tokens", "Each state in full"]]
    for _, mine in fitted.groupby(_SET, sort=False):
        for values, group in mine.groupby([*_SET, "density"], observed=True):
            medians = (group["tokens"].median(), group["tokens_whole"].median())
            shown = ("" if pd.isna(median) else f"{median:,.0f}" for median in medians)
            rows.append([*map(str, values), str(len(group)), *shown])
    return rows


def pattern_table(patterns: pd.DataFrame) -> Rows:
    """Share of uses whose pattern is cut, by benchmark, operation and tokenizer, with intervals over clusters: executions of one
    function use the same patterns."""
    names = list(dict.fromkeys(patterns["tokenizer"]))
    rows = [["Benchmark", "Operation", "Uses", *names]]
    for benchmark, those in patterns.groupby("benchmark", sort=False):
        for operation, group in [*those.groupby("operation", sort=True), ("all", those)]:
            cells = []
            for name in names:
                mine = group[group["tokenizer"] == name]
                found = rate(mine["discontinuous"].astype(bool).tolist(), mine["cluster"].tolist())
                cells.append(f"{found.mean:.0%}\n{interval(found.low, found.high)}")
            rows.append([str(benchmark), str(operation), str(len(group) // len(names)), *cells])
    return rows
