"""Conditions of an evaluation, as its diagnostics define them."""

from __future__ import annotations

from typing import Any, NamedTuple

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import SAMPLE, Example, examples
from remedy.data_gen.tasks import Task
from remedy.data_gen.traces.kinds import kinds
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_roles
from remedy.eval.diagnostics import Condition
from remedy.settings import ConfigError


class CheckpointInfo(NamedTuple):
    """A checkpoint under evaluation.

    `trained_on`: its training task, if known. `weights`: their recorded digest. `training`: a
    `models.model_manifest.Training`, with settings `chosen` on validation and the stages of the `curriculum`.
    """

    data: DataConfig
    trained_on: Task | None = None
    weights: str = ""
    training: dict[str, Any] | None = None


def conditions_of(config: EvalConfig, checkpoint_info: CheckpointInfo) -> list[Condition]:
    """List the conditions of every diagnostic.

    Raises:
        ConfigError: a diagnostic does not fit the data, two conditions have the same labels, or a setting does nothing.
    """
    conditions = _grid(config, checkpoint_info.data, config.split, checkpoint_info.trained_on)
    slugs = [condition.slug for condition in conditions]
    if twice := next((slug for slug in slugs if slugs.count(slug) > 1), None):
        raise ConfigError(f"diagnostics: the condition {twice} is there twice: remove one")
    _refuse_idle(config, checkpoint_info, conditions)
    supervised = (checkpoint_info.training or {}).get("supervised")
    if supervised is None:
        return conditions
    return [condition.model_copy(update={"supervised": tuple(supervised)}) for condition in conditions]


def _refuse_idle(config: EvalConfig, checkpoint_info: CheckpointInfo, conditions: list[Condition]) -> None:
    """Raise a ConfigError for a setting without effect on these conditions."""

    def same(split: str, trained_on: Task | None) -> bool:
        try:
            return conditions == _grid(config, checkpoint_info.data, split, trained_on)
        except ConfigError:
            return False

    usual = EvalConfig.model_fields
    if config.split != usual["split"].default and same(usual["split"].default, checkpoint_info.trained_on):
        raise ConfigError(
            f"split {config.split} does nothing: all programs are evaluated, since the checkpoint was trained on none of "
            "them: remove it"
        )
    if config.trained_on is not None and same(config.split, None):
        raise ConfigError(
            f"trained_on {config.trained_on.name} does nothing: no diagnostic evaluates these programs: remove it"
        )
    parallel = all(fed_roles(condition.forcing) == TEACHER_FORCED for condition in conditions)
    if parallel and config.max_new_tokens is not None:
        raise ConfigError(
            f"max_new_tokens {config.max_new_tokens} does nothing with forcing teacher_forced alone, in which the model "
            "reads no token of its own: remove it"
        )


def _grid(config: EvalConfig, data: DataConfig, split: str, trained_on: Task | None) -> list[Condition]:
    return [
        condition for diagnostic in config.diagnostics for condition in diagnostic.conditions(data, split, trained_on)
    ]


def outcomes(condition: Condition, metric: str) -> float:
    """Estimate a metric's number of outcomes in a condition from its first `SAMPLE` programs."""
    if metric == "answer":
        return condition.examples
    data = condition.data.changed({"reveal.max_tokens": None})  # without a tokenizer the budget is unknown
    first = examples(data, condition.split, range(min(SAMPLE, condition.examples)))
    return condition.examples * sum(_outcomes(example, data, metric) for example in first) / len(first)


def _outcomes(example: Example, data: DataConfig, metric: str) -> int:
    if metric == "changed_state":
        return len(kinds(example.trace, example.frames, example.reveal)["changed_states"])
    frames = [frame.as_read(data.string_encoding) for frame in example.frames]
    if metric == "state":
        return sum(frame.locals is not None for frame in frames)
    return sum(frame.event is not None or bool(frame.source) for frame in frames)
