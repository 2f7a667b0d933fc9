"""An experiment: groups of runs that differ in a few settings, how each group is evaluated, and what is compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
from remedy.launch.groups import BASELINE, SEEDS, SELECTION_FOLDER, Group, Member, members, trial_members
from remedy.messages import cut, shown, suggest
from remedy.models.config import DecoderSettings
from remedy.settings import ConfigError, Configuration, apply_changes, build, resolve
from remedy.train.config import MOST_STEPS, RunConfig

TRAINED = "trained"
"""The file in a run's folder that says so."""


class ExperimentConfig(Configuration):
    """Groups of runs that are trained, evaluated and compared."""

    name: str
    """The experiment's name, and the group of its runs on W&B."""
    output: Folder
    """The folder for all runs and the report."""
    title: str = "Report"
    """The heading of the report."""
    workers: int = Field(default=2, ge=1, le=1000)
    """Number of runs at a time."""
    processes: int = Field(default=1, ge=1, le=1000)
    """Processes (GPUs of this machine) per run, started by torchrun."""
    threads: int = Field(default=1, ge=1, le=1000)
    """CPU threads per process."""
    max_steps: int | None = Field(default=None, ge=1, le=MOST_STEPS)
    """Optimizer steps of every training, in place of its `train.max_steps`: `max_steps=5` for a trial."""
    max_examples: int | None = Field(default=None, ge=1, le=MOST_EXAMPLES)
    """The largest number of examples per condition: `max_examples=4` for a trial."""
    groups: dict[str, Group] = Field(min_length=1)
    """Groups of runs."""
    comparisons: tuple[Comparison, ...] = ()
    """Comparisons of the report, with their mitigations and failures; empty: every variant with the baseline."""

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


class Job(NamedTuple):
    """One run of an experiment, in a folder of its own: train, then evaluate, or a trial of a selection, which is only trained.

    `variant`: the name of all runs that differ from it in their seeds alone; `evaluate`: None of a trial; `chosen`: settings that its
    variant chose on validation, or that the trial tries; `stacked`: with so many seeds of its recipe it is trained at once (its own
    settings, `train`, are those of a run alone); `unused`: keys of the group's base that do nothing in it, and what is said then;
    `members`: the runs that a training at once is of.
    """

    name: str
    variant: str
    group: str
    folder: Path
    train: RunConfig
    evaluate: EvalConfig | None
    chosen: dict[str, Any]
    stacked: int | None = None
    unused: Mapping[str, str] = {}
    members: tuple[Job, ...] = ()

    @property
    def model(self) -> Path:
        """The folder of its checkpoints and weights."""
        return Path(self.train.output)

    @property
    def is_trained(self) -> bool:
        """Say if it was trained to its end."""
        return (self.folder / TRAINED).exists()


Choices = Mapping[tuple[str, str], dict[str, Any]]
"""The settings that variants chose, by group and variant."""


def expand(config: ExperimentConfig, where: str, choices: Choices | None = None) -> list[Job]:
    """All runs with their resolved settings. `choices`: of groups that select; before they are made, runs have the first values.

    Raises:
        ConfigError: a run's settings do not validate; the message names the run.
    """
    jobs: list[Job] = []
    recipes: list[str] = []
    for name, group in config.groups.items():
        first = len(jobs)
        for member in members(group):
            label = f"{where}: groups.{cut(name)}.runs.{cut(member.name)}"
            chosen: dict[str, Any] = {}
            if group.select is not None and not _untrained(group, member, label):
                chosen = group.select.points()[0] if choices is None else choices[name, member.variant]
            folder = Path(config.output, _part(name, label), _part(member.name, label))
            job = _job(config, name, member, chosen, folder, label)
            evaluate = _evaluation(config, group, member, job, label)
            recipes.append(json.dumps([recipe(job), evaluate.model_dump(mode="json")], sort_keys=True))
            jobs.append(_tried_out(config, job, label)._replace(evaluate=evaluate))
        for key, says in jobs[first].unused.items():
            if all(key in job.unused for job in jobs[first:]):
                raise ConfigError(says)
    _refuse_twice(jobs, where)
    jobs = _together(jobs, recipes)
    for job in jobs:
        if job.stacked is not None and sum(other.variant == job.variant for other in jobs) < 2:
            raise ConfigError(
                f"{where}: {job.name}: train.stacked {job.stacked} does nothing with one seed: give the group `seeds`, or remove it"
            )
    one_primary(config.comparisons)
    evaluations = {name: job.evaluate for job in jobs for name in (job.name, job.variant) if job.evaluate is not None}
    for number, comparison in enumerate(config.comparisons):
        for name, side in (("baseline", comparison.baseline), ("treatment", comparison.treatment)):
            _check_side(side, evaluations, f"{where}: comparisons.{number}.{name}")
    return jobs


