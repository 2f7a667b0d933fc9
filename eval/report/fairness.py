"""The two sides of a comparison: what was unequal in training and evaluation, and whether they may be compared at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from remedy.eval.report.comparison import Comparison
from remedy.eval.report.planned import Missing, departures, named
from remedy.eval.report.verdicts import Verdict
from remedy.eval.stats import VerdictWord

Request = Mapping[str, Any]
"""The content of an evaluation's request: `checkpoint` and, of runs that were trained here, `training`."""
TOLERANCES = {"tokens": 0.05, "FLOPs": 0.05, "parameters": 0.1, "state": 0.1, "state a token": 0.1}
"""Numbers that differ by less than these shares are called equal: with random lengths no two seeds read the same number of tokens, and
widths matched to a multiple of the heads miss by some parameters. All others are equal or not."""
MOST_CUT = 0.05
"""Where the sides have other limits, no more than this share of either side's examples may be cut by its own."""
LIMITS = ("max_new_tokens", "longest sequence of the server")
LEARNING_RATE = "train.learning_rate"
_OTHERWISE_SAID = {"diagnostics", "set", "split", "trained_on", "batch_size", "precision", "threads"}
"""Settings of an evaluation that are no budgets as they stand: what is asked is a condition's, which comparisons name; batches and
precision count by what they did."""
_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


def judged(
    item: Verdict,
    requests: Sequence[Request],
    missing: Sequence[Missing] = (),
    partial: bool = False,
    plans: Sequence[Mapping[str, Any]] = (),
    others: Sequence[Comparison] = (),
) -> Verdict:
    """A verdict with remarks on its sides, and without a word where they must not be compared. `requests`: of all evaluations, with
    their `reading` where it is known. `partial`: judge runs that are there without others. `plans`, `others`: as of `departures`."""
    before, after = (
        [one for one in requests if one["run"] in runs and (slugs is None or not slugs.isdisjoint(one["conditions"]))]
        for runs, slugs in zip(item.runs, item.conditions or (None, None))
    )
    differing = unequal(before, after)
    remarks = [f"unequal: {'; '.join(differing)}"] if differing else []
    refused = _cut(item, before, after) or _counted_twice(before, after)
    refused = refused or ("" if partial else _incomplete(item, missing))
    if refused:
        item = item._replace(word=item.word and VerdictWord.INCONCLUSIVE, of_runs=VerdictWord.INCONCLUSIVE)
    seeds = {one["run"]: (one.get("training") or {}).get("seed") for one in (*before, *after)}
    departs = departures(plans, item.comparison, seeds, others)
    return item._replace(remarks=(*remarks, *same_weights(before, after)), refused=refused, unplanned=departs)


