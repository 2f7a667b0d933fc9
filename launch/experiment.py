"""An experiment: groups of runs that differ in a few settings, how each group is evaluated, and what is compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from remedy.data_gen.config import DataConfig
from remedy.eval.checkpoint import Subject
from remedy.eval.conditions import conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.condition import MOST_EXAMPLES
from remedy.eval.records.schema import COMMON
from remedy.eval.report.comparison import Comparison, Side, one_primary
from remedy.files import Folder, file_name
from remedy.launch.groups import BASELINE, SEEDS, SELECTION_FOLDER, Group, Member, TrialMember, members, trial_members
from remedy.messages import cut, shown, suggest
from remedy.models.config import DecoderSettings
from remedy.settings import ConfigError, Configuration, Settings, apply_changes, build, resolve
from remedy.train.config import MOST_STEPS, RunConfig


class ExperimentConfig(Configuration):
    """Groups of runs that are trained, evaluated and compared."""

    name: str
    """The group of its runs on W&B."""
    output: Folder
    """The folder for all runs and the report."""
    title: str = "Report"
    """The heading of the report."""
    workers: int = Field(default=2, ge=1, le=1000)
    """Runs at a time."""
    processes: int = Field(default=1, ge=1, le=1000)
    """Processes (GPUs of this machine) that train one run and evaluate it, started by torchrun."""
    threads: int = Field(default=1, ge=1, le=1000)
    """CPU threads of each process."""
    max_steps: int | None = Field(default=None, ge=1, le=MOST_STEPS)
    """Optimizer steps of every run that trains, in place of its own `train.max_steps`: `max_steps=5` tries an experiment out."""
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


class TrainingJob(Settings):
    """One training of an experiment, in a folder of its own. `stacked`: with so many seeds of its recipe it is trained at once; its
    own settings, `train`, are those of a run alone. `unused`: keys of the group's base that do nothing in it, and what is said then."""

    name: str
    variant: str
    folder: Path
    train: RunConfig
    stacked: int | None = None
    unused: dict[str, str] = {}


class Trial(TrainingJob):
    """A training of a selection, which is judged by its validation alone. `values`: the settings that it tries."""

    group: str
    seed: int
    values: dict[str, Any]


class Job(TrainingJob):
    """One run of an experiment: train, then evaluate. `variant`: the name of all runs that differ from it in their seeds alone;
    `chosen`: settings that its variant chose on validation."""

    evaluate: EvalConfig
    chosen: dict[str, Any]


Choices = Mapping[tuple[str, str], dict[str, Any]]
"""The settings that variants chose, by group and variant."""


def expand(config: ExperimentConfig, where: str, choices: Choices | None = None) -> list[Job]:
    """All runs with their resolved settings. `choices`: of groups that select; before they are made, runs have the first values.

    Raises:
        ConfigError: a run's settings do not validate; the message names the run.
    """
    jobs: list[Job] = []
    for group_name, group in config.groups.items():
        first = len(jobs)
        for member in members(group):
            label = f"{where}: groups.{cut(group_name)}.runs.{cut(member.name)}"
            chosen: dict[str, Any] = {}
            if group.select is not None and not _untrained(group, member, label):
                chosen = group.select.points()[0] if choices is None else choices[group_name, member.variant]
            jobs.append(_job(config, group_name, member, chosen, label))
        for key, says in jobs[first].unused.items():
            if all(key in job.unused for job in jobs[first:]):
                raise ConfigError(says)
    _refuse_twice([job.name for job in jobs], where)
    held: dict[Path, str] = {}
    for job in jobs:
        if (other := held.setdefault(job.folder, job.name)) != job.name:
            raise ConfigError(
                f"{where}: runs {shown(other)} and {shown(job.name)} would share {job.folder}: rename one"
            )
    jobs = together(jobs)
    for job in jobs:
        if job.stacked is not None and sum(other.variant == job.variant for other in jobs) < 2:
            raise ConfigError(
                f"{where}: {job.name}: train.stacked {job.stacked} does nothing with one seed: give the group `seeds`, or remove it"
            )
    if config.max_steps is not None:  # runs that differ in their steps alone stay apart: comparisons name them
        whole = expand(config.model_copy(update={"max_steps": None}), where, choices)
        jobs = [job.model_copy(update={"variant": as_written.variant}) for job, as_written in zip(jobs, whole)]
    one_primary(config.comparisons)
    evaluations = {name: job.evaluate for job in jobs for name in (job.name, job.variant)}
    for number, comparison in enumerate(config.comparisons):
        for name, side in (("baseline", comparison.baseline), ("treatment", comparison.treatment)):
            _check_side(side, evaluations, f"{where}: comparisons.{number}.{name}")
    return jobs