def trials(config: ExperimentConfig, where: str) -> list[Job]:
    """The trainings by which groups with `select` choose, with their resolved settings; each is validated at its end.

    Raises:
        ConfigError: a trial's settings do not validate; the message names it.
    """
    found = []
    for name, group in config.groups.items():
        for member in trial_members(group):
            label = f"{where}: groups.{cut(name)}.select, trial {cut(member.name)}"
            folder = Path(config.output, _part(name, label), SELECTION_FOLDER, _part(member.name, label))
            job = _tried_out(config, _job(config, name, member, member.tries, folder, label), label)
            steps = job.train.train.total_steps
            if steps and job.train.train.evaluate_every is None:
                job = job._replace(train=job.train.changed({"train.evaluate_every": steps}, label))
            found += [job] if steps else []  # what trains nothing has nothing to choose
    _refuse_twice(found, where)
    return found


def stacks(jobs: Sequence[Job]) -> list[Job]:
    """Runs that are not trained yet, of one variant and one recipe, as many at a time as their settings say, each as one training
    whose folder lies in the first's.

    What is left over by itself is trained as any other run, by its own process.
    """
    recipes: dict[str, list[Job]] = {}
    for job in jobs:
        if job.stacked is not None and not job.is_trained:
            recipes.setdefault(json.dumps([job.variant, recipe(job)], sort_keys=True), []).append(job)
    found = []
    for mine in recipes.values():
        size = mine[0].stacked or 1
        for first, *others in (mine[start : start + size] for start in range(0, len(mine), size)):
            if others:
                name = f"{first.name} and {len(others)} more"
                found.append(first._replace(name=name, folder=first.folder / "stack", members=(first, *others)))
    return found


def recipe(job: Job) -> dict[str, Any]:
    """The settings of a training without its seeds and its place."""
    settings = job.train.model_dump(mode="json", exclude={"name", "output", "tracking"})
    return {**settings, "train": {k: v for k, v in settings["train"].items() if k not in SEEDS}}


def conditions(job: Job) -> list[Condition]:
    """Return what a run is evaluated on.

    Raises:
        ConfigError: a diagnostic does not fit its data.
    """
    if job.evaluate is None:
        return []
    data = build(DataConfig, apply_changes(job.train.data.model_dump(), job.evaluate.set, "set"), job.name)
    return conditions_of(job.evaluate, Subject(data, job.evaluate.trained_on or job.train.data.task))


def _refuse_twice(jobs: Sequence[Job], where: str) -> None:
    names, held = set(), dict[Path, str]()
    for job in jobs:
        if job.name in names:
            raise ConfigError(f"{where}: run names must be unique over all groups; {shown(job.name)} comes twice")
        names.add(job.name)
        if (other := held.setdefault(job.folder, job.name)) != job.name:
            raise ConfigError(
                f"{where}: runs {shown(other)} and {shown(job.name)} would share {job.folder}: rename one"
            )


