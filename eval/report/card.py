"""The results of one model for its card: rates with intervals, verdicts between its own conditions, and what was not evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import EvalResult

from remedy.checksums import digest_of
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.folder import SUMMARY, read_request
from remedy.eval.records.remarks import of_condition
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.defaults import default_comparisons, diagnoses
from remedy.eval.report.fairness import judged
from remedy.eval.report.reading import Evaluations, find, read_evaluations
from remedy.eval.report.runs import losses
from remedy.eval.report.verdicts import decide
from remedy.eval.report.wording import headline
from remedy.eval.stats import Estimate
from remedy.eval.tables.sections import constant, interval, named, places, varying
from remedy.messages import one_line
from remedy.models.card import cell
from remedy.settings import UserError

OF = {"states": "right states, given the true past", "actions": "right actions", "returns": "right values"}
"""What is measured where answers are fed, so that they are not the model's."""


class Results(NamedTuple):
    """Evaluations as a card says them: as the hub's metadata, and as Markdown."""

    metadata: list[EvalResult]
    text: str


def results_of(directories: Sequence[Path], weights: str) -> Results:
    """The results in folders of evaluations. `weights`: the digest of the model's whose card it is.

    Raises:
        UserError: an evaluation is of another model or not finished, a folder holds none, or a file is damaged.
    """
    folders = find(directories).evaluations
    if not folders:
        raise UserError(f"--results {directories[0]}: holds no evaluation; `remedy evaluate` writes them")
    for folder in folders:
        request = read_request(folder)
        run, its = one_line(request["run"], 100), request["checkpoint"]["weights"]
        if its != weights:
            raise UserError(
                f"--results {folder}: is of another model ({run}, weights {its}, not {weights}): evaluate the one that is pushed"
            )
        if not (folder / SUMMARY).exists():
            raise UserError(f"--results {folder}: is not finished: give `remedy evaluate` again, which goes on")
    found = read_evaluations(folders)
    said, names = constant(found.conditions), varying(found.conditions)
    head = ["Condition", "Rate of", "Programs", "Rate", "95 % interval", "Remarks"]
    rows, metadata = [head, ["---"] * len(head)], []
    for one in found.conditions:
        about = ", ".join(filter(None, [one["diagnostic"], named(one["labels"], names)]))
        for what, rate in _rates(one).items():
            ends = rate.low, rate.high
            shown = f"{100 * rate.mean:.{places(*ends)}f} %", interval(*ends), "; ".join(of_condition(one))
            rows.append([about, what, f"{one['programs']:,}", *shown])
            metadata.append(_for_the_hub(one, what, rate))
    mine = {one["diagnostic"] for one in found.conditions}
    others = [kind.title.lower() for name, kind in DIAGNOSTICS.items() if name not in mine]
    parts = [
        "\n".join(f"| {' | '.join(map(cell, row))} |" for row in rows),
        cell(said),
        *_verdicts(found),
        f"Not evaluated: {'; '.join([*others, 'whatever the table does not name'])}.",
        f"Digests of the evaluations: {', '.join(digest_of(read_request(folder))[:16] for folder in folders)}.",
    ]
    return Results(metadata, "\n\n".join(filter(None, parts)))


def _rates(condition: ConditionSummary) -> dict[str, Estimate]:
    if condition["right"] is not None:
        return {"right answers": condition["right"]}
    return {OF[of]: rate for of, rate in condition["per_frame"].items()}


def _verdicts(found: Evaluations) -> list[str]:
    """A paragraph and a list of the sentences, if there are any. Of other models nothing is said: their evaluations are not here."""
    asked = [*default_comparisons(found.conditions), *diagnoses(found.conditions)]
    within = [one for one in asked if one.baseline.run == one.treatment.run]
    decided = [judged(one, found.requests) for one in decide(within, found.records, losses=losses(found.requests))]
    said = [f"- {str(one.word or 'diagnosis').capitalize()}. {cell(headline([one])[1])}" for one in decided]
    return (
        ["Comparisons of this one model's conditions, which say nothing of other seeds:", "\n".join(said)]
        if said
        else []
    )


def _for_the_hub(one: ConditionSummary, what: str, rate: Estimate) -> EvalResult:
    ends = f"95 % interval {rate.low:.4f} to {rate.high:.4f}"
    return EvalResult(
        task_type="text-generation",
        task_name="prediction of program traces",
        dataset_type=f"cwm-remedy-{one['diagnostic']}",
        dataset_name=one_line(f"{one['diagnostic']}, {named(one['labels'], one['labels'])}"),
        dataset_config=one_line(one["condition"]),
        metric_type="accuracy",
        metric_name=f"{what} ({ends}, {one['programs']} programs)",
        metric_value=round(rate.mean, 4),
    )