def _refuse_twice(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{where}: run names must be unique over all groups; {shown(twice)} comes twice")


def together(jobs: Sequence[Job]) -> list[Job]:
    """The runs, those of equal settings but for seeds under one variant's name: that of the first."""
    names: dict[str, str] = {}
    found = []
    for job in jobs:
        key = json.dumps([recipe(job), job.evaluate.model_dump(mode="json")], sort_keys=True)
        if key not in names:
            names[key] = job.variant if job.variant not in names.values() else job.name
        found.append(job.model_copy(update={"variant": names[key]}))
    return found


def recipe(job: TrainingJob) -> dict[str, Any]:
    """The settings of a training without its seeds and its place."""
    settings = job.train.model_dump(mode="json", exclude={"name", "output", "tracking"})
    return {**settings, "train": {k: v for k, v in settings["train"].items() if k not in SEEDS}}


def _check_side(side: Side, evaluations: Mapping[str, EvalConfig], place: str) -> None:
    """Refuse a run or a label that no record will have, before anything is trained."""
    if side.run not in evaluations:
        raise ConfigError(f"{place}.run: no variant or run {side.run!r}; {suggest(side.run, evaluations)}")
    own = [label.name for diagnostic in evaluations[side.run].diagnostics for label in diagnostic.labels]
    known = ["diagnostic", *dict.fromkeys(own), *(label.name for label in COMMON)]
    for key in side.where:
        if key not in known:
            raise ConfigError(f"{place}.where: records of {side.run!r} have no label {key!r}; {suggest(key, known)}")


def trials(config: ExperimentConfig, where: str) -> list[Trial]:
    """The trainings by which groups with `select` choose, with their resolved settings; each is validated at its end.

    Raises:
        ConfigError: a trial's settings do not validate; the message names it.
    """
    found = []
    for group_name, group in config.groups.items():
        for member in trial_members(group):
            label = f"{where}: groups.{cut(group_name)}.select, trial {cut(member.name)}"
            folder = _folder(config, group_name, label) / SELECTION_FOLDER / _part(member.name, label)
            train, stacked, _ = _train(config, group_name, member, folder, member.changes, label)
            if not train.train.total_steps:
                continue  # what trains nothing has nothing to choose
            if train.train.evaluate_every is None:
                train = train.changed({"train.evaluate_every": train.train.total_steps}, label)
            found.append(
                Trial(
                    name=member.name,
                    variant=member.variant,
                    folder=folder,
                    train=train,
                    stacked=stacked,
                    group=group_name,
                    seed=member.seed,
                    values=member.values,
                )
            )
    _refuse_twice([trial.name for trial in found], where)
    return found


def _folder(config: ExperimentConfig, group_name: str, label: str) -> Path:
    """A group's folder."""
    return Path(config.output) / _part(group_name, label)


def _part(name: str, label: str) -> str:
    """A name as one part of a path: a run's folder lies in its group's, and that in the experiment's."""
    if not name.isprintable() or not (part := file_name(name)):
        raise ConfigError(f"{label}: {shown(name)} cannot name the folder of a group or run: choose another name")
    return part


def _job(config: ExperimentConfig, group_name: str, member: Member, chosen: dict[str, Any], label: str) -> Job:
    group = config.groups[group_name]
    folder = _folder(config, group_name, label) / _part(member.name, label)
    evaluation, _ = resolve(EvalConfig, group.evaluate, group.evaluate_runs.get(member.of, {}), label, label)
    if config.max_examples is not None:
        evaluation = evaluation.changed(_fewer_examples(evaluation, config.max_examples), label)
    if evaluation.backend is not None:
        raise ConfigError(
            f"{label}: evaluate.backend does not fit a run that is trained here, which no server has: remove it, and evaluate the run "
            "with `remedy evaluate` once it is served"
        )
    evaluation.refuse_on(config.processes)
    train, stacked, unused = _train(config, group_name, member, folder, {**member.changes, **chosen}, label)
    if evaluation.load_in_4bit and isinstance(train.model, DecoderSettings):
        raise ConfigError(
            f"{label}: evaluate.load_in_4bit is for pretrained models, and this run's is a decoder: remove it"
        )
    return Job(
        name=member.name,
        variant=member.variant,
        folder=folder,
        train=train,
        stacked=stacked,
        unused=unused,
        evaluate=evaluation,
        chosen=chosen,
    )


def conditions(job: Job) -> list[Condition]:
    """Return what a run is evaluated on.

    Raises:
        ConfigError: a diagnostic does not fit its data.
    """
    data = build(DataConfig, apply_changes(job.train.data.model_dump(), job.evaluate.set, "set"), job.name)
    return conditions_of(job.evaluate, Subject(data, job.evaluate.trained_on or job.train.data.task))


def _untrained(group: Group, member: Member | TrialMember, label: str) -> bool:
    """Say if a run is of the model as it is."""
    settings = apply_changes(group.base, member.changes, label)
    train = settings.get("train")
    return isinstance(train, Mapping) and train.get("max_steps") == 0


def _train(
    config: ExperimentConfig,
    group_name: str,
    member: Member | TrialMember,
    folder: Path,
    changes: dict[str, Any],
    label: str,
) -> tuple[RunConfig, int | None, dict[str, str]]:
    """The resolved settings of one training, with how many seeds it is trained at once, and what of the base does nothing in it."""
    own = {"plugins": config.plugins} if config.plugins else {}
    base = {**own, **config.groups[group_name].base, "name": member.name, "output": str(folder / "model")}
    if config.max_steps is not None and not _untrained(config.groups[group_name], member, label):
        changes = {**changes, "train.max_steps": config.max_steps}
    tracking = apply_changes(base, changes, label).get("tracking") or {}
    if isinstance(tracking, Mapping) and tracking.get("wandb", True):
        tags = [group_name, *([SELECTION_FOLDER] if isinstance(member, TrialMember) else []), member.variant]
        changes = {**changes, "tracking": {"group": config.name, "tags": tags, **tracking}}
    train, unused = resolve(RunConfig, base, changes, label)
    stacked = train.train.stacked
    if stacked is not None and config.processes > 1:
        raise ConfigError(
            f"{label}: train.stacked {stacked}: seeds are trained at once by one process, not by {config.processes}"
        )
    return train if stacked is None else train.changed({"train.stacked": None}, label), stacked, unused


def _fewer_examples(evaluation: EvalConfig, most: int) -> dict[str, Any]:
    """The changes that leave no diagnostic more examples than `most`."""
    counts = {number: getattr(d, "examples", None) for number, d in enumerate(evaluation.diagnostics)}
    return {f"diagnostics.{number}.examples": min(count or most, most) for number, count in counts.items()}
