"""Runs of which nothing is left to do, found without a process that imports PyTorch."""

from __future__ import annotations

from pathlib import Path

from remedy.checksums import digest_of
from remedy.eval.records.folder import GENERATIONS, READING, REQUEST, SUMMARY
from remedy.eval.records.generations import read_generations
from remedy.eval.records.summary import MAYBE, ConditionSummary
from remedy.eval.report.reading import Evaluations, read_evaluations
from remedy.launch.experiment import Job
from remedy.launch.job import TRAINED
from remedy.models.model_manifest import check_model, recorded_weights, weights_are_gone
from remedy.models.tokenizer import FILE as TOKENIZER
from remedy.settings import UserError


def is_done(job: Job) -> bool:
    """Whether a run is trained, and its evaluation, checked as it is read, is the one that is asked for, of the weights that are
    there or of some that were not kept. False of adapters and of tracked runs: the run's own process finds what is left to do.

    Raises:
        UserError: the weights are gone, and without them the evaluation cannot be finished, mended or made as it is asked for.
    """
    if not (job.folder / TRAINED).exists():
        return False
    if weights_are_gone(Path(job.train.output)):
        return _only_records(job)
    return not job.train.tracking.wandb and _of_these_weights(job)


def _of_these_weights(job: Job) -> bool:
    """Whether nothing is left to do where the weights are. What is wrong is named, and mended, by the run's own process."""
    model, folder = Path(job.train.output), job.folder / "evaluation"
    weights = recorded_weights(model)
    if not weights or not all((folder / name).exists() for name in (SUMMARY, READING, TOKENIZER)):
        return False
    try:
        check_model(model)
        found = read_evaluations([folder])
        request = found.requests[0]
        for slug in request["conditions"]:
            read_generations(folder / GENERATIONS / f"{slug}.parquet", digest_of(request))
    except UserError:
        return False
    as_today = all(set(condition) | {MAYBE} == set(ConditionSummary.__annotations__) for condition in found.conditions)
    return as_today and not _differing(job, found) and request.get("checkpoint", {}).get("weights") == weights


def _only_records(job: Job) -> bool:
    folder, cure = job.folder / "evaluation", f"put the weights back, or delete {job.folder} to train again"
    if not (folder / REQUEST).exists():
        raise UserError(f"{job.train.output}: the weights are gone, and nothing is evaluated: {cure}")
    try:
        found = read_evaluations([folder])
    except UserError as error:
        raise UserError(f"{error} (but the weights are gone: {cure})") from None
    if found.missing:
        raise UserError(f"{folder}: is not finished, and the weights are gone: {cure}")
    if differing := _differing(job, found):
        raise UserError(
            f"{folder}: holds another evaluation ({', '.join(differing)}), and the weights are gone: {cure}"
        )
    return True


def _differing(job: Job, found: Evaluations) -> list[str]:
    """In what an evaluation is not the job's."""
    request = found.requests[0]
    wanted = {
        "run": job.name,
        "variant": job.variant if job.variant != job.name else "",
        "evaluation": job.evaluate.asked,
    }
    differing = [key for key, value in wanted.items() if request.get(key) != value]
    if (training := request.get("training")) and training["chosen"] != job.chosen:
        differing.append("training.chosen")
    if job.evaluate.load_in_4bit is not None and job.evaluate.load_in_4bit != ("quantization" in request):
        differing.append("quantization")
    return differing
