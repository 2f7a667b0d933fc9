"""Jobs of an experiment: runs and trials, their settings and state.

A run's folder holds `train.yaml`, `run.json` and, if it is evaluated, `evaluate.yaml`, which its process reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from remedy.checksums import write_json
from remedy.data_gen.config import DataConfig
from remedy.eval.conditions import CheckpointInfo, conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.records.folder import SUMMARY
from remedy.eval.records.schema import COMMON
from remedy.eval.report.comparison import Side, one_primary
from remedy.eval.report.reading import read_evaluations
from remedy.files import file_name, write_text
from remedy.launch.experiment import (
    SEEDS,
    SELECTION_FOLDER,
    ExperimentConfig,
    Group,
    Member,
    members,
    trial_members,
)
from remedy.messages import cut, shown, suggest
from remedy.models.config import DecoderSettings
from remedy.models.model_manifest import SEAL, recorded_weights, weights_are_gone
from remedy.settings import ConfigError, UserError, apply_changes, build, dump, load_stored, resolve
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.division import passes

RUN, TRAIN, EVALUATE, EVALUATION = "run.json", "train.yaml", "evaluate.yaml", "evaluation"
Choices = Mapping[tuple[str, str], dict[str, Any]]
"""The settings that variants chose, by group and variant."""


class Job(NamedTuple):
    """A run, a trial or a stacked training, in its own folder.

    `variant`: the name of all runs that differ only in seeds. `recipe`: settings without seeds and paths, as JSON.
    `chosen`: settings chosen on validation, or tried. `stacked`: seeds trained at once; `train` is one seed's.
    `unused`: messages by idle keys of the group's base. `evaluate`: None for a trial. `members`: a stacked training's
    runs.
    """

    name: str
    variant: str
    group: str
    folder: Path
    train: RunConfig
    recipe: str
    chosen: dict[str, Any]
    stacked: int | None
    unused: Mapping[str, str]
    evaluate: EvalConfig | None = None
    members: tuple[Job, ...] = ()

    @property
    def model(self) -> Path:
        return Path(self.train.output)

    @property
    def is_trained(self) -> bool:
        return was_trained(self.model, self.evaluate is not None)


def was_trained(model: Path, evaluated: bool) -> bool:
    """Say if a training has ended here; unevaluated trials may end by diverging."""
    return (model / SEAL).exists() or (not evaluated and (model / DIVERGED).exists())


def expand(config: ExperimentConfig, where: str, choices: Choices | None = None) -> list[Job]:
    """Return all runs with resolved settings.

    Without `choices`, runs of groups that select have the grid's first values.

    Raises:
        ConfigError: a run's settings do not validate.
    """
    jobs: list[Job] = []
    for name, group in config.groups.items():
        group_jobs = []
        for member in members(group):
            job = _job(config, name, member, {}, where)
            if group.select is not None and job.train.train.total_steps:  # an untrained model has nothing to choose
                chosen = choices[name, member.variant] if choices is not None else group.select.points()[0]

                job = _job(config, name, member, chosen, where)
            group_jobs.append(
                job._replace(evaluate=_evaluation(config, group, member, job, _label(name, member, where)))
            )
        for key, message in group_jobs[0].unused.items():
            if all(key in job.unused for job in group_jobs):
                raise ConfigError(message)
        jobs += group_jobs
    _refuse_twice(jobs, where)
    jobs = _one_variant_a_recipe(jobs)
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
    """Return the trials of groups with `select`, each validated at its end.

    Raises:
        ConfigError: a trial's settings do not validate.
    """
    jobs = []
    for name, group in config.groups.items():
        for member in trial_members(group):
            job = _job(config, name, member, member.tries, where)
            if steps := job.train.train.total_steps:  # an untrained model has nothing to choose
                if job.train.train.evaluate_every is None:
                    job = job._replace(
                        train=job.train.changed({"train.evaluate_every": steps}, _label(name, member, where))
                    )
                jobs.append(job)
    _refuse_twice(jobs, where)
    return jobs


def stacks(jobs: Sequence[Job]) -> list[Job]:
    """Group untrained runs of one variant and recipe into stacked trainings.

    Single runs are left out.
    """
    recipes: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        if job.stacked is not None and not job.is_trained:
            recipes.setdefault((job.variant, job.recipe), []).append(job)
    stacked = []
    for runs_of_recipe in recipes.values():
        size = runs_of_recipe[0].stacked or 1
        for first, *others in (runs_of_recipe[start : start + size] for start in range(0, len(runs_of_recipe), size)):
            if others:
                name = f"{first.name} and {len(others)} more"
                stacked.append(first._replace(name=name, folder=first.folder / "stack", members=(first, *others)))
    return stacked


def conditions(job: Job) -> list[Condition]:
    """Return the conditions of a run's evaluation.

    Raises:
        ConfigError: a diagnostic does not fit its data.
    """
    if job.evaluate is None:
        return []
    data = build(DataConfig, apply_changes(job.train.data.model_dump(), job.evaluate.set, "set"), job.name)
    return conditions_of(job.evaluate, CheckpointInfo(data, job.evaluate.trained_on or job.train.data.task))


def prepare(job: Job) -> None:
    """Write what a job's process reads.

    Raises:
        UserError: the folder holds a run of other settings.
    """
    for member in job.members:
        prepare(member)
    job.folder.mkdir(parents=True, exist_ok=True)
    if job.members:
        return
    settings = job.folder / TRAIN
    if settings.exists() and not _has_settings(settings, job.train):
        raise UserError(f"{job.folder} holds a run of other settings; delete it or choose another output")
    # Always anew: the run's process trusts these files as the user's.
    write_text(settings, dump(job.train))
    write_json(job.folder / RUN, {"name": job.name, "variant": job.variant, "chosen": job.chosen})
    if job.evaluate is not None:
        write_text(job.folder / EVALUATE, dump(job.evaluate))
    else:
        (job.folder / EVALUATE).unlink(missing_ok=True)


def _has_settings(path: Path, settings: RunConfig) -> bool:
    """Say if a file has these settings; keys that it lacks have defaults."""
    try:
        return load_stored(RunConfig, path).changed({"plugins": settings.plugins}) == settings
    except UserError:
        return False


def folders_of(job: Job) -> list[Path]:
    return [member.folder for member in job.members] or [job.folder]


def is_done(job: Job) -> bool:
    """Say if a run is trained and its evaluation finished, of these settings and weights.

    Adapters and tracked runs are left to their process. If the weights were deleted, the records decide.

    Raises:
        UserError: the weights are gone, and the evaluation is unfinished, damaged or another.
    """
    if job.members or not job.is_trained or job.evaluate is None:
        return job.is_trained and not job.members
    folder = job.folder / EVALUATION
    try:
        evaluations = read_evaluations([folder])
        request = evaluations.requests[0]
        problem = ""
        if evaluations.missing or not (folder / SUMMARY).exists():
            problem = f"{folder}: is not finished"
        elif not _is_asked(job, request):
            problem = f"{folder}: holds another evaluation"
    except UserError as error:
        problem = str(error)
    if weights_are_gone(job.model):
        if problem:
            raise UserError(
                f"{problem}, and the weights are gone: put them back, or delete {job.folder} to train again"
            ) from None
        return True
    weights = recorded_weights(job.model)
    if problem or not weights or job.train.tracking.wandb:
        return False
    return bool(request.get("checkpoint", {}).get("weights") == weights)


def _is_asked(job: Job, request: Mapping[str, Any]) -> bool:
    assert job.evaluate is not None
    variant = job.variant if job.variant != job.name else ""
    expected = {"run": job.name, "variant": variant, "evaluation": job.evaluate.asked}
    chosen = (request.get("training") or {"chosen": job.chosen})["chosen"]
    in_4bit = job.evaluate.load_in_4bit in (None, "quantization" in request)
    return all(request.get(key) == value for key, value in expected.items()) and chosen == job.chosen and in_4bit


def _refuse_twice(jobs: Sequence[Job], where: str) -> None:
    names, run_of_folder = set(), dict[Path, str]()
    for job in jobs:
        if job.name in names:
            raise ConfigError(f"{where}: run names must be unique over all groups; {shown(job.name)} comes twice")
        names.add(job.name)
        if (other := run_of_folder.setdefault(job.folder, job.name)) != job.name:
            raise ConfigError(
                f"{where}: runs {shown(other)} and {shown(job.name)} would share {job.folder}: rename one"
            )


def _one_variant_a_recipe(jobs: Sequence[Job]) -> list[Job]:
    """Name runs of equal recipe and evaluation after the first one's variant."""
    names: dict[tuple[str, str], str] = {}
    for job in jobs:
        names.setdefault(_recipe_and_evaluation(job), job.variant if job.variant not in names.values() else job.name)
    return [job._replace(variant=names[_recipe_and_evaluation(job)]) for job in jobs]


