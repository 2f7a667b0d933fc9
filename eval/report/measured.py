"""Report sections on measurements of tokens and tokenizers."""

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
DENSITIES = (
    "every state in full",
    "every state as a diff",
    "every change",
    "wider spacing",
    "frames left out",
    "loops folded",
    "calls stepped over",
    "nothing fits",
)
"""Ways to make a program fit into a limit, each giving up more."""


def measured_sections(measurements: Sequence[Measurement]) -> list[Section]:
    sections: list[Section] = []
    for number, measurement in enumerate(measurements, start=1):
        suffix = f" ({number})" if len(measurements) > 1 else ""
        tokens, costs = with_total(measurement.tokens), measurement.request["config"]["costs"]
        environment = f"Programs ran on {measurement.request['python']} ({measurement.request['isolation']})."
        rows, note = token_table(tokens, costs["limits"]), f"{NOTES['measured']} {environment}"
        sections.append(Section(f"Tokens of traces{suffix}", rows=rows, note=note))
        if (tokens["variant"] == "densest").any():
            title = f"How programs are written in {costs['max_tokens']:,} tokens{suffix}"
            sections.append(Section(title, rows=densest_table(tokens), note=NOTES["densest"]))
        if len(measurement.patterns):
            title = f"How tokenizers cut strings{suffix}"
            sections.append(Section(title, rows=pattern_table(measurement.patterns), note=NOTES["patterns"]))
    return [section._replace(group=TOKENS) for section in sections]


def with_total(tokens: pd.DataFrame) -> pd.DataFrame:
    """Add `tokens`, the written ones; missing for untraced programs."""
    return tokens.assign(tokens=tokens[TRACE_COLUMNS].sum(axis=1, min_count=1))


def token_table(tokens: pd.DataFrame, limits: Sequence[int]) -> Rows:
    head = [*_HEAD, "Locals", "Spacing", "Count", "Median", "90 %", "Longest"]
    rows = [[*head, *(f"Over {limit:,}" for limit in limits)]]
    dense = tokens["variant"] == "densest"
    # The densest variant's locals and spacing differ from program to program: together they are one row.
    variants = tokens.assign(
        locals=tokens["locals"].mask(dense, "densest"), spacing=tokens["spacing"].mask(dense, -1.0)
    )
    for _, of_set in variants.groupby(_SET, sort=False):
        of_set = of_set.sort_values("variant", key=lambda variant: variant == "densest", kind="stable")
        for values, group in of_set.groupby([*_SET, "locals", "spacing"], sort=False):
            counts = group["tokens"]
            middle, most, longest = counts.quantile(0.5), counts.quantile(0.9), counts.max()
            quantiles = [f"{middle:,.1f}", f"{most:,.0f}", f"{longest:,.0f}"] if counts.notna().any() else ["", "", ""]
            over = [int((counts.isna() | (counts > limit)).sum()) for limit in limits]
            labels = ["" if value == -1.0 else text(value) for value in values]
            rows.append(
                [*labels, str(len(group)), *quantiles, *(f"{count}\n{count / len(group):.1%}" for count in over)]
            )
    return rows


def densest_table(tokens: pd.DataFrame) -> Rows:
    in_full = tokens[(tokens["variant"] == "fixed") & (tokens["locals"] == "full") & (tokens["spacing"] == 1)]
    fitted = tokens[tokens["variant"] == "densest"].merge(
        in_full[[*_SET, "example", "tokens"]], on=[*_SET, "example"], how="left", suffixes=("", "_whole")
    )
    fitted = fitted.assign(**{name: None for name in ("frames", "loops") if name not in fitted})  # older measurements
    full, diff, changes, spaced, left_out, folded, stepped_over, nothing = DENSITIES
    # In this order: the first that holds is what was given up.
    given_up = {
        nothing: ~fitted["written"].astype(bool),
        stepped_over: fitted["call_depth"].notna(),
        folded: fitted["loops"].notna(),
        left_out: fitted["frames"] == "shown",
        spaced: fitted["spacing"] > 1,
        changes: fitted["locals"] == "changes",
        full: fitted["locals"] == "full",
    }
    density = np.select([*given_up.values()], [*given_up], diff)
    fitted = fitted.assign(density=pd.Categorical(density, DENSITIES))
    rows = [[*_HEAD, "Written with", "Count", "Median tokens", "Each state in full"]]
    for _, of_set in fitted.groupby(_SET, sort=False):
        for values, group in of_set.groupby([*_SET, "density"], observed=True):
            medians = (group["tokens"].median(), group["tokens_whole"].median())
            cells = ("" if pd.isna(median) else f"{median:,.0f}" for median in medians)
            rows.append([*map(str, values), str(len(group)), *cells])
    return rows


def pattern_table(patterns: pd.DataFrame) -> Rows:
    """Tabulate the share of uses whose pattern is cut."""
    names = list(dict.fromkeys(patterns["tokenizer"]))
    rows = [["Benchmark", "Operation", "Uses", *names]]
    for benchmark, of_benchmark in patterns.groupby("benchmark", sort=False):
        for operation, group in [*of_benchmark.groupby("operation", sort=True), ("all", of_benchmark)]:
            cells = []
            for name in names:
                of_tokenizer = group[group["tokenizer"] == name]
                estimate = rate(of_tokenizer["discontinuous"], of_tokenizer["cluster"])
                cells.append(f"{estimate.mean:.0%}\n{interval(estimate.low, estimate.high)}")
            rows.append([str(benchmark), str(operation), str(len(group) // len(names)), *cells])
    return rows
