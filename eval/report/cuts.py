"""What the report says of cut strings: how often tokenizers cut patterns, and how runs do on programs where theirs does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from remedy.eval.records.schema import TRACE_COLUMNS, LabelValue, answered
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import rate, stratified
from remedy.eval.tables.sections import Rows, in_order, interval, named, points

CUT_NOTE = (
    "Programs that use a pattern, by whether the run's own tokenizer cuts one; compared only where they have as many uses (1, 2, 3, "
    "4 or more) and traces of as many tokens (within a doubling), and both kinds weighted alike over these strata (Mantel-Haenszel). "
    "95 % intervals over clusters, each by itself. It is an association: programs alike in these two still differ in their operations "
    "and strings, and what stands beside a pattern is what cuts it. Strata in which all or none are cut are left out, and say "
    "nothing. Whether cutting makes a model fail takes the same programs in other tokens: runs with `tokenizer.string_tokenization` "
    "characters, and without."
)
MOST_USES = 4
"""Programs with more uses of patterns than so many are together."""


class Measurement(NamedTuple):
    """One folder of `remedy measure`: what was asked for, token counts, and uses of patterns."""

    request: Mapping[str, Any]
    tokens: pd.DataFrame
    cuts: pd.DataFrame


def with_total(tokens: pd.DataFrame) -> pd.DataFrame:
    """The rows with `tokens`, what a model writes; missing where a program was not traced."""
    if "format" not in tokens:
        tokens = tokens.assign(format="cwm")  # measured when there was no other
    return tokens.assign(tokens=tokens[TRACE_COLUMNS].sum(axis=1, min_count=1))


def cut_table(cuts: pd.DataFrame) -> Rows:
    """Share of uses whose pattern is cut, by benchmark, operation and tokenizer, with intervals over clusters: executions of one
    function use the same patterns."""
    names = list(dict.fromkeys(cuts["tokenizer"]))
    table = [["Benchmark", "Operation", "Uses", *names]]
    for benchmark, those in cuts.groupby("benchmark", sort=False):
        for operation, group in [*those.groupby("operation", sort=True), ("all", those)]:
            cells = []
            for name in names:
                mine = group[group["tokenizer"] == name]
                found = rate(mine["discontinuous"].astype(bool).tolist(), mine["cluster"].tolist())
                cells.append(f"{found.mean:.0%}\n{interval(found.low, found.high)}")
            table.append([str(benchmark), str(operation), str(len(group) // len(names)), *cells])
    return table


def failures_by_cut(
    measurement: Measurement,
    conditions: Sequence[ConditionSummary],
    records: pd.DataFrame,
    fingerprints: Mapping[str, str],
) -> Rows:
    """Failure rates of a run's programs whose patterns its tokenizer cuts, and of those whose patterns it does not, among programs
    with as many uses and tokens.

    Each run's programs count once for a forcing: in the condition that comes first in the order of the labels.
    """
    table = [["Run", "Condition", "Cut: failed", "Not cut: failed", "Difference", "Strata"]]
    names = {fingerprint: name for name, fingerprint in measurement.request["tokenizers"].items()}
    alike = {name: uses_by_program(measurement, name) for name in names.values()} if len(measurement.cuts) else {}
    seen: set[tuple[str, str, LabelValue, LabelValue]] = set()
    for condition in in_order(conditions):
        labels = condition["labels"]
        programs = alike.get(names.get(fingerprints.get(condition["run"], ""), ""), pd.DataFrame({"example": []}))
        mine = records[(records["run"] == condition["run"]) & (records["condition"] == condition["condition"])]
        mine = answered(mine).merge(programs, on="example")
        key = (condition["run"], condition["diagnostic"], labels["forcing"], labels["answer_only"])
        if mine.empty or key in seen:
            continue
        seen.add(key)
        failed = (~mine["right"].astype(bool)).tolist()
        found = stratified(failed, mine["cut"].tolist(), mine["stratum"].tolist(), mine["cluster"].tolist())
        if found is None:
            continue
        cut, whole = found.size
        table.append(
            [
                condition["run"],
                named(labels, ["forcing", "answer_only"]),
                f"{100 * found.exposed:.0f} %\nof {cut}",
                f"{100 * found.others:.0f} %\nof {whole}",
                f"{points(found.difference)} points\n{points(found.low)} to {points(found.high)}",
                f"{found.strata}\n{len(mine) - cut - whole} of {len(mine)} programs left out",
            ]
        )
    return table


def uses_by_program(measurement: Measurement, tokenizer: str) -> pd.DataFrame:
    """Programs that use a pattern: whether the tokenizer cuts one (`cut`), and what they are compared within (`stratum`): uses, and
    tokens of the first variant that was measured, in doublings."""
    cuts = measurement.cuts[measurement.cuts["tokenizer"] == tokenizer]
    counted = with_total(measurement.tokens[measurement.tokens["tokenizer"] == tokenizer]).drop_duplicates("example")
    found = cuts.groupby("example", sort=False)["discontinuous"].agg(["any", "size"]).reset_index()
    found = found.merge(counted[["example", "tokens"]], on="example", how="left")
    doublings = np.floor(np.log2(found["tokens"].fillna(0).clip(lower=1)))
    strata = list(zip(found["size"].clip(upper=MOST_USES), doublings))
    return pd.DataFrame({"example": found["example"], "cut": found["any"].astype(bool), "stratum": strata})
