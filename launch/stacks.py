"""Runs of an experiment that are trained at once: seeds of a recipe with `train.stacked`, before each is evaluated by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence

from remedy.launch.experiment import TrainingJob, recipe
from remedy.launch.job import TRAINED


class Stack(TrainingJob):
    """A training of several runs; settings, name and progress are those of the first, and its folder lies in the first's."""

    members: tuple[TrainingJob, ...]


def stacks(jobs: Sequence[TrainingJob]) -> list[Stack]:
    """Runs that are not trained yet, of one variant and one recipe, as many at a time as their settings say.

    What is left over by itself is trained as any other run, by its own process.
    """
    recipes: dict[str, list[TrainingJob]] = {}
    for job in jobs:
        if job.stacked is not None and not (job.folder / TRAINED).exists():
            recipes.setdefault(json.dumps([job.variant, recipe(job)], sort_keys=True), []).append(job)
    found = []
    for mine in recipes.values():
        size = mine[0].stacked or 1
        chunks = [mine[start : start + size] for start in range(0, len(mine), size)]
        found += [_stack(chunk) for chunk in chunks if len(chunk) > 1]
    return found


def _stack(members: list[TrainingJob]) -> Stack:
    first = members[0]
    return Stack(
        name=f"{first.name} and {len(members) - 1} more",
        variant=first.variant,
        folder=first.folder / "stack",
        train=first.train,
        members=tuple(members),
    )
