"""Fairness of comparisons: unequal budgets, and sides that cannot be compared."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

from remedy.eval.report.comparison import Comparison
from remedy.eval.report.planned import MissingRun, departures, first_names
from remedy.eval.report.verdicts import Verdict
from remedy.eval.stats import VerdictWord
from remedy.eval.tables.sections import joined, text

Request = Mapping[str, Any]
"""An evaluation's request: `checkpoint`, and `training` of runs trained here."""
TOLERANCES = {"tokens": 0.05, "FLOPs": 0.05, "parameters": 0.1, "state": 0.1, "state a token": 0.1}
"""Relative differences of numbers that count as equal: seeds draw random lengths, and widths are multiples of the heads.
Others must be equal."""
MOST_CUT = 0.05
"""The share of a side's examples that may be truncated if the sides' limits differ."""
LIMITS = ("max_new_tokens", "longest sequence of the server")
LEARNING_RATE = "train.learning_rate"
_COMPARED_ELSEWHERE = {"diagnostics", "set", "split", "trained_on", "batch_size", "precision", "threads"}
"""Settings not compared as they stand: conditions have the first four, and the others count by their effect."""
_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


def with_fairness(
    verdict: Verdict,
    requests: Sequence[Request],
    missing: Sequence[MissingRun] = (),
    partial: bool = False,
    plans: Sequence[Mapping[str, Any]] = (),
    others: Sequence[Comparison] = (),
) -> Verdict:
    """Add remarks on a verdict's sides; make it inconclusive if they cannot be compared.

    `partial`: judge without missing runs. `plans`, `others`: as in `departures`.
    """
    before, after = (
        [request for request in requests if request["run"] in runs and not slugs.isdisjoint(request["conditions"])]
        for runs, slugs in zip(verdict.runs, verdict.conditions)
    )
    differing = unequal(before, after)
    remarks = [f"unequal: {'; '.join(differing)}"] if differing else []
    refused = (
        _cut(verdict, before, after)
        or _counted_twice(before, after)
        or ("" if partial else _incomplete(verdict, missing))
    )
    # The word goes, and the numbers stay.
    if refused:
        verdict = verdict._replace(word=verdict.word and VerdictWord.INCONCLUSIVE, of_runs=VerdictWord.INCONCLUSIVE)
    seeds = {request["run"]: (request.get("training") or {}).get("seed") for request in (*before, *after)}
    unplanned = departures(plans, verdict.comparison, seeds, others)
    return verdict._replace(remarks=(*remarks, *same_weights(before, after)), refused=refused, unplanned=unplanned)