def _recipe_and_evaluation(job: Job) -> tuple[str, str]:
    evaluation = job.evaluate.model_dump(mode="json") if job.evaluate is not None else {}
    return job.recipe, json.dumps(evaluation, sort_keys=True)


def _check_side(side: Side, evaluations: Mapping[str, EvalConfig], key_of_side: str) -> None:
    if side.run not in evaluations:
        raise ConfigError(f"{key_of_side}.run: no variant or run {side.run!r}; {suggest(side.run, evaluations)}")
    labels = [label.name for diagnostic in evaluations[side.run].diagnostics for label in diagnostic.labels]
    known = ["diagnostic", *dict.fromkeys(labels), *(label.name for label in COMMON)]
    for key in side.where:
        if key not in known:
            raise ConfigError(
                f"{key_of_side}.where: records of {side.run!r} have no label {key!r}; {suggest(key, known)}"
            )


def _label(group: str, member: Member, where: str) -> str:
    return f"{where}: groups.{cut(group)}.{'select, trial ' if member.tries else 'runs.'}{cut(member.name)}"


def _part(name: str, label: str) -> str:
    if not name.isprintable() or not (part := file_name(name)):
        raise ConfigError(f"{label}: {shown(name)} cannot name the folder of a group or run: choose another name")
    return part


