"""What may be compared: whether the sides of a comparison were evaluated alike, are different models, and are all there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from remedy.eval.report.budgets import Request, said, unequal
from remedy.eval.report.planned import Missing
from remedy.eval.report.reading import named
from remedy.eval.report.verdicts import Side, Verdict
from remedy.eval.stats import VerdictWord

MOST_CUT = 0.05
"""Where the sides have other limits, no more than this share of either side's examples may be cut by its own."""
LIMITS = ("max_new_tokens", "longest sequence of the server")
_OTHERWISE_SAID = {"diagnostics", "set", "split", "trained_on", "batch_size", "precision", "threads"}
"""Settings of an evaluation that are no budgets as they stand: what is asked is a condition's, which comparisons name; batches and
precision count by what they did."""
_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


def judged(
    item: Verdict,
    requests: Sequence[Request],
    variants: Mapping[str, str],
    missing: Sequence[Missing] = (),
    partial: bool = False,
) -> Verdict:
    """A verdict with what is to be said of its sides, and without a word where they must not be compared. `requests`: of all
    evaluations, with their `reading` where it is known. `variants`: each run's. `partial`: judge runs that are there without others."""
    before, after = (
        [
            request
            for request in requests
            if _is_of(side, request["run"], variants[request["run"]]) and not slugs.isdisjoint(request["conditions"])
        ]
        for side, slugs in zip(_sides(item), item.conditions)
    )
    differing = unequal(before, after) + unequal_evaluations(before, after)
    remarks = [f"unequal: {'; '.join(differing)}"] if differing else []
    refused = (
        _cut(item, before, after) or _counted_twice(before, after) or ("" if partial else _incomplete(item, missing))
    )
    if refused:
        item = item._replace(word=item.word and VerdictWord.INCONCLUSIVE, of_runs=VerdictWord.INCONCLUSIVE)
    return item._replace(remarks=(*remarks, *same_weights(before, after)), refused=refused)


def unequal_evaluations(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """In what two sides were evaluated unlike, of what is known of all their runs: `max_new_tokens 4,096 against 4`."""
    before, after = ([_settings(request) for request in side] for side in (baseline, treatment))
    if not before or not after:
        return []
    known = [key for key in before[0] if all(key in one for one in (*before, *after))]
    sides = {key: [", ".join(sorted({one[key] for one in side})) for side in (after, before)] for key in known}
    rounded = "bfloat16" in " ".join(sides.get("precision", []))
    return [
        f"{key} {first} against {second}"
        for key, (first, second) in sides.items()
        if first != second and (key != "batch_size" or rounded)
    ]


def same_weights(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """A remark on runs of two names that are one model: on both sides, or as several seeds of one."""
    runs = {request["run"]: request.get("checkpoint", {}).get("weights") for request in (*baseline, *treatment)}
    pairs = [f"{one} and {other}" for one, other in combinations(runs, 2) if runs[one] and runs[one] == runs[other]]
    return [f"the same weights: {named(pairs)}"] if pairs else []


def _counted_twice(*sides: Sequence[Request]) -> str:
    """Why trainings that are one must not be counted as several seeds; empty where none is."""
    for side in sides:
        runs = {request["run"]: request.get("checkpoint", {}).get("weights") for request in side}
        twice = [run for run in runs if runs[run] and list(runs.values()).count(runs[run]) > 1]
        if twice:
            return f"{named(twice)} have the same weights, and are no seeds"
    return ""


def _settings(request: Request) -> dict[str, str]:
    """What an evaluation was done with, by name, as it is said."""
    asked: Mapping[str, object] = request.get("evaluation", {})
    found = {key: value for key, value in asked.items() if key not in _OTHERWISE_SAID}
    read = request.get("reading", {}).get("precision", _PRECISIONS.get(str(asked.get("precision"))))
    batch, backend = asked.get("batch_size"), request.get("backend")
    found |= {"precision": read} if read else {}
    found |= {"batch_size": batch} if batch and not backend else {}
    found |= {LIMITS[1]: backend["longest"]} if backend else {}
    return {key: f"{value:,}" if isinstance(value, int) else said(value) for key, value in found.items()}


def _cut(item: Verdict, before: Sequence[Request], after: Sequence[Request]) -> str:
    """Why sides of other limits must not be compared; empty where they may be, or have the same."""
    limits = [
        {tuple(settings.get(key, "") for key in LIMITS) for settings in map(_settings, side)}
        for side in (before, after)
    ]
    if limits[0] == limits[1] or max(item.truncated) <= MOST_CUT:
        return ""
    shares = " and ".join(
        f"{100 * share:.0f} % of the {name}'s" for name, share in zip(("baseline", "treatment"), item.truncated)
    )
    return f"{shares} examples are truncated, each side by its own limit: evaluate both with the same"


def _incomplete(item: Verdict, missing: Sequence[Missing]) -> str:
    """Which runs a side lacks; empty where all are there."""
    lacking = [
        str(one)
        for side, slugs in zip(_sides(item), item.conditions)
        for one in missing
        if _is_of(side, one.run, one.variant) and not (one.conditions and slugs.isdisjoint(one.conditions))
    ]
    return f"missing: {named(list(dict.fromkeys(lacking)))} (--partial judges the others)" if lacking else ""


def _sides(item: Verdict) -> tuple[Side, Side]:
    return item.comparison.baseline, item.comparison.treatment


def _is_of(side: Side, run: str, variant: str) -> bool:
    return side.run in (run, variant)