def unequal(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """List facts that differ, treatment first: `steps 1,600 against 800`."""
    trained = [any((request.get("training") or {}).get("steps") for request in side) for side in (treatment, baseline)]
    differences = []
    if trained[0] != trained[1]:
        differences.append(f"only the {'treatment' if trained[0] else 'baseline'} was trained here")
    sides = [[facts(request, all(trained)) for request in side] for side in (treatment, baseline)]
    runs = list(chain(*sides))
    for name in [name for name in runs[-1] if all(name in run for run in runs)] if all(sides) else ():
        values = [[run[name] for run in side] for side in sides]
        if isinstance(values[0][0], str):
            first, second = (", ".join(sorted(set(side))) for side in values)
            equal = first == second
        else:
            means = [sum(side) / len(side) for side in values]
            equal = math.isclose(*means, rel_tol=TOLERANCES.get(name, 0.0))
            first, second = (f"{mean:,.0f}" if mean < 1e9 else f"{mean:.2g}" for mean in means)
        differences += [] if equal else [f"{name} {first} against {second}"]
    settings, vocabularies = zip(*map(_tokenizers, (treatment, baseline)))
    if settings[0] == settings[1] and vocabularies[0] != vocabularies[1]:
        differences.append("vocabularies, each trained on its own run's text by the same settings")
    return differences


def _tokenizers(side: Sequence[Request]) -> tuple[set[str], set[str]]:
    """Return the settings and fingerprints of a side's tokenizers."""
    checkpoints = [request.get("checkpoint", {}) for request in side]
    settings = {json.dumps(checkpoint.get("tokenizer"), sort_keys=True) for checkpoint in checkpoints}
    return settings, {checkpoint.get("tokenizer_fingerprint", "") for checkpoint in checkpoints}


def facts(request: Request, trained: bool) -> dict[str, Any]:
    """Collect what should be equal between runs; `trained`: also training budgets."""
    training, checkpoint = request.get("training") or {}, request.get("checkpoint", {})
    properties: dict[str, Any] = {}
    if trained and training:
        properties = {key: training[key] for key in ("steps", "examples", "tokens")} | {"FLOPs": training["flops"]}
        chosen = LEARNING_RATE in training["chosen"]
        properties["learning rate"] = "chosen on validation" if chosen else f"{training['learning_rate']:g}"
    numbers = {"parameters": "parameters", "state_floats": "state", "state_by_length": "state a token"}
    return {
        **properties,
        **{name: checkpoint[key] for key, name in numbers.items() if checkpoint.get(key) is not None},
        "model": server_text(request.get("backend")) or "run here",
        "weights": quantisation_text(request).removeprefix("weights ") or "as they are",
        **_settings(request),
    }


def _settings(request: Request) -> dict[str, str]:
    """Write an evaluation's settings; batches only if they change rounding."""
    evaluation: Mapping[str, object] = request.get("evaluation", {})
    settings = {key: value for key, value in evaluation.items() if key not in _COMPARED_ELSEWHERE}
    precision = request.get("reading", {}).get("precision", _PRECISIONS.get(str(evaluation.get("precision"))))
    batch, backend = evaluation.get("batch_size"), request.get("backend")
    settings |= {"precision": precision} if precision else {}
    settings |= {"batch_size": batch} if batch and not backend and "bfloat16" in str(precision) else {}
    settings |= {LIMITS[1]: backend["longest"]} if backend else {}
    return {key: f"{value:,}" if isinstance(value, int) else text(value) for key, value in settings.items()}


def _cut(verdict: Verdict, before: Sequence[Request], after: Sequence[Request]) -> str:
    """Say why sides with different limits cannot be compared, if so."""
    limits = [{tuple(map(_settings(request).get, LIMITS)) for request in side} for side in (before, after)]
    if limits[0] == limits[1] or max(verdict.truncated) <= MOST_CUT:
        return ""
    shares = [f"{100 * cut:.0f} % of the {name}'s" for name, cut in zip(("baseline", "treatment"), verdict.truncated)]
    return f"{' and '.join(shares)} examples are truncated, each side by its own limit: evaluate both with the same"


def _incomplete(verdict: Verdict, missing: Sequence[MissingRun]) -> str:
    sides = verdict.comparison.baseline, verdict.comparison.treatment
    lacking = [
        str(run)
        for side, slugs in zip(sides, verdict.conditions)
        for run in missing
        if side.run in (run.run, run.variant) and not (run.conditions and slugs.isdisjoint(run.conditions))
    ]
    return f"missing: {first_names(list(dict.fromkeys(lacking)))} (--partial judges the others)" if lacking else ""


def same_weights(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    twins = _twins([*baseline, *treatment])
    return [f"the same weights: {first_names([f'{first} and {second}' for first, second in twins])}"] if twins else []


def _counted_twice(*sides: Sequence[Request]) -> str:
    """Say which seeds of a side are one training, if so."""
    twins = next(filter(None, map(_twins, sides)), [])
    names = first_names(sorted({run for pair in twins for run in pair}))
    return f"{names} have the same weights, and are no seeds" if twins else ""


def _twins(requests: Sequence[Request]) -> list[tuple[str, str]]:
    runs = {request["run"]: request.get("checkpoint", {}).get("weights") for request in requests}
    return [(first, second) for first, second in combinations(runs, 2) if runs[first] and runs[first] == runs[second]]


def has_no_seed(request: Request) -> bool:
    """Say if a run's model has no seed: untrained, and no decoder of this package."""
    training = request.get("training")
    return training is not None and not training["steps"] and not request["checkpoint"]["mixers"]


def server_text(backend: Mapping[str, Any] | None) -> str:
    if backend is None:
        return ""
    invariant = {"on": "batch-invariant", "declared": "batch-invariant as declared", "off": "not batch-invariant"}
    invariance = invariant.get(backend["batch_invariant"], "batch invariance not known")
    return f"served by {backend['server']} {backend['version']}, {invariance}"


def quantisation_text(request: Request) -> str:
    return f"weights in 4 bits ({request['quantization'].upper()})" if "quantization" in request else ""


def state_size(checkpoint: Mapping[str, Any]) -> str:
    """Write the size of a recurrent state or cache: `128`, `256 a token`."""
    fixed, growing = checkpoint.get("state_floats"), checkpoint.get("state_by_length")
    if fixed is None:
        return ""
    return joined(" + ", f"{fixed:,}" if fixed or not growing else "", f"{growing:,} a token" if growing else "")
