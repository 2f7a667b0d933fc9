"""An experiment: groups of runs that differ in a few settings, how each group is evaluated, and what is compared."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from remedy.data_gen.messages import cut, shown, suggest
from remedy.data_gen.settings import ConfigError, Settings, apply_changes, build
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics.condition import MOST_EXAMPLES
from remedy.eval.records import COMMON
from remedy.eval.report.verdicts import FORMER_LABELS, Comparison, Side, one_primary
from remedy.train.config import MOST_STEPS, RunConfig

MOST_RUNS = 10_000
"""Runs of a group; more can only be a grid with one key too many."""

SEEDS = ("seed", "data_seed")
"""What runs of one variant differ in: settings of `train`. Not `data.seed`, which chooses the test set too."""
SEED_KEYS = tuple(f"train.{name}" for name in SEEDS)
BASELINE = "baseline"


class Group(Settings):
    """Runs that share their settings but for a few. Changes are written `a.b: value`, as on the command line."""

    base: dict[str, Any]
    """The settings that all its runs share: those of `remedy train`, without `name` and `output`."""
    runs: dict[str, dict[str, Any]] = {}
    """For each run, by its name, what differs from `base`. Runs that differ in `train.seed` and `train.data_seed` alone are one
    variant, which has the name of the first. `baseline: true` makes a variant the one that a report without `comparisons` compares
    the others of its group with; by default the first."""
    grid: dict[str, tuple[Any, ...]] = {}
    """Settings and the values that each takes; every combination is a run (of each of `runs`, where there are any)."""
    seeds: tuple[int, ...] = ()
    """Every run is made with each of these as its `train.seed` and `train.data_seed`; reports put them together as one variant."""
    evaluate: dict[str, Any]
    """How every run is evaluated: the settings of `remedy evaluate`."""
    evaluate_runs: dict[str, dict[str, Any]] = {}
    """For single ones of `runs`, what differs from `evaluate`."""

    @model_validator(mode="after")
    def _not_empty(self) -> Group:
        if not self.runs and not self.grid and not self.seeds:
            raise ValueError("give `runs`, `grid` or `seeds`")
        points = math.prod(len(values) for values in self.grid.values())
        runs = max(1, len(self.runs)) * points * max(1, len(self.seeds))
        if runs > MOST_RUNS:
            raise ValueError(f"grid has {runs:,} runs; at most {MOST_RUNS:,} are possible: give its keys fewer values")
        empty = [key for key, values in self.grid.items() if not values]
        if empty:
            raise ValueError(f"grid.{empty[0]} has no values")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds has a value twice: {shown(self.seeds)}")
        by_seeds = SEED_KEYS if self.seeds else ()
        if both := [key for key in by_seeds if key in self.grid]:
            raise ValueError(f"grid.{both[0]} does nothing, since `seeds` sets it: remove it from one of them")
        for where, settings in {
            "base": self.base,
            **{f"runs.{name}": changes for name, changes in self.runs.items()},
        }.items():
            own = [key for key in ("name", "output") if key in settings]
            if own:
                raise ValueError(f"{where}.{own[0]} does nothing: runs have the names and folders of the experiment")
            for setter, keys in {"the grid": tuple(self.grid), "`seeds`": by_seeds}.items():
                if twice := [key for key in keys if where != "base" and key in settings]:
                    raise ValueError(
                        f"{where}: {twice[0]} does nothing, since {setter} sets it: remove it from one of them"
                    )
        unknown = sorted(set(self.evaluate_runs) - set(self.runs))
        if unknown:
            raise ValueError(f"evaluate_runs names no run: {', '.join(unknown)}")
        return self


class ExperimentConfig(Settings):
    """Groups of runs that are trained, evaluated and compared."""

    name: str
    """The group of its runs on W&B."""
    output: str
    """The folder for all runs and the report."""
    title: str = "Report"
    """The heading of the report."""
    workers: int = Field(default=2, ge=1, le=1000)
    """Runs at a time."""
    processes: int = Field(default=1, ge=1, le=1000)
    """Processes (GPUs of this machine) that train one run, started by torchrun; evaluation takes one."""
    threads: int = Field(default=1, ge=1, le=1000)
    """CPU threads of each process."""
    max_steps: int | None = Field(default=None, ge=1, le=MOST_STEPS)
    """Optimizer steps of every run, in place of its own `train.max_steps`: `max_steps=5` tries an experiment out."""
    max_examples: int | None = Field(default=None, ge=1, le=MOST_EXAMPLES)
    """No condition is evaluated on more examples than this: `max_examples=4` tries an experiment out."""
    groups: dict[str, Group] = Field(min_length=1)
    """Groups of runs."""
    comparisons: tuple[Comparison, ...] = ()
    """What the report compares, and under which mitigation and failure; none: every variant with the baseline."""

    @model_validator(mode="after")
    def _one_baseline(self) -> ExperimentConfig:
        for name, group in self.groups.items():
            marked = [run for run, changes in group.runs.items() if BASELINE in changes]
            if marked and self.comparisons:
                raise ValueError(f"groups.{name}.runs.{marked[0]}.baseline does nothing beside comparisons: remove it")
            if len(marked) > 1 or any(group.runs[run][BASELINE] is not True for run in marked):
                raise ValueError(f"groups.{name}: write `baseline: true` at one run, and nothing at the others")
        return self

    @property
    def baselines(self) -> list[str]:
        """The runs that are marked as baselines; of several, as with a grid, the first."""
        marked = [
            (group, run) for group in self.groups.values() for run, changes in group.runs.items() if BASELINE in changes
        ]
        return [next(member.name for member in members(group) if member.of == run) for group, run in marked]


class Job(Settings):
    """One run of an experiment: train, then evaluate. `variant`: the name of all runs that differ from it in their seeds alone."""

    name: str
    variant: str
    folder: Path
    train: RunConfig
    evaluate: EvalConfig


class Member(NamedTuple):
    """A run of a group before its settings are resolved."""

    name: str
    variant: str
    of: str
    changes: dict[str, Any]


def members(group: Group) -> list[Member]:
    """The runs of a group: each of `runs` at each point of the grid, with each seed. Seeds are no part of a variant's name."""
    found = []
    for of, settings in (group.runs or {"": {}}).items():
        changes = {key: value for key, value in settings.items() if key != BASELINE}
        for values in itertools.product(*group.grid.values()):
            point = dict(zip(group.grid, values))
            words = {key: f"{_said(key)}={_word(value)}" for key, value in point.items()}
            kept = [word for key, word in words.items() if key not in SEED_KEYS]
            variant = ",".join([*([of] if of else []), *kept]) or "all"
            name = ",".join([*([of] if of else []), *words.values()])
            whole = {**changes, **point}
            found += [
                Member(
                    ",".join(filter(None, (name, f"seed={seed}"))),
                    variant,
                    of,
                    {**whole, **dict.fromkeys(SEED_KEYS, seed)},
                )
                for seed in group.seeds
            ] or [Member(name, variant, of, whole)]
    return found


