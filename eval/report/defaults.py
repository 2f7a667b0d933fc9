"""Default comparisons of a report: variants with a baseline, a variant's conditions with the plainest, and forcings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.schema import LabelValue, rank
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Aim, Comparison, Side
from remedy.eval.tables.sections import in_order, named, text, varying

Variants = Mapping[str, str]
"""Each run's variant; a run without other seeds is its own."""


def default_comparisons(
    conditions: Sequence[ConditionSummary], variants: Variants, baselines: Collection[str] = ()
) -> list[Comparison]:
    """Every variant with the baseline, condition by condition; and of a variant, conditions with its plainest, where their
    diagnostic says by which labels they are compared. `baselines`: the variants or runs that are so declared; of a diagnostic
    without one, the first."""
    found: list[Comparison] = []
    for diagnostic, mine in by_diagnostic(conditions).items():
        compared = DIAGNOSTICS[diagnostic].compared if diagnostic in DIAGNOSTICS else ()
        found += between_variants(mine, variants, baselines)
        found += within_variants(mine, variants, [label for label in compared if label != "forcing"])
    return found


def diagnoses(conditions: Sequence[ConditionSummary], variants: Variants) -> list[Comparison]:
    """Compare, of every variant, what it is fed against what it is fed least, all else the same. An oracle is no mitigation; a
    constraint, which feeds nothing that is true only, is one."""
    return [
        one
        for mine in by_diagnostic(conditions).values()
        for one in within_variants(
            [condition for condition in mine if not condition["labels"]["answer_only"]], variants, ["forcing"]
        )
    ]


def baseline_of(conditions: Sequence[ConditionSummary], variants: Variants, baselines: Collection[str] = ()) -> str:
    """The variant that the others of a diagnostic are compared with."""
    names = list(dict.fromkeys((condition["run"], variants[condition["run"]]) for condition in conditions))
    return next((variant for run, variant in names if {run, variant} & set(baselines)), names[0][1])


def by_diagnostic(conditions: Sequence[ConditionSummary]) -> dict[str, list[ConditionSummary]]:
    """The conditions of each diagnostic in which something was scored."""
    found: dict[str, list[ConditionSummary]] = {}
    for condition in conditions:
        if condition["right"] is not None:
            found.setdefault(condition["diagnostic"], []).append(condition)
    return found


def between_variants(
    conditions: Sequence[ConditionSummary], variants: Variants, baselines: Collection[str] = ()
) -> list[Comparison]:
    """Every other variant against the baseline, over all conditions of a diagnostic that they share."""
    found = []
    first = baseline_of(conditions, variants, baselines)
    ordered = _one_each(in_order(conditions), variants)
    before = {_key(condition): condition for variant, condition in ordered if variant == first}
    names = varying([one for variant, one in ordered if variant != first and _key(one) in before])
    for variant, condition in ordered:
        baseline = before.get(_key(condition))
        if variant != first and baseline is not None:
            said = named(condition["labels"], names)
            name = variant + (f" ({said})" if said else "")
            found.append(_comparison(name, "any", (first, baseline), (variant, condition)))
    return found


def within_variants(
    conditions: Sequence[ConditionSummary], variants: Variants, compared: Collection[str]
) -> list[Comparison]:
    """Conditions against the first one of their variant that differs from them in one of the `compared` labels, and in no other."""
    groups: dict[tuple[str, frozenset[tuple[str, LabelValue | None]]], list[ConditionSummary]] = {}
    for variant, condition in _one_each(conditions, variants):
        labels = condition["labels"].items()  # one that has not all of them differs from others in more than a value
        rest = frozenset((name, None if name in compared else value) for name, value in labels)
        groups.setdefault((variant, rest), []).append(condition)
    names = [name for name in varying(conditions) if name not in compared]
    found = []
    for (variant, _), group in groups.items():
        ordered = sorted(group, key=lambda condition: _plainness(condition["labels"], compared))
        for condition in ordered[1:]:
            before, after = ordered[0]["labels"], condition["labels"]
            # Without a trace, there are no states that spacing and locals could say anything of.
            void = {"spacing", "locals", "memory"} if after["answer_only"] else set()
            changed = [name for name in compared if name not in void and before.get(name) != after.get(name)]
            if len(changed) == 1:
                (label,) = changed
                value = text(after[label])
                change = label if after[label] is True else f"{label} {value} in place of {text(before[label])}"
                start = f"{', '.join(filter(None, (variant, named(after, names))))}: " if len(groups) > 1 else ""
                aim = _aim(label, after[label])
                found.append(_comparison(start + change, aim, (variant, ordered[0]), (variant, condition)))
    return found


def _one_each(conditions: Sequence[ConditionSummary], variants: Variants) -> list[tuple[str, ConditionSummary]]:
    """Each variant with each of its conditions, from whichever of its runs has it first."""
    found: dict[tuple[str, frozenset[tuple[str, LabelValue]]], ConditionSummary] = {}
    for condition in conditions:
        found.setdefault((variants[condition["run"]], _key(condition)), condition)
    return [(variant, condition) for (variant, _), condition in found.items()]


def _key(condition: ConditionSummary) -> frozenset[tuple[str, LabelValue]]:
    return frozenset(condition["labels"].items())


def _comparison(
    name: str, aim: Aim, baseline: tuple[str, ConditionSummary], treatment: tuple[str, ConditionSummary]
) -> Comparison:
    first, second = (
        Side(run=variant, where={"diagnostic": side["diagnostic"], **side["labels"]})
        for variant, side in (baseline, treatment)
    )
    return Comparison(mitigation=name, failure=aim, baseline=first, treatment=second)


def _plainness(labels: Mapping[str, LabelValue], compared: Collection[str]) -> tuple[object, ...]:
    """Sorts conditions: whole traces before answers alone, then what stands first in each label's order."""
    return (labels["answer_only"], *(rank(name, labels.get(name, "")) for name in compared))


def _aim(label: str, value: LabelValue) -> Aim:
    match label, value:
        case ("rewrite", "characters" | "fstrings") | ("string_encoding", _):
            return "strings"
        case ("locals", "diff") | ("answer_only", _) | ("spacing", _):
            return "token budget"
        case ("forcing", "control_flow" | "guided"):
            return "wrong action"
    return "any"
