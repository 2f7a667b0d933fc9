"""Runs of which only what was measured is kept: their weights are gone, and nothing of them is left to do."""

from __future__ import annotations

from pathlib import Path

from remedy.data_gen.settings import UserError
from remedy.eval.folder import REQUEST
from remedy.eval.report.reading import read_evaluations
from remedy.launch.experiment import Job
from remedy.launch.job import TRAINED
from remedy.models.finished import weights_are_gone


def only_records(job: Job) -> bool:
    """Whether a trained run's weights are gone and its evaluation, checked to the last byte, is the one that is asked for.

    Raises:
        UserError: the weights are gone, and without them the evaluation cannot be finished, mended or made as it is asked for.
    """
    if not (job.folder / TRAINED).exists() or not weights_are_gone(Path(job.train.output)):
        return False
    folder, cure = job.folder / "evaluation", f"put the weights back, or delete {job.folder} to train again"
    if not (folder / REQUEST).exists():
        raise UserError(f"{job.train.output}: the weights are gone, and nothing is evaluated: {cure}")
    try:
        found = read_evaluations([folder])
    except UserError as error:
        raise UserError(f"{error} (but the weights are gone: {cure})") from None
    request = found.requests[0]
    if found.missing:
        raise UserError(f"{folder}: is not finished, and the weights are gone: {cure}")
    wanted = {
        "run": job.name,
        "variant": job.variant if job.variant != job.name else "",
        "evaluation": job.evaluate.asked,
    }
    if differing := [key for key, value in wanted.items() if request[key] != value]:
        raise UserError(
            f"{folder}: holds another evaluation ({', '.join(differing)}), and the weights are gone: {cure}"
        )
    return True
