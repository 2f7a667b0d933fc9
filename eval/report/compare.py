"""Verdicts on results of other harnesses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.logs import LogOptions, log_files, read_logs
from remedy.eval.report.render import Report
from remedy.eval.report.verdicts import compute_verdicts
from remedy.eval.stats import BAR, MARGIN
from remedy.messages import cut
from remedy.settings import UserError

NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("split", "condition", "forcing", "diagnostic", "true_answer"), ""),
    **dict.fromkeys(("chance", "start_right"), math.nan),
    **dict.fromkeys(TRACE_COLUMNS, 0),
    **dict.fromkeys(("index", "written_tokens"), 0),
    "truncated": False,
}
"""Columns of records that logs do not have."""


def compare_logs(
    baseline: Path, treatment: Path, options: LogOptions | None = None, margin: float = MARGIN, solved_at: float = BAR
) -> Report:
    """Compare two logs, or two folders of logs, task by task.

    Several logs of a task are seeds. Examples are paired by name, and by content if logs have digests of it. All tasks
    share one level (Holm).

    Raises:
        UserError: as `read_logs`; or the sides share a log, or no task, or no example of a task.
    """
    if on_both := {log.resolve() for log in log_files(baseline)} & {log.resolve() for log in log_files(treatment)}:
        raise UserError(f"{min(on_both)}: is on both sides: give logs of two models")
    names = side_names(baseline, treatment)
    paths = {"baseline": baseline, "treatment": treatment}
    sides = [read_logs(path, options or LogOptions()).assign(variant=side) for side, path in paths.items()]
    tasks_of = [list(side["task"].unique()) for side in sides]
    tasks = [task for task in tasks_of[0] if task in tasks_of[1]]
    if not tasks:
        before, after = (", ".join(map(repr, own_tasks)) for own_tasks in tasks_of)
        raise UserError(f"{treatment}: has results of {after}, and {baseline} of {before}: the sides share no task")
    remarks = []
    for path, side, own_tasks in zip(paths.values(), sides, tasks_of):
        remarks += [f"{task} is in {path} alone: left out." for task in own_tasks if task not in tasks]
        if len(unscored := side.loc[side["right"].isna(), "example"]):
            remarks.append(
                f"{path}: {len(unscored)} of {len(side)} examples have no score, the first of them {unscored.iloc[0]!r}."
            )
    records = pd.concat(sides, ignore_index=True)
    records["run"] = (records["variant"] + " " + records["file"] + " " + records["seed"]).str.strip()
    comparisons = []
    for task in tasks:
        name = task if len(tasks) > 1 else f"{names[1]} in place of {names[0]}{f' on {task}' if task else ''}"
        runs = {side: Side(run=side, where={"task": task}) for side in paths}
        comparison = Comparison.model_validate({"mitigation": name, **runs, "margin": margin, "solved_at": solved_at})
        comparisons.append(comparison)
        of_task, where = records[records["task"] == task], comparison.where
        lines = *_unpaired(of_task, where), *list(_alike(of_task, where, len(tasks) == 1))[:1], *_unlike(of_task)
        remarks += [f"{name}: {line}" for line in lines]
    named = {"baseline": Side(run=names[0]), "treatment": Side(run=names[1])}
    scored = records.dropna(subset="right").astype({"right": bool})
    failure = scored["right"].map({True: "", False: "wrong"})
    decided = compute_verdicts(comparisons, scored.assign(**NEUTRAL, failure=failure))
    verdicts = [verdict._replace(comparison=verdict.comparison.model_copy(update=named)) for verdict in decided]
    return Report(verdicts, remarks, [], pd.DataFrame(), [])


def _unpaired(records: pd.DataFrame, where: str) -> Iterator[str]:
    """Yield a line if a log lacks examples; refuse sides that cannot be paired."""
    if records["metric"].nunique() > 1:
        scored = " and ".join(map(repr, records["metric"].unique()))
        raise UserError(f"{where}: the sides are scored by {scored}: name one by --metric")
    examples = records.groupby("example")
    logs, clusters = examples["right"].count(), examples["cluster"].nunique()
    if (clusters > 1).any():
        raise UserError(
            f"{where}: example {clusters.idxmax()!r} is in several clusters: name a field (--cluster) that all logs give alike"
        )
    left_out = int((logs < records["run"].nunique()).sum())
    if left_out == len(logs):
        names = " and ".join(map(repr, records.groupby("run")["example"].first().unique()[:2]))
        raise UserError(f"{where}: the logs share no example: they have other names for them, such as {names}")
    if left_out:
        yield f"{left_out} of {len(logs)} examples are not scored in every log: left out."


def _alike(records: pd.DataFrame, where: str, only_task: bool) -> Iterator[str]:
    """Yield a line for every two logs that nearly agree; refuse proven copies."""
    scored = records.dropna(subset="right").assign(outcome=records["answer"] + records["right"].map(str))
    logs = scored.pivot(index="example", columns=["variant", "file", "run"], values="outcome")
    for first, second in combinations(logs, 2):
        both = logs[[first, second]].dropna()
        if both.empty:
            continue
        equal, is_wrong = both[first] == both[second], both.apply(lambda outcomes: outcomes.str.endswith("False"))
        # Trainings may agree by chance, or by solving everything, but not in ten different wrong answers, word for word.
        # Scores alone prove it with 30 right and 30 wrong in the same places: trainings that agree on nine examples of ten
        # would agree on 60 in one case of 500.
        wrong = both[first][equal & is_wrong[first]]
        many_wrong = wrong.nunique() >= 10
        if not equal.all() and (not many_wrong or len(wrong) < 0.9 * is_wrong.any(axis=1).sum()):
            continue
        count = f"all {len(both)}" if equal.all() else f"{equal.sum()} of {len(both)}"
        pair = f"{first[2]} and {second[2]} agree on {count} examples that they share"
        proven = equal.all() and (many_wrong or 30 <= len(wrong) <= len(both) - 30)
        # In one table, `seed` says that they are trainings.
        if proven and first[0] == second[0] and first[1] != second[1]:
            raise UserError(f"{where}: {pair}: they are one log, and no two seeds: give one of them")
        # In one task of several, a treatment may change nothing.
        if proven and first[0] != second[0] and only_task:
            raise UserError(f"{where}: {pair}: both sides are identical: give logs of two models")
        yield f"{pair}, and may be one log."


def _unlike(records: pd.DataFrame) -> Iterator[str]:
    """Yield a line for every setting in which logs differ, and one for prompts."""
    logs = records.drop_duplicates("run").set_index("run")["settings"]
    logs = logs[logs.map(bool)]
    by_key = {
        key: logs.map(lambda settings, key=key: settings.get(key, "not set")) for key in chain.from_iterable(logs)
    }
    prompted = records[records["prompt"] != ""].set_index("run")
    prompts = prompted.groupby("example")["prompt"].nunique()
    if len(differing := prompts.index[prompts > 1]):
        key = f"the prompt differs on {len(differing)} of {len(prompts)} examples: that of {differing[0]!r}"
        by_key[key] = prompted.loc[prompted["example"] == differing[0], "prompt"]
    for key, values in by_key.items():
        distinct = values.drop_duplicates().map(cut)
        if len(distinct) > 1:
            yield f"{key} is {distinct.iloc[0]} in {distinct.index[0]}, and {distinct.iloc[1]} in {distinct.index[1]}."


def side_names(first: Path, second: Path) -> tuple[str, str]:
    """Name two sides by the lowest parts of their paths that differ."""
    for before, after in zip((first, *first.parents), (second, *second.parents)):
        if before.stem and after.stem and before.stem != after.stem:
            return before.stem, after.stem
    return str(first), str(second)
