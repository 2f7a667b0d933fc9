"""What the report says of measurements: what traces cost, which fit, and how tokenizers cut strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from remedy.data_gen.roles import Role
from remedy.eval.records.schema import ROLE_COLUMNS, TRACE_COLUMNS
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.cuts import CUT_NOTE, Measurement, cut_table, failures_by_cut, with_total
from remedy.eval.tables import plotting
from remedy.eval.tables.colours import COLOURS, ROLE_COLOURS
from remedy.eval.tables.plotting import LINES
from remedy.eval.tables.sections import Rows, Section


def measure_sections(
    measurements: Sequence[Measurement],
    conditions: Sequence[ConditionSummary],
    records: pd.DataFrame,
    fingerprints: Mapping[str, str],
) -> list[Section]:
    """The sections on measurements; `fingerprints` gives every run's tokenizer."""
    found: list[Section] = []
    for number, measurement in enumerate(measurements, start=1):
        which = f" ({number})" if len(measurements) > 1 else ""
        tokens = with_total(measurement.tokens)
        python = f"Programs ran on {measurement.request['python']} ({measurement.request['isolation']})."
        costs = measurement.request["config"]["costs"]
        note = (
            "Tokens that a model writes: the trace after its given first frame, without the program. Programs too long to be traced "
            "whole count as over every limit. "
        )
        fitted = (tokens["variant"] == "densest").any()
        if fitted:
            note += (
                f"Densest: the densest variant in which program and trace have at most {costs['max_tokens']:,} tokens. "
            )
        found += [
            Section(f"Tokens of traces{which}", rows=token_table(tokens, costs["limits"]), note=note + python),
            Section(f"Traces longer than so many tokens{which}", draw=partial(longer_than, tokens)),
            Section(f"Tokens by role{which}", draw=partial(tokens_by_role, tokens)),
        ]
        if fitted:
            title = f"How programs are written in {costs['max_tokens']:,} tokens{which}"
            note = "A program that fits with every state in full is written so; else the next denser variant that fits is chosen."
            found.append(Section(title, rows=densest_table(tokens), note=note))
        if len(measurement.cuts):
            note = (
                "Uses of an operation whose pattern occurs in its subject, both held by constants or variables; cut: the pattern's "
                "tokens do not occur, one after another, among the subject's."
            )
            found.append(Section(f"How tokenizers cut strings{which}", rows=cut_table(measurement.cuts), note=note))
        beside = failures_by_cut(measurement, conditions, records, fingerprints)
        if len(beside) > 1:
            title = f"Failures with and without cut patterns{which}"
            found.append(Section(title, rows=beside, note=CUT_NOTE))
    return found


def token_table(tokens: pd.DataFrame, limits: Sequence[int]) -> Rows:
    """Quantiles, and programs over each limit, for every variant."""
    head = [
        "Programs",
        "Tokenizer",
        "Format",
        "String encoding",
        "Locals",
        "Spacing",
        "Count",
        "Median",
        "90 %",
        "Longest",
    ]
    table = [[*head, *(f"Over {limit:,}" for limit in limits)]]
    for values, mine in tokens.groupby(_SET, sort=False):
        fixed, fitted = mine[mine["variant"] == "fixed"], mine[mine["variant"] == "densest"]
        for variant, group in fixed.groupby(["locals", "spacing"], sort=False):
            table.append([*_texts((*values, *variant)), *_quantiles(group, limits)])
        if len(fitted):
            table.append([*_texts(values), "densest", "", *_quantiles(fitted, limits)])
    return table


_SET = ["benchmark", "tokenizer", "format", "string_encoding"]


def _texts(values: tuple[Any, ...]) -> list[str]:
    return [f"{v:g}" if isinstance(v, float) else str(v) for v in values]


def _quantiles(group: pd.DataFrame, limits: Sequence[int]) -> list[str]:
    counts = group["tokens"]
    over = [int((counts.isna() | (counts > limit)).sum()) for limit in limits]
    middle, most = counts.quantile(0.5), counts.quantile(0.9)
    shown = [f"{middle:,.1f}", f"{most:,.0f}", f"{counts.max():,.0f}"] if counts.notna().any() else ["", "", ""]
    return [str(len(group)), *shown, *(f"{count}\n{count / len(group):.1%}" for count in over)]


class Density(StrEnum):
    """What had to be given up for a program to fit."""

    WHOLE = "every state in full"
    DIFF = "every state as a diff"
    SPACED = "wider spacing"
    STEPPED_OVER = "calls stepped over"
    NONE = "nothing fits"


def density(row: Mapping[str, Any]) -> Density:
    """Which one a densest variant is, by its columns."""
    if not row["written"]:
        return Density.NONE
    if not pd.isna(row["call_depth"]):
        return Density.STEPPED_OVER
    if row["spacing"] > 1:
        return Density.SPACED
    return Density.WHOLE if row["locals"] == "full" else Density.DIFF


