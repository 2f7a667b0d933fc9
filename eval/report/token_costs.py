"""What a report says of tokens: how many a model writes for a trace, and how many it reads for that with its memory."""

from __future__ import annotations

from collections.abc import Sequence

from remedy.eval.records.summary import ConditionSummary
from remedy.eval.tables.sections import Rows, Section, in_order, text, title, varying

NOTE = (
    "Mean tokens for a trace. Written: by the model. Read: by it for that, by the plain loop with a cache: the context and all that is "
    "fed or written, up to its last token; with a memory, what is in sight there and wherever a frame was forgotten before, after "
    "which what is left is read anew. Programs that are not decoded count as none."
)


def token_cost_sections(conditions: Sequence[ConditionSummary]) -> list[Section]:
    """What conditions cost; nothing where none was evaluated."""
    return [Section("Tokens written and read", rows=token_costs(conditions), note=NOTE)] if conditions else []


def token_costs(conditions: Sequence[ConditionSummary]) -> Rows:
    """One row for every condition."""
    labels = varying(conditions)
    table = [["Diagnostic", "Run", *map(title, labels), "Written", "Read", "Read for one written"]]
    for condition in in_order(conditions):
        written, read = condition["written_tokens"], condition["read_tokens"]
        shown = [f"{written:,.1f}", f"{read:,.1f}", f"{read / written:,.1f}" if written else ""]
        values = [text(condition["labels"].get(name, "")) for name in labels]
        table.append([condition["diagnostic"], condition["run"], *values, *shown])
    return table
