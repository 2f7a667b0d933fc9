"""The diagnostics: grids of conditions over a checkpoint's data.

To add one, write its settings in `config`, a function `(settings, data, config) -> conditions` and one that judges a batch, and
register them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from remedy.data_gen.examples import DataConfig, Example
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import ConfigError, build
from remedy.data_gen.tasks.composition import FAMILIES, CompositionTask
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.config import (
    CompositionDiagnostic,
    Condition,
    EvalConfig,
    Forcing,
    PermutationDiagnostic,
    fed_roles,
    forcing_name,
)
from remedy.eval.decoding import FULLY_FORCED, decode, predict
from remedy.eval.diagnostics import programs as code
from remedy.eval.diagnostics.token_scorer import judge_predicted, judge_written
from remedy.models.tokenizer import Encoded, TraceTokenizer


def permutation(settings: PermutationDiagnostic, data: DataConfig, config: EvalConfig) -> list[Condition]:
    """Length sweep by reveal spacing and forcing."""
    if not isinstance(data.task, PermutationTask):
        raise ConfigError("the permutation diagnostic needs data.task.kind permutation")
    return [
        _condition(
            "permutation",
            _with(data, {"length": length}, every),
            settings,
            config,
            forcing,
            {"length": length, "spacing": every},
        )
        for every in settings.every or (data.reveal.spacing,)
        for length in settings.lengths
        for forcing in settings.forcing
    ]


def composition(settings: CompositionDiagnostic, data: DataConfig, config: EvalConfig) -> list[Condition]:
    """Every function alone, then compositions by depth and form."""
    if not isinstance(data.task, CompositionTask):
        raise ConfigError("the composition diagnostic needs data.task.kind composition")
    trained = data.task
    conditions = []
    for family in settings.families:
        functions = settings.functions or (trained.functions if family == trained.family else ())
        base = {"family": family, "functions": functions}
        for forcing in settings.forcing:
            for name in functions or tuple(FAMILIES[family].functions):
                task = {**base, "functions": (name,), "depth": 1, "flatten": False}
                labels = {"family": family, "depth": 1, "form": "atomic", "function": name}
                conditions.append(_condition("composition", _with(data, task), settings, config, forcing, labels))
            for form in settings.forms:
                for depth in settings.depths:
                    task = {**base, "depth": depth, "flatten": form == "flattened"}
                    labels = {"family": family, "depth": depth, "form": form, "function": ""}
                    conditions.append(_condition("composition", _with(data, task), settings, config, forcing, labels))
    return conditions


def _with(data: DataConfig, task: dict[str, Any], every: float | None = None) -> DataConfig:
    changed = data.model_dump()
    changed["task"].update(task)
    if every is not None:
        changed["reveal"]["spacing"] = every
    return build(DataConfig, changed, "diagnostic")


def _condition(
    diagnostic: str,
    data: DataConfig,
    settings: PermutationDiagnostic | CompositionDiagnostic,
    config: EvalConfig,
    forcing: Forcing,
    labels: dict[str, Any],
) -> Condition:
    if forcing == "free" and not data.context:
        raise ConfigError(
            f"diagnostic {diagnostic}: free decoding needs the program in the context (data.context=true); "
            "this data shows none, so its commands cannot be known: use forcing action_forced"
        )
    return Condition(
        diagnostic=diagnostic,
        data=data,
        forcing=forcing,
        examples=settings.examples,
        split=config.split,
        labels={**labels, "forcing": forcing_name(forcing)},
    )


def judge_batch(
    model: Any,
    tokenizer: TraceTokenizer,
    batch: Sequence[Example],
    truths: Sequence[Encoded],
    condition: Condition,
    config: EvalConfig,
) -> list[dict[str, Any]]:
    """Decode a batch under a condition's forcing and judge every example by its tokens."""
    fed = fed_roles(condition.forcing)
    if fed == FULLY_FORCED:
        told = {Role.STATE, Role.VALUE} | (
            {Role.ACTION, Role.QUERY, Role.STRUCTURE} if condition.data.context else set()
        )
        predictions = predict(model, tokenizer, truths)
        return [judge_predicted(t, p, frozenset(told))._asdict() for t, p in zip(truths, predictions)]
    exact = FORMATS[condition.data.format].one_token
    written = decode(model, tokenizer, truths, fed, exact=exact, budget=config.budget)
    return [judge_written(t, w, tokenizer)._asdict() for t, w in zip(truths, written)]


Judge = Callable[
    [Any, TraceTokenizer, Sequence[Example], Sequence[Encoded], Condition, EvalConfig], list[dict[str, Any]]
]


class Diagnostic(NamedTuple):
    """A grid of conditions, and how a batch under one is judged: a record for every example."""

    conditions: Callable[[Any, DataConfig, EvalConfig], list[Condition]]
    judge: Judge = judge_batch


DIAGNOSTICS: dict[str, Diagnostic] = {
    "permutation": Diagnostic(permutation),
    "composition": Diagnostic(composition),
    "code": Diagnostic(code.conditions, code.judge_batch),
}
