"""Checks that held-out values are kept from every part of training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks import Task
from remedy.messages import cut
from remedy.settings import ConfigError


def refuse_held_out_in_vain(sources: Iterable[DataConfig]) -> None:
    """Refuse held-out values that no source of training would have anyway.

    Raises:
        ValueError: naming the setting, value and reason.
    """
    reasons: dict[tuple[str, Any], list[str]] = {}
    for data in sources:
        for held_out, reason in data.task.held_out().items():
            reasons.setdefault(held_out, []).append(reason)
    for (key, value), causes in reasons.items():
        if all(causes):
            raise ValueError(
                f"data.task.{key}: {cut(str(value))} keeps nothing from training, since {causes[0]}: remove it"
            )


def refuse_held_out_of_a_part(data: DataConfig, sources: Iterable[tuple[str, DataConfig]]) -> None:
    """Refuse values that some sources of a run hold out and others do not.

    `sources`: each with its place in the configuration.

    Raises:
        ValueError: naming the place, setting and value.
    """
    whole = set(data.task.held_out())
    for where, source in sources:
        own = set(source.task.held_out())
        if draws_other_pairs(data, source):
            raise ValueError(f"{where}: another seed, n or moves draws other held-out pairs than data does: remove it")
        for key, value in sorted(own - whole, key=str):
            raise ValueError(
                f"{where}: task.{key} {cut(str(value))} is set here alone: set it in data.task, for the whole run, so that no other "
                "part trains on what it keeps out and reports can set that apart"
            )
        for key, value in sorted(whole - own, key=str):
            if _occurs(source.task, key, value):
                raise ValueError(
                    f"{where}: trains on what data.task.{key} {cut(str(value))} keeps from training: set it here too"
                )


def draws_other_pairs(trained: DataConfig, other: DataConfig) -> bool:
    """Say if a training holds out other pairs than another configuration draws."""
    first, second = ((data.seed, data.task.symbols()) for data in (trained, other))
    return bool(getattr(trained.task, "held_out_pairs", 0) and first[1] and second[1] and first != second)


def _occurs(task: Task, key: str, value: Any) -> bool:
    try:
        several = isinstance(getattr(task, key, None), tuple)
        return task.changed({key: (value,) if several else value}).held_out().get((key, value)) == ""
    except ConfigError:  # it has no such setting, or no such value
        return False