def _job(config: ExperimentConfig, group: str, member: Member, chosen: dict[str, Any], where: str) -> Job:
    label = _label(group, member, where)
    subfolders = [SELECTION_FOLDER] if member.tries else []
    folder = Path(config.output, _part(group, label), *subfolders, _part(member.name, label))
    identity = {"name": member.name, "output": str(folder / "model")}
    base = {"plugins": config.plugins, **config.groups[group].base, **identity}
    changes = {**member.changes, **chosen}
    tracking = apply_changes(base, changes, label).get("tracking") or {}
    if isinstance(tracking, Mapping) and "wandb" in tracking.get("report_to", ["wandb"]):
        changes = {
            **changes,
            "tracking": {"group": config.name, "tags": [group, *subfolders, member.variant], **tracking},
        }
    train, unused = resolve(RunConfig, base, changes, label)
    stacked = train.train.stacked
    if stacked is not None:
        if config.processes > 1:
            raise ConfigError(
                f"{label}: train.stacked {stacked}: seeds are trained at once by one process, not by {config.processes}"
            )
        train = train.changed({"train.stacked": None}, label)
    try:
        passes(train.train.batch_size, train.train.micro_batch_size, config.processes)
    except UserError as error:
        raise ConfigError(f"{label}: {error}") from None
    recipe = train.model_dump(mode="json", exclude={"name": True, "output": True, "tracking": True, "train": {*SEEDS}})
    # After the recipe is taken, which `max_steps`, to try an experiment out, does not change.
    if config.max_steps is not None and train.train.total_steps:
        train = train.changed({"train.max_steps": config.max_steps}, label)
    text = json.dumps(recipe, sort_keys=True)
    return Job(member.name, member.variant, group, folder, train, text, chosen, stacked, unused)


def _evaluation(config: ExperimentConfig, group: Group, member: Member, job: Job, label: str) -> EvalConfig:
    evaluation, _ = resolve(EvalConfig, group.evaluate, group.evaluate_runs.get(member.run, {}), label, label)
    if config.max_examples is not None:
        limit = config.max_examples
        counts = {
            number: getattr(diagnostic, "examples", None) for number, diagnostic in enumerate(evaluation.diagnostics)
        }
        fewer = {f"diagnostics.{number}.examples": min(count or limit, limit) for number, count in counts.items()}
        evaluation = evaluation.changed(fewer, label)
    if evaluation.backend is not None:
        raise ConfigError(
            f"{label}: evaluate.backend does not fit a run that is trained here, which no server has: remove it, and evaluate the run "
            "with `remedy evaluate` once it is served"
        )
    if evaluation.load_in_4bit and isinstance(job.train.model, DecoderSettings):
        raise ConfigError(
            f"{label}: evaluate.load_in_4bit is for pretrained models, and this run's is a decoder: remove it"
        )
    evaluation.refuse_on(config.processes)
    return evaluation