def densest_table(tokens: pd.DataFrame) -> Rows:
    """How many programs were written in which variant to fit, and their tokens then and with every state in full."""
    whole = tokens[(tokens["variant"] == "fixed") & (tokens["locals"] == "full") & (tokens["spacing"] == 1)]
    fitted = tokens[tokens["variant"] == "densest"].merge(
        whole[[*_SET, "example", "tokens"]], on=[*_SET, "example"], how="left", suffixes=("", "_whole")
    )
    fitted = fitted.assign(density=[density(row) for row in fitted.to_dict("records")])
    table = [
        [
            "Programs",
            "Tokenizer",
            "Format",
            "String encoding",
            "Written with",
            "Count",
            "Median tokens",
            "Each state in full",
        ]
    ]
    for values, mine in fitted.groupby(_SET, sort=False):
        for kind in Density:
            group = mine[mine["density"] == kind]
            if len(group):
                medians = (group["tokens"].median(), group["tokens_whole"].median())
                shown = ("" if pd.isna(median) else f"{median:,.0f}" for median in medians)
                table.append([*_texts(values), kind, str(len(group)), *shown])
    return table


def longer_than(tokens: pd.DataFrame) -> Figure | None:
    """Share of traces with more tokens than x, one line for every variant, one panel for every benchmark; the first tokenizer."""
    rows = _first(tokens)
    benchmarks = list(dict.fromkeys(rows["benchmark"]))
    figure, axes = plotting.panels(len(benchmarks))
    for panel, benchmark in zip(axes, benchmarks):
        mine = rows[rows["benchmark"] == benchmark]
        fixed = mine[mine["variant"] == "fixed"]
        spacings = sorted(fixed["spacing"].unique())
        for (shown, spacing), group in fixed.groupby(["locals", "spacing"], sort=False):
            colour = COLOURS[spacings.index(spacing) % len(COLOURS)]
            _survival(
                panel, group["tokens"], f"{shown}, spacing {spacing:g}", colour, LINES[0 if shown == "full" else 1]
            )
        fitted = mine[mine["variant"] == "densest"]
        if len(fitted):
            _survival(panel, fitted["tokens"], "densest", "black", ":")
        plotting.powers(panel)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
        panel.set_ylim(0.5 / len(mine.groupby("example")), 1.3)
        panel.tick_params(axis="x", rotation=60)
        panel.set(xlabel="tokens of the trace", title=f"{benchmark}, {rows['tokenizer'].iloc[0]}")
    axes[0].set_ylabel("share of traces with more")
    plotting.legend(figure, axes)
    return figure


def _survival(panel: Any, counts: pd.Series, label: str, colour: str, style: str) -> None:
    known = counts.dropna().sort_values()
    missing = len(counts) - len(known)
    above = [(len(known) - place - 1 + missing) / len(counts) for place in range(len(known))]
    panel.step(known, above, where="post", color=colour, linestyle=style, label=label, lw=1.3)


def tokens_by_role(tokens: pd.DataFrame) -> Figure | None:
    """Median program's tokens by role for every variant, one panel for every benchmark; the first tokenizer."""
    rows = _first(tokens).dropna(subset=["tokens"])
    if rows.empty:
        return None
    rows = rows.assign(
        label=[
            "densest" if variant == "densest" else f"{shown}, spacing {spacing:g}"
            for variant, shown, spacing in zip(rows["variant"], rows["locals"], rows["spacing"])
        ]
    )
    benchmarks = list(dict.fromkeys(rows["benchmark"]))
    figure, axes = plotting.panels(len(benchmarks))
    for panel, benchmark in zip(axes, benchmarks):
        mine = rows[rows["benchmark"] == benchmark]
        shares = mine.groupby("label", sort=False)[TRACE_COLUMNS].median()
        bottom = pd.Series(0.0, index=shares.index)
        for role, column in ROLE_COLUMNS.items():
            name = role.label
            if role is not Role.CONTEXT and shares[column].any():
                panel.bar(shares.index, shares[column], bottom=bottom, color=ROLE_COLOURS[name], label=name)
                bottom = bottom + shares[column]
        panel.tick_params(axis="x", rotation=75)
        panel.grid(axis="x", visible=False)
        panel.set(title=f"{benchmark}, {rows['tokenizer'].iloc[0]}")
    axes[0].set_ylabel("tokens, median of each role")
    for label in axes[0].get_yticklabels():
        label.set_visible(True)
    plotting.legend(figure, axes)
    return figure


def _first(tokens: pd.DataFrame) -> pd.DataFrame:
    return tokens[
        (tokens["tokenizer"] == tokens["tokenizer"].iloc[0])
        & (tokens["format"] == tokens["format"].iloc[0])
        & (tokens["string_encoding"] == tokens["string_encoding"].iloc[0])
    ]