def _together(jobs: Sequence[Job], recipes: Sequence[str]) -> list[Job]:
    """The runs, those of equal settings but for seeds under one variant's name: that of the first."""
    names: dict[str, str] = {}
    for job, key in zip(jobs, recipes):
        names.setdefault(key, job.variant if job.variant not in names.values() else job.name)
    return [job._replace(variant=names[key]) for job, key in zip(jobs, recipes)]


def _check_side(side: Side, evaluations: Mapping[str, EvalConfig], place: str) -> None:
    """Refuse a run or a label that no record will have, before anything is trained."""
    if side.run not in evaluations:
        raise ConfigError(f"{place}.run: no variant or run {side.run!r}; {suggest(side.run, evaluations)}")
    own = [label.name for diagnostic in evaluations[side.run].diagnostics for label in diagnostic.labels]
    known = ["diagnostic", *dict.fromkeys(own), *(label.name for label in COMMON)]
    for key in side.where:
        if key not in known:
            raise ConfigError(f"{place}.where: records of {side.run!r} have no label {key!r}; {suggest(key, known)}")


def _part(name: str, label: str) -> str:
    """A name as one part of a path: a run's folder lies in its group's, and that in the experiment's."""
    if not name.isprintable() or not (part := file_name(name)):
        raise ConfigError(f"{label}: {shown(name)} cannot name the folder of a group or run: choose another name")
    return part


def _untrained(group: Group, member: Member, label: str) -> bool:
    """Say if a run is of the model as it is."""
    train = apply_changes(group.base, member.changes, label).get("train")
    return isinstance(train, Mapping) and train.get("max_steps") == 0


def _job(config: ExperimentConfig, group: str, member: Member, chosen: dict[str, Any], folder: Path, label: str) -> Job:
    """One training with its resolved settings."""
    own = {"plugins": config.plugins} if config.plugins else {}
    base = {**own, **config.groups[group].base, "name": member.name, "output": str(folder / "model")}
    changes = {**member.changes, **chosen}
    tracking = apply_changes(base, changes, label).get("tracking") or {}
    if isinstance(tracking, Mapping) and tracking.get("wandb", True):
        tags = [group, *([SELECTION_FOLDER] if member.tries else []), member.variant]
        changes = {**changes, "tracking": {"group": config.name, "tags": tags, **tracking}}
    train, unused = resolve(RunConfig, base, changes, label)
    stacked = train.train.stacked
    if stacked is not None:
        if config.processes > 1:
            raise ConfigError(
                f"{label}: train.stacked {stacked}: seeds are trained at once by one process, not by {config.processes}"
            )
        train = train.changed({"train.stacked": None}, label)
    return Job(member.name, member.variant, group, folder, train, None, chosen, stacked, unused)


def _tried_out(config: ExperimentConfig, job: Job, label: str) -> Job:
    """The run with the experiment's `max_steps`, if that is given and it trains."""
    if config.max_steps is None or not job.train.train.total_steps:
        return job
    return job._replace(train=job.train.changed({"train.max_steps": config.max_steps}, label))


def _evaluation(config: ExperimentConfig, group: Group, member: Member, job: Job, label: str) -> EvalConfig:
    """The resolved settings of a run's evaluation."""
    found, _ = resolve(EvalConfig, group.evaluate, group.evaluate_runs.get(member.of, {}), label, label)
    if config.max_examples is not None:
        most = config.max_examples
        counts = {number: getattr(one, "examples", None) for number, one in enumerate(found.diagnostics)}
        fewer = {f"diagnostics.{number}.examples": min(count or most, most) for number, count in counts.items()}
        found = found.changed(fewer, label)
    if found.backend is not None:
        raise ConfigError(
            f"{label}: evaluate.backend does not fit a run that is trained here, which no server has: remove it, and evaluate the run "
            "with `remedy evaluate` once it is served"
        )
    if found.load_in_4bit and isinstance(job.train.model, DecoderSettings):
        raise ConfigError(
            f"{label}: evaluate.load_in_4bit is for pretrained models, and this run's is a decoder: remove it"
        )
    found.refuse_on(config.processes)
    return found
