"""Runs of which nothing is left to do: their records are whole, and the ones that are asked for."""

from __future__ import annotations

from pathlib import Path

from remedy.checksums import digest_of
from remedy.eval.records.folder import GENERATIONS, READING, SUMMARY
from remedy.eval.records.generations import read_generations
from remedy.eval.report.reading import Evaluations, read_evaluations
from remedy.launch.experiment import Job
from remedy.launch.job import TRAINED
from remedy.models.model_manifest import check_model, recorded_weights, weights_are_gone
from remedy.models.tokenizer import FILE as TOKENIZER
from remedy.settings import UserError


def is_done(job: Job) -> bool:
    """Say if a run is trained and its evaluation, checked as it is read, is of its weights; of adapters and tracked runs its own
    process finds that out. Where the weights were deleted the records alone are asked.

    Raises:
        UserError: the weights are gone, and without them the evaluation cannot be finished, mended or made as it is asked for.
    """
    model, folder = Path(job.train.output), job.folder / "evaluation"
    if not (job.folder / TRAINED).exists():
        return False
    if weights_are_gone(model):
        cure = f"the weights are gone: put them back, or delete {job.folder} to train again"
        try:
            found = read_evaluations([folder])
        except UserError as error:
            raise UserError(f"{error} ({cure})") from None
        if found.missing or not _is_asked(job, found):
            raise UserError(
                f"{folder}: {'is not finished' if found.missing else 'holds another evaluation'}, and {cure}"
            )
        return True
    weights = recorded_weights(model)
    if job.train.tracking.wandb or not weights or not all((folder / n).exists() for n in (SUMMARY, READING, TOKENIZER)):
        return False
    try:
        check_model(model)
        found = read_evaluations([folder])
        request = found.requests[0]
        for name in request["conditions"]:
            read_generations(folder / GENERATIONS / f"{name}.parquet", digest_of(request))
    except UserError:
        return False
    return _is_asked(job, found) and request.get("checkpoint", {}).get("weights") == weights


def _is_asked(job: Job, found: Evaluations) -> bool:
    """Say if an evaluation is the job's."""
    request = found.requests[0]
    variant = job.variant if job.variant != job.name else ""
    asked = {"run": job.name, "variant": variant, "evaluation": job.evaluate.asked}
    chosen = (request.get("training") or {"chosen": job.chosen})["chosen"]
    in_4bit = job.evaluate.load_in_4bit in (None, "quantization" in request)
    return all(request.get(key) == value for key, value in asked.items()) and chosen == job.chosen and in_4bit
