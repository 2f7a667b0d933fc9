"""How much of what is to be learnt may stand in training: where there are few command sequences, all of them do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from remedy.data_gen.tasks.families import FAMILIES
from remedy.data_gen.tasks.permutation_programs import move_table, sequences
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.tables.sections import Section
from remedy.settings import low_high

LEAST = 0.01
"""A smaller share of what is to be learnt than this is not worth a line."""
MOST = 10**12
"""Of more than this no training has a share."""
NOTE = (
    "No test program is one of training, but what is to be learnt of it may be: the same commands from other digits, the same "
    "functions of other words. There a right answer may be remembered, and does not show that a state is followed. Where training had "
    "as many examples as there are sequences or compositions, all may stand in it. `task.split_by` keeps "
    "them apart."
)
_TOLD_BY = {"permutation": ("n", "moves"), "composition": ("family",)}
"""Settings that must be those of training for what is to be learnt to be the same."""


class Space(NamedTuple):
    """What is to be learnt under a condition, in words, and how much that is."""

    said: str
    size: int


def in_training_section(
    name: str, conditions: Sequence[ConditionSummary], records: pd.DataFrame, requests: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """The section on one diagnostic; nothing where too much is to be learnt for a share of it to have been seen in training."""
    seen: dict[Space, int] = {}
    for request in requests:
        examples = (request.get("training") or {}).get("examples", 0)
        for condition in conditions:
            if condition["run"] == request["run"] and condition["condition"] in request["conditions"]:
                space = _space(condition, request, records)
                if space is not None and examples >= LEAST * space.size:
                    seen[space] = max(seen.get(space, 0), examples)
    rows = [
        [
            space.said,
            f"{examples:,}",
            "all" if examples >= space.size else f"{100 * examples / space.size:.0f} %",
        ]
        for space, examples in sorted(seen.items(), key=lambda item: item[0].size)
    ]
    head = ["To be learnt", "Training examples", "In training, at most"]
    return [Section(f"{name}: what may stand in training", rows=[head, *rows], note=NOTE)] if rows else []


def _space(condition: ConditionSummary, request: Mapping[str, Any], records: pd.DataFrame) -> Space | None:
    """What is to be learnt under a condition; None where training split by it, was of something else, or it is not known."""
    task, trained_on = request["data"]["task"], request.get("trained_on") or {}
    kind = condition["diagnostic"]
    if not kind == task["kind"] == trained_on.get("kind") or trained_on.get("split_by", "program") != "program":
        return None
    if any(task.get(key) != trained_on.get(key) for key in _TOLD_BY.get(kind, ())):
        return None
    if kind == "permutation":
        return _commands(task, trained_on, condition["labels"])
    return _compositions(trained_on, condition, records) if kind == "composition" else None


def _commands(task: Mapping[str, Any], trained_on: Mapping[str, Any], labels: Mapping[str, Any]) -> Space | None:
    moves, length = len(move_table(task["n"], task["moves"])), int(labels["length"])
    repertoire = labels.get("repertoire", task.get("repertoire"))
    several = None if repertoire is None else low_high(repertoire)[1]
    size = sequences(moves, length, several)
    if size > MOST or length in trained_on.get("held_out_lengths", ()):
        return None
    if several is None:
        return Space(f"{length} commands: {moves}^{length} = {size:,} sequences", size)
    return Space(f"{length} commands of at most {several} different ones: {size:,} sequences", size)


def _compositions(trained_on: Mapping[str, Any], condition: ConditionSummary, records: pd.DataFrame) -> Space | None:
    """Of the functions that the condition's programs have, if all were trained on and several are composed."""
    depth, family = int(condition["labels"]["depth"]), str(condition["labels"]["family"])
    mine = records[(records["run"] == condition["run"]) & (records["condition"] == condition["condition"])]
    names = {name for functions in mine["functions"] for name in functions.split()}
    trained = set(trained_on["functions"] or FAMILIES[family].functions) - set(trained_on.get("held_out_functions", ()))
    size = len(names) ** depth
    if depth < 2 or size > MOST or depth in trained_on.get("held_out_depths", ()) or not names <= trained:
        return None
    return Space(f"{depth} functions: {len(names)}^{depth} = {size:,} compositions", size)