def _said(key: str) -> str:
    """The key in a run's name: its last word, but for `data.seed`, which is another world and no seed of a run."""
    return key if key == "data.seed" else key.rsplit(".", 1)[-1]


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{k}-{_word(v)}" for k, v in value.items())
    return "+".join(map(_word, value)) if isinstance(value, (list, tuple)) else str(value)


def expand(config: ExperimentConfig, where: str) -> list[Job]:
    """All runs with their resolved settings.

    Raises:
        ConfigError: a run's settings do not validate; the message names the run.
    """
    jobs: list[Job] = []
    for group_name, group in config.groups.items():
        for member in members(group):
            label = f"{where}: groups.{cut(group_name)}.runs.{cut(member.name)}"
            jobs.append(_job(config, group_name, member, label))
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{where}: run names must be unique over all groups; {shown(twice)} comes twice")
    jobs = together(jobs)
    one_primary(config.comparisons)
    evaluations = {name: job.evaluate for job in jobs for name in (job.name, job.variant)}
    for number, comparison in enumerate(config.comparisons):
        for name, side in (("baseline", comparison.baseline), ("treatment", comparison.treatment)):
            _check_side(side, evaluations, f"{where}: comparisons.{number}.{name}")
    return jobs


def together(jobs: Sequence[Job]) -> list[Job]:
    """The runs, those of equal settings but for seeds under one variant's name: that of the first."""
    names: dict[str, str] = {}
    found = []
    for job in jobs:
        settings = job.train.model_dump(mode="json", exclude={"name", "output", "tracking"})
        recipe = {**settings, "train": {k: v for k, v in settings["train"].items() if k not in SEEDS}}
        key = json.dumps([recipe, job.evaluate.model_dump(mode="json")], sort_keys=True)
        if key not in names:
            names[key] = job.variant if job.variant not in names.values() else job.name
        found.append(job.model_copy(update={"variant": names[key]}))
    return found


def _check_side(side: Side, evaluations: Mapping[str, EvalConfig], place: str) -> None:
    """Refuse a run or a label that no record will have, before anything is trained."""
    if side.run not in evaluations:
        raise ConfigError(f"{place}.run: no variant or run {side.run!r}; {suggest(side.run, evaluations)}")
    own = [label.name for diagnostic in evaluations[side.run].diagnostics for label in diagnostic.labels]
    known = ["diagnostic", *dict.fromkeys(own), *(label.name for label in COMMON)]
    for key in side.where:
        if key in FORMER_LABELS:
            raise ConfigError(f"{place}.where: the label {key!r} is now {FORMER_LABELS[key]!r}")
        if key not in known:
            raise ConfigError(f"{place}.where: records of {side.run!r} have no label {key!r}; {suggest(key, known)}")


def _job(config: ExperimentConfig, group_name: str, member: Member, label: str) -> Job:
    group = config.groups[group_name]
    folder = Path(config.output) / group_name / member.name.replace("/", "-")
    settings = apply_changes(
        {**group.base, "name": member.name, "output": str(folder / "model")}, member.changes, label
    )
    if config.max_steps is not None:
        settings = apply_changes(settings, {"train.max_steps": config.max_steps}, label)
    tracking = settings.get("tracking") or {}
    if isinstance(tracking, Mapping) and tracking.get("wandb", True):
        settings["tracking"] = {"group": config.name, "tags": [group_name, member.variant], **tracking}
    evaluation = build(EvalConfig, apply_changes(group.evaluate, group.evaluate_runs.get(member.of, {}), label), label)
    if config.max_examples is not None:
        evaluation = evaluation.changed(_fewer_examples(evaluation, config.max_examples), label)
    train = build(RunConfig, settings, label)
    return Job(name=member.name, variant=member.variant, folder=folder, train=train, evaluate=evaluation)


def _fewer_examples(evaluation: EvalConfig, most: int) -> dict[str, Any]:
    """The changes that leave no diagnostic more examples than `most`."""
    counts = {number: getattr(d, "examples", None) for number, d in enumerate(evaluation.diagnostics)}
    return {f"diagnostics.{number}.examples": min(count or most, most) for number, count in counts.items()}
