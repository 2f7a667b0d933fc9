"""Runs that differ in nothing but their seed, together: mean over runs with its interval, which says how far a result repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from matplotlib.figure import Figure

from remedy.eval import plotting
from remedy.eval.plotting import LINES
from remedy.eval.sections import Rows, Section, constant, in_order, named, telling, text, title, varying
from remedy.eval.stats import Estimate, mean
from remedy.eval.summary import ConditionSummary

NOTE = (
    "One value per run: its share of right answers. Mean over the runs of a variant, with a 95 % t interval between runs, cut to 0 "
    "and 100 %; one run alone says nothing of that. Tokens: the trace's."
)


def repeated(variants: Mapping[str, str]) -> bool:
    """Whether some variant has several runs. `variants`: each run's variant."""
    return len(set(variants.values())) < len(variants)


def seed_sections(
    name: str, axis: str | None, conditions: Sequence[ConditionSummary], variants: Mapping[str, str]
) -> list[Section]:
    """A table over variants, and a figure along the axis where the diagnostic has one."""
    mine = [condition for condition in conditions if condition["run"] in variants and condition["right"] is not None]
    if not mine:
        return []
    sections = [Section(f"{name}: right answers over seeds", rows=over_seeds(mine, variants), note=NOTE)]
    if axis is not None:
        draw = partial(accuracy_over_seeds, mine, axis, variants)
        sections.insert(0, Section(f"{name}: right answers by {axis}, over seeds", draw=draw, note=constant(mine)))
    return sections


def grouped(
    conditions: Sequence[ConditionSummary], names: Sequence[str], variants: Mapping[str, str]
) -> dict[tuple[str, ...], list[ConditionSummary]]:
    """The conditions of one variant and one value of every label together, in the order of variants, then of labels."""
    found: dict[tuple[str, ...], list[ConditionSummary]] = {}
    for condition in in_order(conditions):
        labels = condition["labels"]
        key = (variants[condition["run"]], *(text(labels.get(name, "")) for name in names))
        found.setdefault(key, []).append(condition)
    return found


def between_runs(conditions: Sequence[ConditionSummary]) -> Estimate:
    """The mean over runs of one condition's rate."""
    return mean([condition["right"]["mean"] for condition in conditions if condition["right"] is not None])


def over_seeds(conditions: Sequence[ConditionSummary], variants: Mapping[str, str]) -> Rows:
    """One line per variant and condition."""
    labels = varying(conditions)
    table = [["Variant", *map(title, labels), "Runs", "Right", "95 % interval", "Tokens"]]
    for key, group in grouped(conditions, labels, variants).items():
        found = between_runs(group)
        interval = f"{found.low:.1%} to {found.high:.1%}" if found.size > 1 else "one run"
        tokens = sum(condition["trace_tokens"] for condition in group) / len(group)
        table.append([*key, str(found.size), f"{found.mean:.1%}", interval, f"{tokens:.0f}"])
    return table


def accuracy_over_seeds(conditions: Sequence[ConditionSummary], axis: str, variants: Mapping[str, str]) -> Figure:
    """Mean share of right answers over the runs of a variant against a label, with the interval between runs."""
    forcings = list(dict.fromkeys(condition["labels"]["forcing"] for condition in in_order(conditions)))
    others = [name for name in telling(conditions) if name not in (axis, "forcing")]
    names = list(dict.fromkeys(variants.values()))
    figure, axes = plotting.panels(len(forcings))
    for panel, forcing in zip(axes, forcings):
        mine = [condition for condition in conditions if condition["labels"]["forcing"] == forcing]
        kinds = list(dict.fromkeys(named(condition["labels"], others) for condition in mine))
        for kind in kinds:
            chosen = [condition for condition in mine if named(condition["labels"], others) == kind]
            for variant in dict.fromkeys(variants[condition["run"]] for condition in chosen):
                points = {
                    float(key[1]): between_runs(group)[:3]
                    for key, group in grouped(chosen, [axis], variants).items()
                    if key[0] == variant
                }
                label = f"{variant}, {kind}" if kind else variant
                plotting.line(panel, points, label, names.index(variant), LINES[kinds.index(kind) % len(LINES)])
        plotting.numbers(panel, [float(condition["labels"][axis]) for condition in mine])
        plotting.rates(panel)
        panel.set(xlabel=axis, title=f"{forcing}")
    axes[0].set_ylabel("answers right, mean over seeds")
    plotting.legend(figure, axes)
    return figure
