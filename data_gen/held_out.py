"""What is held out of training must keep something from it: a misspelt value would leave in what was meant to be kept out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.messages import cut


def refuse_held_out_in_vain(sources: Iterable[DataConfig]) -> None:
    """Refuse a held-out value that keeps nothing from any of the sources that training draws from: stages, parts of a mixture.

    Raises:
        ValueError: naming the setting, the value and why.
    """
    in_vain: dict[tuple[str, Any], str] = {}
    of_use: set[tuple[str, Any]] = set()
    for data in sources:
        for held_out, reason in data.task.held_out().items():
            if reason:
                in_vain[held_out] = reason
            else:
                of_use.add(held_out)
    for (key, value), reason in in_vain.items():
        if (key, value) not in of_use:
            raise ValueError(
                f"data.task.{key}: {cut(str(value))} keeps nothing from training, since {reason}: remove it"
            )
