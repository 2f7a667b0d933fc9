"""Settings of an experiment."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from remedy.eval.diagnostics.condition import MOST_EXAMPLES
from remedy.eval.report.comparison import Comparison
from remedy.files import Folder
from remedy.messages import shown
from remedy.settings import Configuration, Settings
from remedy.train.config import MOST_STEPS

SEEDS = ("seed", "data_seed")
"""Settings of `train` that differ within a variant. Not `data.seed`, which also chooses the test set."""
SEED_KEYS = tuple(f"train.{name}" for name in SEEDS)
BASELINE = "baseline"
SELECTION_FOLDER = "selection"
"""The folder of a group that holds its trials."""


OTHER_FIGURES = ("data", "mixture", "tokenizer", "train.loss_roles", "train.validation_examples")
"""Settings and sections that change what validation measures."""


class Selection(Settings):
    """Settings that each variant chooses by validation alone.

    Every point of the grid is trained with separate seeds, and the best goes into the variant's runs.
    """

    grid: dict[str, tuple[Any, ...]] = Field(min_length=1)
    """Settings with lists of values to try; every combination is trained: `{train.learning_rate: [1e-3, 2e-3, 4e-3]}`."""
    seeds: tuple[int, ...] = Field(min_length=1)
    """`train.seed` and `train.data_seed` of the trials; they must differ from the group's `seeds`."""
    metric: Literal["loss", "exact_match"] = "loss"
    """The validation metric, as a mean over the seeds; ties in exact match go to the smaller loss."""

    @model_validator(mode="after")
    def _a_choice(self) -> Selection:
        for key, values in self.grid.items():
            _check_values(f"grid.{key}", values)
            if key in SEED_KEYS:
                raise ValueError(f"grid.{key}: a seed is not to be chosen: give several `seeds`")
            if conflict := next((section for section in OTHER_FIGURES if f"{key}.".startswith(f"{section}.")), None):
                raise ValueError(f"grid.{key}: figures of validation cannot be compared where `{conflict}` differs")
        if math.prod(len(values) for values in self.grid.values()) < 2:
            raise ValueError("grid has one combination, which leaves nothing to choose: give a key several values")
        _check_values("seeds", self.seeds)
        return self

    def points(self) -> list[dict[str, Any]]:
        return _points(self.grid)


class Group(Settings):
    """Runs with common settings and a few differences.

    Changes are written `a.b: value`, as on the command line.
    """

    base: dict[str, Any]
    """Settings that all its runs share: those of `remedy train` without `name` and `output`."""
    runs: dict[str, dict[str, Any]] = {}
    """Each run's differences from `base`, by its name. Runs that differ only in `train.seed` and `train.data_seed` are one variant,
    named after the first. `baseline: true` marks the variant that a report without `comparisons` compares the others with; by default
    the first."""
    grid: dict[str, tuple[Any, ...]] = {}
    """Settings with lists of values; every combination is a run (for each of `runs`, if there are any)."""
    seeds: tuple[int, ...] = ()
    """Values of `train.seed` and `train.data_seed`; every run is made with each, and reports treat them as one variant."""
    select: Selection | None = None
    """Settings that each variant chooses by validation before its runs; null: none."""
    evaluate: dict[str, Any]
    """Evaluation of every run: the settings of `remedy evaluate`."""
    evaluate_runs: dict[str, dict[str, Any]] = {}
    """Differences from `evaluate` for single ones of `runs`."""

    @model_validator(mode="after")
    def _nothing_in_vain(self) -> Group:
        if not self.runs and not self.grid and not self.seeds:
            raise ValueError("give `runs`, `grid` or `seeds`")
        for key, values in self.grid.items():
            _check_values(f"grid.{key}", values)
        if self.seeds:
            _check_values("seeds", self.seeds)
        runs = {f"runs.{name}.": changes for name, changes in self.runs.items()}
        for where, settings in {"base.": self.base, **runs}.items():
            if idle := [key for key in ("name", "output") if key in settings]:
                raise ValueError(f"{where}{idle[0]} does nothing: runs have the names and folders of the experiment")
        selected = self.select.grid if self.select else {}
        setters: list[tuple[str, Iterable[str], dict[str, dict[str, Any]]]] = [
            ("`grid`", self.grid, runs),
            ("`seeds`", SEED_KEYS if self.seeds else (), {**runs, "grid.": self.grid}),
            ("`select`", selected, {**runs, "grid.": self.grid}),
        ]
        for setter, keys, others in setters:
            for where, settings in others.items():
                if duplicates := [key for key in keys if key in settings]:
                    raise ValueError(
                        f"{where}{duplicates[0]} does nothing, since {setter} sets it: remove it from one of them"
                    )
        if unknown := sorted(set(self.evaluate_runs) - set(self.runs)):
            raise ValueError(f"evaluate_runs names no run: {', '.join(unknown)}")
        return self

    @model_validator(mode="after")
    def _chosen_and_tested_apart(self) -> Group:
        if self.select is not None:
            if not self.seeds:
                raise ValueError("select needs `seeds`: those of the runs with the chosen settings, which no trial had")
            if common := sorted(set(self.seeds) & set(self.select.seeds)):
                raise ValueError(
                    f"select.seeds: {common[0]} is one of `seeds`: what is chosen by a seed is to be tested on others"
                )
            if SELECTION_FOLDER in self.runs:
                raise ValueError(f"runs.{SELECTION_FOLDER}: is the name of the folder of trials: choose another name")
        return self


