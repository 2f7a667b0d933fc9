"""What constraints on writing did, and which wrong actions they could have kept from being written."""

from __future__ import annotations

from collections.abc import Sequence

from remedy.eval.records.failures import WrongAction
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.tables.sections import Rows, Section, in_order, percent, text, title, varying

EFFECT = (
    "Written: tokens that the model wrote. Certain: tokens that could be no others, which were fed without asking it, and their share "
    "of all tokens of the traces, with a Wilson interval over clusters. Choices: tokens chosen among several that were allowed. Cut: "
    "the probability that the model gave to all others there, of each trace the mean, of these the mean with a t interval over "
    "clusters. Changed: share of the tokens it wrote that are not its likeliest. A server tells neither of the two, so "
    "they are empty, and writes certain tokens one by one. Where a token is certain nobody asks what the model "
    "would have written: wrong actions of the same programs without a constraint say that."
)
ACTIONS = (
    "First errors that are an event or a source line, by what the program's control flow says of them after the true frames before. "
    "Outside: the code does not allow them there whatever its variables are, and a constraint makes them impossible. Allowed: values "
    "decide, and where states show all variables, evaluating the line on those that were written does not say another: else it stands "
    "against the written state. In formats without events, or with calls left out, they are not told apart."
)


def constraint_sections(name: str, conditions: Sequence[ConditionSummary]) -> list[Section]:
    """The sections on one diagnostic; none where nothing was constrained, and no action was wrong."""
    found = []
    held = [condition for condition in conditions if condition["constraint"] is not None]
    if held:
        found.append(Section(f"{name}: what constraints cut", rows=effects(held), note=EFFECT))
    if any(condition["wrong_actions"] for condition in conditions):
        found.append(Section(f"{name}: wrong actions by control flow", rows=wrong_actions(conditions), note=ACTIONS))
    return found


def effects(conditions: Sequence[ConditionSummary]) -> Rows:
    """One row for every constrained condition."""
    labels = _labels(conditions)
    table = [["Run", *map(title, labels), "Written", "Certain", "Choices", "Cut", "Changed"]]
    for condition in in_order(conditions):
        effect = condition["constraint"]
        if effect is not None:
            table.append(
                [
                    *_about(condition, labels),
                    f"{effect['written']:,}",
                    percent(effect["certain_share"]),
                    f"{effect['masked']:,}",
                    percent(effect["cut"]),
                    percent(effect["changed"]),
                ]
            )
    return table


def wrong_actions(conditions: Sequence[ConditionSummary]) -> Rows:
    """One row for every condition in which an action was wrong first."""
    labels = _labels(conditions)
    table = [["Run", *map(title, labels), "Examples", *(kind.capitalize() for kind in WrongAction)]]
    for condition in in_order(conditions):
        counts = condition["wrong_actions"]
        if counts:
            about = _about(condition, labels)
            table.append([*about, str(condition["examples"]), *(str(counts.get(kind, 0)) for kind in WrongAction)])
    return table


def _labels(conditions: Sequence[ConditionSummary]) -> list[str]:
    """The labels that tell the conditions apart, and always the forcing."""
    names = varying(conditions)
    return names if "forcing" in names else [*names, "forcing"]


def _about(condition: ConditionSummary, labels: Sequence[str]) -> list[str]:
    return [condition["run"], *(text(condition["labels"].get(name, "")) for name in labels)]
