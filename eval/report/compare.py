"""Verdicts on results of other harnesses: two sides' logs, paired by example, one comparison a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.harness_logs import Log, Reading, read_logs
from remedy.eval.report.render import Report
from remedy.eval.report.verdicts import Verdict, worded
from remedy.eval.stats import BAR, MARGIN, compare, over_seeds, weigh
from remedy.settings import UserError


def compare_logs(
    baseline: Path,
    treatment: Path,
    how: Reading | None = None,
    margin: float = MARGIN,
    solved_at: float = BAR,
) -> Report:
    """Compare two logs, or two folders of logs, task by task. Several logs of a task are trainings with several seeds.

    Examples are paired by name (and content, where a log has its digest); those that a run lacks are left out and counted. All tasks
    share the level of one comparison (Holm).

    Raises:
        UserError: as `read_logs`; the sides share no task, or no example of one.
    """
    sides = [read_logs(path, how or Reading()) for path in (baseline, treatment)]
    tasks = [task for task in sides[0] if task in sides[1]]
    if not tasks:
        names = [", ".join(map(repr, side)) for side in sides]
        raise UserError(
            f"{treatment}: has results of {names[1]}, and {baseline} of {names[0]}: the sides share no task"
        )
    remarks = [
        f"{task} is in {path} alone: left out."
        for path, side in zip((baseline, treatment), sides)
        for task in side
        if task not in tasks
    ]
    found = []
    named = side_names(baseline, treatment)
    for task in tasks:
        about = Comparison(
            mitigation=task if len(tasks) > 1 else f"{named[1]} in place of {named[0]} on {task}",
            baseline=Side(run=named[0]),
            treatment=Side(run=named[1]),
            margin=margin,
            solved_at=solved_at,
        )
        verdict, remark = _verdict(about, sides[0][task], sides[1][task], solved_at)
        found.append(verdict)
        remarks += remark
    return Report(worded(found), remarks, [], pd.DataFrame(), [])


def side_names(first: Path, second: Path) -> tuple[str, str]:
    """Names of two sides: of their files or folders, or of the folders above where these are equal."""
    while first.stem == second.stem and first.parent.name and second.parent.name:
        first, second = first.parent, second.parent
    return first.stem, second.stem


def _verdict(
    about: Comparison, before: Sequence[Log], after: Sequence[Log], solved_at: float
) -> tuple[Verdict, list[str]]:
    """One task's comparison before its word, and what was left out of it."""
    logs = [*before, *after]
    if len({log.metric for log in logs}) > 1:
        raise UserError(
            f"{about.where}: {before[0].path} is scored by {before[0].metric}, {after[0].path} by {after[0].metric}"
        )
    shared = [name for name in before[0].outcomes if all(name in log.outcomes for log in logs)]
    if not shared:
        raise UserError(f"{about.where}: {before[0].path} and {after[0].path} share no example")
    left_out = len({name for log in logs for name in log.outcomes}) - len(shared)
    clusters = [before[0].outcomes[name][0] for name in shared]
    outcomes = [
        np.array([[log.outcomes[name][1] for name in shared] for log in side], dtype=float) for side in (before, after)
    ]
    found = compare(outcomes[0], outcomes[1], clusters)
    baseline, treatment = (over_seeds(side, clusters, solved_at) for side in outcomes)
    evidence = weigh(found, baseline, treatment)
    verdict = Verdict(about, found, baseline, treatment, evidence, programs=len(shared))
    note = f"{about.mitigation}: {left_out} of {left_out + len(shared)} examples are not in every log: left out."
    return verdict, [note] if left_out else []