def unequal(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """Differences between two recipes, each with the requests of its runs, of all that is known of each run: `steps 1,600 against
    800`, of the treatment first; of numbers the means."""
    trained = [any((one.get("training") or {}).get("steps") for one in side) for side in (treatment, baseline)]
    found = []
    if trained[0] != trained[1]:
        found.append(f"only the {'treatment' if trained[0] else 'baseline'} was trained here")
    sides = [[facts(one, all(trained)) for one in side] for side in (treatment, baseline)]
    every = [one for side in sides for one in side]
    for name in every[-1] if all(sides) else ():
        if not all(name in one for one in every):
            continue
        values = [[one[name] for one in side] for side in sides]
        if isinstance(values[0][0], str):
            first, second = (", ".join(sorted(set(side))) for side in values)
            equal = first == second
        else:
            means = [sum(side) / len(side) for side in values]
            equal = math.isclose(*means, rel_tol=TOLERANCES.get(name, 0.0))
            first, second = (f"{one:,.0f}" if one < 1e9 else f"{one:.2g}" for one in means)
        found += [] if equal else [f"{name} {first} against {second}"]
    return found


def facts(request: Request, trained: bool) -> dict[str, Any]:
    """Properties of a run that a comparison should hold equal, as numbers and texts. `trained`: say what its training took."""
    training, about = request.get("training") or {}, request.get("checkpoint", {})
    found: dict[str, Any] = {}
    if trained and training:
        found = {"FLOPs" if key == "flops" else key: training[key] for key in ("steps", "examples", "tokens", "flops")}
        chosen = LEARNING_RATE in training["chosen"]
        found["learning rate"] = "chosen on validation" if chosen else f"{training['learning_rate']:g}"
    numbers = {"parameters": "parameters", "state_floats": "state", "state_by_length": "state a token"}
    found |= {name: about[key] for key, name in numbers.items() if about.get(key) is not None}
    found |= {
        "model": served(request.get("backend")) or "run here",
        "weights": quantised(request).removeprefix("weights ") or "as they are",
    }
    return found | _settings(request)


def _settings(request: Request) -> dict[str, str]:
    """The settings of an evaluation by name, as they are said; batches only where they round otherwise."""
    asked: Mapping[str, object] = request.get("evaluation", {})
    found = {key: value for key, value in asked.items() if key not in _OTHERWISE_SAID}
    read = request.get("reading", {}).get("precision", _PRECISIONS.get(str(asked.get("precision"))))
    batch, backend = asked.get("batch_size"), request.get("backend")
    found |= {"precision": read} if read else {}
    found |= {"batch_size": batch} if batch and not backend and "bfloat16" in str(read) else {}
    found |= {LIMITS[1]: backend["longest"]} if backend else {}
    return {key: f"{value:,}" if isinstance(value, int) else said(value) for key, value in found.items()}


def _cut(item: Verdict, before: Sequence[Request], after: Sequence[Request]) -> str:
    """A reason against comparing sides of other limits; empty where they may be, or have the same."""
    limits = [{tuple(one.get(key, "") for key in LIMITS) for one in map(_settings, side)} for side in (before, after)]
    if limits[0] == limits[1] or max(item.truncated) <= MOST_CUT:
        return ""
    shares = [f"{100 * cut:.0f} % of the {name}'s" for name, cut in zip(("baseline", "treatment"), item.truncated)]
    return f"{' and '.join(shares)} examples are truncated, each side by its own limit: evaluate both with the same"


def _incomplete(item: Verdict, missing: Sequence[Missing]) -> str:
    sides = item.comparison.baseline, item.comparison.treatment
    lacking = [
        str(one)
        for side, slugs in zip(sides, item.conditions or (frozenset[str](),) * 2)
        for one in missing
        if side.run in (one.run, one.variant) and not (one.conditions and slugs.isdisjoint(one.conditions))
    ]
    return f"missing: {named(list(dict.fromkeys(lacking)))} (--partial judges the others)" if lacking else ""


def same_weights(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """A remark on runs of two names that are one model: on both sides, or as several seeds of one."""
    twins = _twins([*baseline, *treatment])
    return [f"the same weights: {named([f'{one} and {other}' for one, other in twins])}"] if twins else []


def _counted_twice(*sides: Sequence[Request]) -> str:
    """A reason against counting trainings that are one as several seeds; empty where none is."""
    for twins in map(_twins, sides):
        if twins:
            return f"{named(sorted({run for pair in twins for run in pair}))} have the same weights, and are no seeds"
    return ""


def _twins(requests: Sequence[Request]) -> list[tuple[str, str]]:
    runs = {request["run"]: request.get("checkpoint", {}).get("weights") for request in requests}
    return [(one, other) for one, other in combinations(runs, 2) if runs[one] and runs[one] == runs[other]]


def as_it_is(request: Request) -> bool:
    """Tell if a run is of somebody's model that was not trained here: no seed could have made it another. A decoder of ours without
    training is its random weights, which are of a seed."""
    training = request.get("training")
    return training is not None and not training["steps"] and not request["checkpoint"]["mixers"]


def said(value: object) -> str:
    """A setting's value as configurations write it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(said, value))
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def served(backend: Mapping[str, Any] | None) -> str:
    """The server that ran the model, and whether what it computed depends on its batch; empty without one."""
    if backend is None:
        return ""
    invariant = {"on": "batch-invariant", "declared": "batch-invariant as declared", "off": "not batch-invariant"}
    words = invariant.get(backend["batch_invariant"], "batch invariance not known")
    return f"served by {backend['server']} {backend['version']}, {words}"


def quantised(request: Request) -> str:
    """The bits of weights where they are fewer; else empty."""
    return f"weights in 4 bits ({request['quantization'].upper()})" if "quantization" in request else ""


def state(about: Mapping[str, Any]) -> str:
    """Numbers that a model carries for one sequence, and those that it keeps for each token: `128`, `256 a token`."""
    fixed, growing = about.get("state_floats"), about.get("state_by_length")
    if fixed is None:
        return ""
    parts = [f"{fixed:,}" if fixed or not growing else "", f"{growing:,} a token" if growing else ""]
    return " + ".join(filter(None, parts))
