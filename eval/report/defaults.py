"""Default comparisons of a report: variants with a baseline, a variant's conditions with the plainest, and forcings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.schema import LabelValue, rank
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Aim, Comparison, Side
from remedy.eval.tables.sections import in_order, named, text, varying

AIMS: dict[str, tuple[Aim, set[LabelValue]]] = {
    "rewrite": ("strings", {"characters"}),
    "string_encoding": ("strings", set()),
    "locals": ("token budget", {"diff", "changes"}),
    "answer_only": ("token budget", set()),
    "spacing": ("token budget", set()),
    "forcing": ("wrong action", {"control_flow"}),
}
"""The failures that labels are meant for, and with which values; an empty set: with any."""


def default_comparisons(conditions: Sequence[ConditionSummary], baselines: Collection[str] = ()) -> list[Comparison]:
    """Every variant with the baseline, condition by condition; and of a variant, conditions with its plainest, where their
    diagnostic says by which labels they are compared. `baselines`: the variants or runs that are so declared; of a diagnostic
    without one, the first."""
    found: list[Comparison] = []
    for diagnostic, mine in by_diagnostic(conditions).items():
        kind = DIAGNOSTICS.find(diagnostic)
        compared = () if kind is None else kind.compared
        found += between_variants(mine, baselines)
        found += within_variants(mine, [label for label in compared if label != "forcing"])
    return found


def diagnoses(conditions: Sequence[ConditionSummary]) -> list[Comparison]:
    """Compare, of every variant, what it is fed against what it is fed least, all else the same. An oracle is no mitigation; a
    constraint, which feeds nothing that is true only, is one."""
    traces = [one for one in conditions if not one["labels"]["answer_only"]]
    return [one for mine in by_diagnostic(traces).values() for one in within_variants(mine, ["forcing"])]


def baseline_of(conditions: Sequence[ConditionSummary], baselines: Collection[str] = ()) -> str:
    """The variant that the others of a diagnostic are compared with."""
    declared = [one["variant"] for one in conditions if {one["run"], one["variant"]} & {*baselines}]
    return (declared or [conditions[0]["variant"]])[0]


def by_diagnostic(conditions: Sequence[ConditionSummary]) -> dict[str, list[ConditionSummary]]:
    """The conditions of each diagnostic in which something was scored."""
    scored = [one for one in conditions if one["right"] is not None]
    kinds = dict.fromkeys(one["diagnostic"] for one in scored)
    return {kind: [one for one in scored if one["diagnostic"] == kind] for kind in kinds}


def between_variants(conditions: Sequence[ConditionSummary], baselines: Collection[str] = ()) -> list[Comparison]:
    """Every other variant against the baseline, over all conditions of a diagnostic that they share."""
    first = baseline_of(conditions, baselines)
    ordered = _one_each(in_order(conditions))
    before = {_labels(one): one for one in ordered if one["variant"] == first}
    pairs = [(before[key], one) for one in ordered if one["variant"] != first and (key := _labels(one)) in before]
    names = varying([one for _, one in pairs])
    found = []
    for baseline, one in pairs:
        said = named(one["labels"], names)
        found.append(_comparison(f"{one['variant']} ({said})" if said else one["variant"], "any", baseline, one))
    return found


def within_variants(conditions: Sequence[ConditionSummary], compared: Collection[str]) -> list[Comparison]:
    """Conditions against the first one of their variant that differs from them in one of the `compared` labels, and in no other."""
    groups: dict[tuple[str, frozenset[tuple[str, LabelValue | None]]], list[ConditionSummary]] = {}
    for one in _one_each(conditions):
        labels = one["labels"].items()  # one that has not all of them differs from others in more than a value
        rest = frozenset((name, None if name in compared else value) for name, value in labels)
        groups.setdefault((one["variant"], rest), []).append(one)
    names = [name for name in varying(conditions) if name not in compared]
    found = []
    for (variant, _), group in groups.items():
        first, *others = sorted(group, key=lambda one: _plainness(one["labels"], compared))
        for one in others:
            before, after = first["labels"], one["labels"]
            # Without a trace, there are no states that spacing and locals could say anything of.
            void = {"spacing", "locals"} if after["answer_only"] else set()
            changed = [name for name in compared if name not in void and before.get(name) != after.get(name)]
            if len(changed) == 1:
                label, value = changed[0], after[changed[0]]
                change = label if value is True else f"{label} {text(value)} in place of {text(before[label])}"
                start = f"{', '.join(filter(None, (variant, named(after, names))))}: " if len(groups) > 1 else ""
                aim, values = AIMS.get(label, ("any", set()))
                aim = aim if not values or value in values else "any"
                found.append(_comparison(start + change, aim, first, one))
    return found


def _one_each(conditions: Sequence[ConditionSummary]) -> list[ConditionSummary]:
    """Each of a variant's conditions, from whichever of its runs has it first."""
    found: dict[tuple[str, frozenset[tuple[str, LabelValue]]], ConditionSummary] = {}
    for one in conditions:
        found.setdefault((one["variant"], _labels(one)), one)
    return list(found.values())


def _labels(condition: ConditionSummary) -> frozenset[tuple[str, LabelValue]]:
    return frozenset(condition["labels"].items())


def _comparison(name: str, aim: Aim, baseline: ConditionSummary, treatment: ConditionSummary) -> Comparison:
    first, second = (
        Side(run=one["variant"], where={"diagnostic": one["diagnostic"], **one["labels"]})
        for one in (baseline, treatment)
    )
    return Comparison(mitigation=name, failure=aim, baseline=first, treatment=second)


def _plainness(labels: Mapping[str, LabelValue], compared: Collection[str]) -> tuple[object, ...]:
    """Sorts conditions: whole traces before answers alone, then what stands first in each label's order."""
    return (labels["answer_only"], *(rank(name, labels.get(name, "")) for name in compared))
