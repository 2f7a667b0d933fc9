"""The two sides of a comparison: what was unequal in training and evaluation, and whether they may be compared at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from remedy.eval.report.planned import Missing, named
from remedy.eval.report.verdicts import Verdict
from remedy.eval.stats import VerdictWord

Request = Mapping[str, Any]
"""The content of an evaluation's request: `checkpoint` and, of runs that were trained here, `training`."""
BUDGETS = {"steps": (0.0, ",.0f"), "examples": (0.0, ",.0f"), "tokens": (0.05, ".2g"), "flops": (0.05, ".2g")}
"""Budgets of training, with the share by which equal ones may differ (with random lengths no two seeds read the same number), and how
they are written."""
SIZE_TOLERANCE = 0.1
"""Parameters and states that differ by less than this share are called equal: widths matched to a multiple of the heads miss by as
much. Of equal width, mixers differ by up to 60 %."""
MOST_CUT = 0.05
"""Where the sides have other limits, no more than this share of either side's examples may be cut by its own."""
LIMITS = ("max_new_tokens", "longest sequence of the server")
LEARNING_RATE = "train.learning_rate"
_OTHERWISE_SAID = {"diagnostics", "set", "split", "trained_on", "batch_size", "precision", "threads"}
"""Settings of an evaluation that are no budgets as they stand: what is asked is a condition's, which comparisons name; batches and
precision count by what they did."""
_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


def judged(
    item: Verdict, requests: Sequence[Request], missing: Sequence[Missing] = (), partial: bool = False
) -> Verdict:
    """A verdict with remarks on its sides, and without a word where they must not be compared. `requests`: of all evaluations, with
    their `reading` where it is known. `partial`: judge runs that are there without others."""
    before, after = (
        [one for one in requests if one["run"] in runs and (slugs is None or not slugs.isdisjoint(one["conditions"]))]
        for runs, slugs in zip(item.runs, item.conditions or (None, None))
    )
    differing = unequal(before, after) + unequal_evaluations(before, after)
    remarks = [f"unequal: {'; '.join(differing)}"] if differing else []
    refused = _cut(item, before, after) or _counted_twice(before, after)
    refused = refused or ("" if partial else _incomplete(item, missing))
    if refused:
        item = item._replace(word=item.word and VerdictWord.INCONCLUSIVE, of_runs=VerdictWord.INCONCLUSIVE)
    return item._replace(remarks=(*remarks, *same_weights(before, after)), refused=refused)


def unequal(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """The budgets of two recipes, each with the requests of its runs, that were unequal: `steps 1,600 against 800`, of the treatment
    first. Empty where they were equal, or of neither side anything is known."""
    sides = treatment, baseline
    return [
        *_unequal_training([[one.get("training") for one in side] for side in sides]),
        *_unequal_sizes([[one["checkpoint"] for one in side if one.get("checkpoint")] for side in sides]),
        *_apart("", [[served(one.get("backend")) or "no server" for one in side] for side in sides]),
        *_apart("", [[quantised(one) or "weights as they are" for one in side] for side in sides]),
    ]


def _unequal_training(sides: Sequence[Sequence[Request | None]]) -> list[str]:
    learnt = [any(one and one["steps"] for one in side) for side in sides]
    if learnt[0] != learnt[1]:
        return [f"only the {'treatment' if learnt[0] else 'baseline'} was trained here"]
    known = [[one for one in side if one] for side in sides]
    if not all(learnt) or [*map(len, known)] != [*map(len, sides)]:
        return []
    found = [
        said
        for key, (tolerance, form) in BUDGETS.items()
        for said in _numbers(known, key, key.replace("flops", "FLOPs"), tolerance, form)
    ]
    # Learning rates are equal if both were chosen on validation, or neither and they are the same.
    chosen = [any(LEARNING_RATE in one["chosen"] for one in side) for side in known]
    if chosen[0] != chosen[1]:
        found.append(f"learning rate chosen on validation for the {'treatment' if chosen[0] else 'baseline'} alone")
    elif not any(chosen):
        rates = _apart("learning rate", [[f"{one['learning_rate']:g}" for one in side] for side in known])
        found += [f"{one}, neither chosen on validation here" for one in rates]
    return found


def _unequal_sizes(sides: Sequence[Sequence[Request]]) -> list[str]:
    """Parameters, and what is carried from token to token: of a fixed size, or growing with the text."""
    if not all(sides):
        return []
    found = _numbers(sides, "parameters", "parameters", SIZE_TOLERANCE, ",.0f")
    sizes = [(side[0].get("state_floats") or 0, side[0].get("state_by_length") or 0) for side in sides]
    states = [state(side[0]) for side in sides]
    if all(states) and not all(math.isclose(*pair, rel_tol=SIZE_TOLERANCE) for pair in zip(*sizes)):
        found.append(f"state {states[0]} against {states[1]}")
    return found


def _numbers(sides: Sequence[Sequence[Request]], key: str, name: str, tolerance: float, form: str) -> list[str]:
    """Name the means of two sides, the treatment first, where they differ by more than a share."""
    first, second = (sum(one[key] for one in side) / len(side) for side in sides)
    return [] if math.isclose(first, second, rel_tol=tolerance) else [f"{name} {first:{form}} against {second:{form}}"]


def _apart(name: str, sides: Sequence[Sequence[str]]) -> list[str]:
    """Name what two sides, the treatment first, have of one kind, where that differs."""
    first, second = (", ".join(sorted(set(side))) for side in sides)
    return [f"{name} {first} against {second}".strip()] if first != second else []


def unequal_evaluations(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """The settings of two sides' evaluations that differ, of what is known of all their runs: `max_new_tokens 4,096 against 4`."""
    sides = [[_settings(request) for request in side] for side in (treatment, baseline)]
    if not all(sides):
        return []
    known = [key for key in sides[1][0] if all(key in one for side in sides for one in side)]
    if not any("bfloat16" in one.get("precision", "") for side in sides for one in side):
        known = [key for key in known if key != "batch_size"]  # it rounds nothing
    return [said for key in known for said in _apart(key, [[one[key] for one in side] for side in sides])]


def _settings(request: Request) -> dict[str, str]:
    """The settings of an evaluation by name, as they are said."""
    asked: Mapping[str, object] = request.get("evaluation", {})
    found = {key: value for key, value in asked.items() if key not in _OTHERWISE_SAID}
    read = request.get("reading", {}).get("precision", _PRECISIONS.get(str(asked.get("precision"))))
    batch, backend = asked.get("batch_size"), request.get("backend")
    found |= {"precision": read} if read else {}
    found |= {"batch_size": batch} if batch and not backend else {}
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
    """The runs that a side lacks; empty where all are there."""
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
    """Pairs of runs that have the same weights."""
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
