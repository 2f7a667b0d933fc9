"""Default comparisons: between variants, conditions, and forcings."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.schema import LabelValue, rank
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Aim, Comparison, Side
from remedy.eval.tables.sections import in_order, joined, named, text, varying

AIMS: dict[str, tuple[Aim, set[LabelValue]]] = {
    "rewrite": ("strings", {"characters"}),
    "string_encoding": ("strings", set()),
    "locals": ("token budget", {"diff", "changes"}),
    "answer_only": ("token budget", set()),
    "spacing": ("token budget", set()),
    "forcing": ("wrong action", {"control_flow"}),
}
"""The failure that a label's values are meant for; an empty set: any value."""


def default_comparisons(conditions: Sequence[ConditionSummary], baselines: Collection[str] = ()) -> list[Comparison]:
    """Compare variants with the baseline, and conditions with their variant's plainest.

    `baselines`: declared variants or runs; by default a diagnostic's first variant.
    """
    comparisons: list[Comparison] = []
    for diagnostic, of_diagnostic in by_diagnostic(conditions).items():
        kind = DIAGNOSTICS.find(diagnostic)
        comparisons += between_variants(of_diagnostic, baselines)
        comparisons += within_variants(of_diagnostic, kind.compared if kind else ())
    return comparisons


def diagnoses(conditions: Sequence[ConditionSummary]) -> list[Comparison]:
    """Compare each variant's forcings with the one that feeds least.

    A constraint, which needs no true trace, is a mitigation; forcing is not.
    """
    traces = [condition for condition in conditions if not condition["labels"]["answer_only"]]
    groups = by_diagnostic(traces).values()
    return [comparison for group in groups for comparison in within_variants(group, ["forcing"])]


def baseline_of(conditions: Sequence[ConditionSummary], baselines: Collection[str] = ()) -> str:
    declared = (condition for condition in conditions if {condition["run"], condition["variant"]} & {*baselines})
    return next(declared, conditions[0])["variant"]


def by_diagnostic(conditions: Sequence[ConditionSummary]) -> dict[str, list[ConditionSummary]]:
    """Group scored conditions by diagnostic."""
    groups: dict[str, list[ConditionSummary]] = {}
    for condition in conditions:
        if condition["right"] is not None:
            groups.setdefault(condition["diagnostic"], []).append(condition)
    return groups


def between_variants(conditions: Sequence[ConditionSummary], baselines: Collection[str] = ()) -> list[Comparison]:
    first = baseline_of(conditions, baselines)
    ordered = _one_each(in_order(conditions))
    of_baseline = {_labels(condition): condition for condition in ordered if condition["variant"] == first}
    treatments = [
        condition for condition in ordered if condition["variant"] != first and _labels(condition) in of_baseline
    ]
    names, comparisons = varying(treatments), []
    for treatment in treatments:
        labels = named(treatment["labels"], names)
        name = treatment["variant"] + (f" ({labels})" if labels else "")
        comparisons.append(_comparison(name, "any", of_baseline[_labels(treatment)], treatment))
    return comparisons


def within_variants(conditions: Sequence[ConditionSummary], compared: Collection[str]) -> list[Comparison]:
    """Compare conditions with their plainest, if one `compared` label differs."""
    groups: dict[tuple[str, frozenset[tuple[str, LabelValue | None]]], list[ConditionSummary]] = {}
    for condition in _one_each(conditions):
        # With names of compared labels: a condition that lacks one differs in more than a value.
        other_labels = frozenset(
            (name, None if name in compared else value) for name, value in condition["labels"].items()
        )
        groups.setdefault((condition["variant"], other_labels), []).append(condition)
    names = [name for name in varying(conditions) if name not in compared]
    comparisons = []
    for (variant, _), group in groups.items():
        # Whole traces first, then by each label's order.
        first, *others = sorted(
            group,
            key=lambda condition: (
                condition["labels"]["answer_only"],
                *(rank(name, condition["labels"].get(name, "")) for name in compared),
            ),
        )
        for other in others:
            before, after = first["labels"], other["labels"]
            # Without a trace there are no states, so that spacing and locals mean nothing.
            void = {"spacing", "locals"} if after["answer_only"] else set()
            changed = [name for name in compared if name not in void and before.get(name) != after.get(name)]
            if len(changed) == 1:
                label, value = changed[0], after[changed[0]]
                change = label if value is True else f"{label} {text(value)} in place of {text(before[label])}"
                start = f"{joined(', ', variant, named(after, names))}: " if len(groups) > 1 else ""
                aim, values = AIMS.get(label, ("any", set()))
                comparisons.append(
                    _comparison(start + change, aim if not values or value in values else "any", first, other)
                )
    return comparisons


def _one_each(conditions: Sequence[ConditionSummary]) -> list[ConditionSummary]:
    """List each of a variant's conditions once."""
    first: dict[tuple[str, frozenset[tuple[str, LabelValue]]], ConditionSummary] = {}
    for condition in conditions:
        first.setdefault((condition["variant"], _labels(condition)), condition)
    return list(first.values())


def _labels(condition: ConditionSummary) -> frozenset[tuple[str, LabelValue]]:
    return frozenset(condition["labels"].items())


def _comparison(name: str, aim: Aim, baseline: ConditionSummary, treatment: ConditionSummary) -> Comparison:
    first, second = (
        Side(run=side["variant"], where={"diagnostic": side["diagnostic"], **side["labels"]})
        for side in (baseline, treatment)
    )
    return Comparison(mitigation=name, failure=aim, baseline=first, treatment=second)
