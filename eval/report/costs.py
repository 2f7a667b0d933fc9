"""Tokens: written and read by models, right answers by tokens, and measurements of traces without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from remedy.eval.records import baselines
from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.reading import Measurement
from remedy.eval.report.results import AXES, fed
from remedy.eval.stats import rate
from remedy.eval.tables.sections import TOKENS, Group, Rows, Section, grouped, in_order, interval, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WRITTEN = (
    "Mean tokens for a trace. Written: by the model. Read: by it for that, by the plain loop with a cache: the context and all that is "
    "fed or written, up to its last token; with a memory, what is in sight there and wherever a frame was forgotten before, after "
    "which what is left is read anew. Programs that are not decoded count as none."
)
MEASURED = (
    "Tokens that a model writes: the trace after its given first frame, without the program. Programs too long to be traced "
    "whole count as "
    "over every limit. "
)
CUTS = (
    "Uses of an operation whose pattern occurs in its subject, both held by constants or variables; cut: the pattern's tokens "
    "do not occur, "
    "one after another, among the subject's."
)
_SET = ["benchmark", "tokenizer", "format", "string_encoding"]
_HEAD = ["Programs", "Tokenizer", "Format", "String encoding"]


def token_sections(conditions: Sequence[ConditionSummary], variants: Mapping[str, str]) -> list[Section]:
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
    rows = table(grouped(conditions, variants), columns)
    found = [Section("Tokens written and read", rows=rows, note=WRITTEN, group=TOKENS)]
    if len({round(one["trace_tokens"]) for one in conditions if one["right"] is not None}) > 1:
        draw = partial(accuracy_by_cost, conditions, variants)
        found.insert(0, Section("Right answers by tokens", draw=draw, group=TOKENS))
    return found


def accuracy_by_cost(conditions: Sequence[ConditionSummary], variants: Mapping[str, str]) -> Figure:
    """Right answers with their intervals against the mean tokens of a trace, a point for every run and condition: a panel for every
    forcing, a colour for every recipe, a marker for every diagnostic, and for answers at once."""
    from remedy.eval.tables import plotting

    scored = [condition for condition in in_order(conditions) if condition["right"] is not None]
    names = list(dict.fromkeys(variants[one["run"]] for one in scored))
    kinds = list(dict.fromkeys(map(_kind, scored)))
    forcings = list(dict.fromkeys(str(one["labels"]["forcing"]) for one in scored))
    figure, axes = plotting.panels(len(forcings))
    for panel, forcing in zip(axes, forcings):
        mine = [one for one in scored if one["labels"]["forcing"] == forcing]
        for name in names:
            for kind in kinds:
                found = [one for one in mine if variants[one["run"]] == name and _kind(one) == kind]
                number = names.index(name)
                marker = plotting.MARKERS[(kinds.index(kind) if len(kinds) > 1 else number) % len(plotting.MARKERS)]
                look: dict[str, Any] = {
                    "color": plotting.colour(number),
                    "label": plotting.called(name, kind if len(kinds) > 1 else ""),
                }
                points = [(one["trace_tokens"], one["right"]) for one in found if one["right"] is not None]
                for at, right in points:
                    panel.vlines(at, right["low"], right["high"], color=look["color"], alpha=0.4)
                if points:
                    panel.plot(*zip(*((at, right["mean"]) for at, right in points)), marker, ls="", alpha=0.8, **look)
        baselines.mark(panel, ((one["trace_tokens"], one) for one in mine))
        plotting.powers(panel)
        plotting.rates(panel)
        panel.set(xlabel=f"{AXES['trace_tokens']}, mean", title=fed(forcing))
    axes[0].set_ylabel("right answers")
    plotting.key(figure, axes, names, kinds, kinds)
    return figure


def _kind(condition: ConditionSummary) -> str:
    return condition["diagnostic"] + (", answer at once" if condition["labels"]["answer_only"] else "")


def measure_sections(measurements: Sequence[Measurement]) -> list[Section]:
    """The sections on measurements."""
    found: list[Section] = []
    for number, measurement in enumerate(measurements, start=1):
        which = f" ({number})" if len(measurements) > 1 else ""
        tokens = with_total(measurement.tokens)
        costs = measurement.request["config"]["costs"]
        note = MEASURED + f"Programs ran on {measurement.request['python']} ({measurement.request['isolation']})."
        found.append(Section(f"Tokens of traces{which}", rows=token_table(tokens, costs["limits"]), note=note))
        if (tokens["variant"] == "densest").any():
            title = f"How programs are written in {costs['max_tokens']:,} tokens{which}"
            note = "A program that fits with every state in full is written so; else the next denser variant that fits is chosen."
            found.append(Section(title, rows=densest_table(tokens), note=note))
        if len(measurement.cuts):
            found.append(Section(f"How tokenizers cut strings{which}", rows=cut_table(measurement.cuts), note=CUTS))
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
            rows.append([*_texts((*values, *variant)), *_quantiles(group, limits)])
        if len(fitted):
            rows.append([*_texts(values), "densest", "", *_quantiles(fitted, limits)])
    return rows


def _texts(values: tuple[Any, ...]) -> list[str]:
    return [f"{v:g}" if isinstance(v, float) else str(v) for v in values]


def _quantiles(group: pd.DataFrame, limits: Sequence[int]) -> list[str]:
    counts = group["tokens"]
    over = [int((counts.isna() | (counts > limit)).sum()) for limit in limits]
    middle, most = counts.quantile(0.5), counts.quantile(0.9)
    shown = [f"{middle:,.1f}", f"{most:,.0f}", f"{counts.max():,.0f}"] if counts.notna().any() else ["", "", ""]
    return [str(len(group)), *shown, *(f"{count}\n{count / len(group):.1%}" for count in over)]


class Density(StrEnum):
    """The price of fitting a program into a limit."""

    WHOLE = "every state in full"
    DIFF = "every state as a diff"
    SPACED = "wider spacing"
    STEPPED_OVER = "calls stepped over"
    NONE = "nothing fits"


def density(row: Mapping[str, Any]) -> Density:
    """The density of a densest variant, by its columns."""
    if not row["written"]:
        return Density.NONE
    if not pd.isna(row["call_depth"]):
        return Density.STEPPED_OVER
    if row["spacing"] > 1:
        return Density.SPACED
    return Density.WHOLE if row["locals"] == "full" else Density.DIFF


def densest_table(tokens: pd.DataFrame) -> Rows:
    """Programs by the variant that fits, and their tokens then and with every state in full."""
    whole = tokens[(tokens["variant"] == "fixed") & (tokens["locals"] == "full") & (tokens["spacing"] == 1)]
    fitted = tokens[tokens["variant"] == "densest"].merge(
        whole[[*_SET, "example", "tokens"]], on=[*_SET, "example"], how="left", suffixes=("", "_whole")
    )
    fitted = fitted.assign(density=[density(row) for row in fitted.to_dict("records")])
    rows = [[*_HEAD, "Written with", "Count", "Median tokens", "Each state in full"]]
    for values, mine in fitted.groupby(_SET, sort=False):
        for kind in Density:
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
