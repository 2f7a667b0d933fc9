"""The diagnostics: grids of conditions over a checkpoint's data.

To add one, write its settings in `config`, a function `(settings, data) -> conditions` here, and register it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remedy.data_gen.composition import FAMILIES, CompositionConfig
from remedy.data_gen.config import ConfigError, build
from remedy.data_gen.examples import DataConfig
from remedy.data_gen.permutation import PermutationConfig
from remedy.eval.config import CompositionDiagnostic, Condition, Forcing, PermutationDiagnostic, forcing_name


def permutation(settings: PermutationDiagnostic, data: DataConfig) -> list[Condition]:
    """Length sweep by reveal spacing and forcing."""
    if not isinstance(data.task, PermutationConfig):
        raise ConfigError("the permutation diagnostic needs data.task.kind permutation")
    return [
        _condition(
            "permutation", _with(data, {"length": length}, every), settings, forcing, {"length": length, "every": every}
        )
        for every in settings.every or (data.reveal.every,)
        for length in settings.lengths
        for forcing in settings.forcing
    ]


def composition(settings: CompositionDiagnostic, data: DataConfig) -> list[Condition]:
    """Every function alone, then compositions by depth and form."""
    if not isinstance(data.task, CompositionConfig):
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
                conditions.append(_condition("composition", _with(data, task), settings, forcing, labels))
            for form in settings.forms:
                for depth in settings.depths:
                    task = {**base, "depth": depth, "flatten": form == "flattened"}
                    labels = {"family": family, "depth": depth, "form": form, "function": ""}
                    conditions.append(_condition("composition", _with(data, task), settings, forcing, labels))
    return conditions


def _with(data: DataConfig, task: dict[str, Any], every: float | None = None) -> DataConfig:
    changed = data.model_dump()
    changed["task"].update(task)
    if every is not None:
        changed["reveal"]["every"] = every
    return build(DataConfig, changed, "diagnostic")


def _condition(
    diagnostic: str,
    data: DataConfig,
    settings: PermutationDiagnostic | CompositionDiagnostic,
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
        labels={**labels, "forcing": forcing_name(forcing)},
    )


DIAGNOSTICS: dict[str, Callable[[Any, DataConfig], list[Condition]]] = {
    "permutation": permutation,
    "composition": composition,
}
