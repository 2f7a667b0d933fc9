"""Tokens of a program's trace, by role, for every way to write it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from remedy.data_gen.execution.pool import Outcome
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.budget import densest, describe, shallower
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.models.tokenizer import TraceTokenizer

if TYPE_CHECKING:
    from remedy.eval.costs.measure import BudgetMeasure

ROLE_COLUMNS = [f"tokens_{role.name.lower()}" for role in Role]


def token_rows(
    outcome: Outcome,
    program: Program,
    config: BudgetMeasure,
    tracer: TracerConfig,
    counters: Mapping[str, TraceTokenizer],
) -> list[dict[str, Any]]:
    """One row for every tokenizer, encoding and way to write; no token counts where the program could not be traced whole.

    `way` is `fixed`, or `fit` for the budget-aware choice, which `reveal` then names.
    """
    rows: list[dict[str, Any]] = []
    for strings, show, every in itertools.product(config.strings, config.show, config.every):
        reveal = RevealConfig.model_validate({"every": every, "show": show})
        spans = None if isinstance(outcome, ProgramError) else render(outcome, "cwm", reveal, strings=strings)
        for name, counter in counters.items():
            counts = None if spans is None else counter.count_by_role(spans)
            rows.append(_row(name, strings, "fixed", reveal, counts))
    if config.fit is not None:
        for (name, counter), strings in itertools.product(counters.items(), config.strings):
            rows.append(_fitted(outcome, program, config.fit, tracer, name, strings, counter))
    return rows


def _fitted(
    outcome: Outcome, program: Program, fit: int, tracer: TracerConfig, name: str, strings: str, counter: TraceTokenizer
) -> dict[str, Any]:
    outcome = shallower(program, tracer, outcome)
    reveal = RevealConfig(budget=fit)
    if isinstance(outcome, ProgramError):
        return _row(name, strings, "fit", reveal, None)
    traced = outcome
    chosen = densest(traced, reveal, lambda way: sum(_counts(traced, way, strings, counter)))
    if chosen is None:
        return _row(name, strings, "fit", reveal, None)
    return _row(name, strings, "fit", chosen, _counts(traced, chosen, strings, counter))


def _counts(traced: Any, reveal: RevealConfig, strings: str, counter: TraceTokenizer) -> list[int]:
    return counter.count_by_role(render(traced, "cwm", reveal, strings=strings))


def _row(name: str, strings: str, way: str, reveal: RevealConfig, counts: list[int] | None) -> dict[str, Any]:
    return {
        "tokenizer": name,
        "strings": strings,
        "way": way,
        "every": reveal.every,
        "show": reveal.show,
        "depth": -1 if reveal.depth is None else reveal.depth,
        "reveal": describe(reveal) if counts is not None else "none",
        **{column: None if counts is None else counts[role] for role, column in zip(Role, ROLE_COLUMNS)},
    }