def _check_values(key: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise ValueError(f"{key} has no values")
    if any(value in values[:index] for index, value in enumerate(values)):
        raise ValueError(f"{key} has a value twice: {shown(values)}")


SbatchValue = Annotated[str, Field(pattern=r"^[\w.,:+&|*()\[\]-]+$")]


class SlurmSettings(Settings):
    """Options of the jobs that `remedy run --slurm` writes, named as sbatch's; null: the cluster's default.

    A task has one node and `processes` GPUs.
    """

    partition: SbatchValue | None = None
    """The partition, or several: `gpu,gpu-long`."""
    account: SbatchValue | None = None
    """The account that is charged."""
    qos: SbatchValue | None = None
    """The quality of service."""
    constraint: SbatchValue | None = None
    """Features that a node must have: `a100|h100`."""
    time: SbatchValue = "04:00:00"
    """The time limit of a task, which is requeued until it is finished."""

    def options(self) -> str:
        """Return the lines for the head of a script."""
        return "\n".join(f"#SBATCH --{key}={value}" for key, value in self if value is not None)


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
    slurm: SlurmSettings = SlurmSettings()
    """Options of Slurm jobs."""
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
        """Return the marked baselines; of a grid, the first."""
        marked = [
            (group, run) for group in self.groups.values() for run, changes in group.runs.items() if BASELINE in changes
        ]
        return [next(member.name for member in members(group) if member.run == run) for group, run in marked]


class Member(NamedTuple):
    """A run or trial before its settings are resolved.

    `run`: its key in `runs`, or "". `tries`: a trial's settings.
    """

    name: str
    variant: str
    run: str
    changes: dict[str, Any]
    tries: dict[str, Any] = {}


def members(group: Group) -> list[Member]:
    """List a group's runs: `runs` times grid points times seeds.

    Variants' names leave out seeds.
    """
    return list(_members(group, [{}], group.seeds))


def trial_members(group: Group) -> list[Member]:
    """List a group's trials: variants times points of `select.grid` times its seeds."""
    return list(_members(group, group.select.points(), group.select.seeds)) if group.select is not None else []


def _members(group: Group, trial_points: Sequence[dict[str, Any]], seeds: Sequence[int]) -> Iterator[Member]:
    seeded = [dict.fromkeys(SEED_KEYS, seed) for seed in seeds] or [{}]
    for run, point, tries, seed in itertools.product(group.runs or [""], _points(group.grid), trial_points, seeded):
        changes = {key: value for key, value in group.runs.get(run, {}).items() if key != BASELINE}
        variant_point = {key: value for key, value in point.items() if key not in SEED_KEYS}
        name_parts = [run, *_words(point), *_words(tries), *(f"seed={number}" for number in [*seed.values()][:1])]
        name, variant = (",".join(filter(None, parts)) for parts in (name_parts, [run, *_words(variant_point)]))
        yield Member(name, variant or "all", run, {**changes, **point, **tries, **seed}, tries)


def _points(grid: dict[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def _words(point: dict[str, Any]) -> list[str]:
    """Write a point's settings by each key's last word.

    `data.seed` stays whole: it changes the test set.
    """
    return [f"{key if key == 'data.seed' else key.rsplit('.', 1)[-1]}={_word(value)}" for key, value in point.items()]


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{k}-{_word(v)}" for k, v in value.items())
    return "+".join(map(_word, value)) if isinstance(value, (list, tuple)) else str(value)
