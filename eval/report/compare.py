"""Verdicts on results by example that other harnesses wrote.

Two sides' logs are paired by example, and make one comparison a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.logs import Reading, log_files, read_logs
from remedy.eval.report.render import Report
from remedy.eval.report.verdicts import decide
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
"""What records have that logs do not tell."""


def compare_logs(
    baseline: Path, treatment: Path, how: Reading | None = None, margin: float = MARGIN, solved_at: float = BAR
) -> Report:
    """Compare two logs, or two folders of logs, task by task. Several logs of a task are trainings with several seeds.

    Examples are paired by name (and content, where a log has its digest); those that a run lacks are left out and counted. All tasks
    share the level of one comparison (Holm).

    Raises:
        UserError: as `read_logs`; two logs are one, or the sides share no task, or no example of one.
    """
    if same := {one.resolve() for one in log_files(baseline)} & {one.resolve() for one in log_files(treatment)}:
        raise UserError(f"{min(same)}: is on both sides: give logs of two models")
    names = side_names(baseline, treatment)
    sides = [
        read_logs(path, how or Reading()).assign(variant=side)
        for path, side in ((baseline, "baseline"), (treatment, "treatment"))
    ]
    every = [list(side["task"].unique()) for side in sides]
    tasks = [task for task in every[0] if task in every[1]]
    if not tasks:
        said = [", ".join(map(repr, one)) for one in every]
        raise UserError(f"{treatment}: has results of {said[1]}, and {baseline} of {said[0]}: the sides share no task")
    remarks = []
    for path, side, mine in zip((baseline, treatment), sides, every):
        remarks += [f"{task} is in {path} alone: left out." for task in mine if task not in tasks]
        if len(none := side.loc[side["right"].isna(), "example"]):
            remarks.append(
                f"{path}: {len(none)} of {len(side)} examples have no score, the first of them {none.iloc[0]!r}."
            )
    records = pd.concat(sides, ignore_index=True)
    records["run"] = (records["variant"] + " " + records["file"] + " " + records["seed"]).str.strip()
    comparisons = []
    for task in tasks:
        about = task if len(tasks) > 1 else f"{names[1]} in place of {names[0]}{f' on {task}' if task else ''}"
        before, after = (Side(run=side, where={"task": task}) for side in ("baseline", "treatment"))
        one = Comparison(mitigation=about, baseline=before, treatment=after, margin=margin, solved_at=solved_at)
        comparisons.append(one)
        mine = records[records["task"] == task]
        lines = *_unpaired(mine, one.where), *list(_alike(mine, one.where, len(tasks) == 1))[:1], *_unlike(mine)
        remarks += [f"{about}: {line}" for line in lines]
    shown = {"baseline": Side(run=names[0]), "treatment": Side(run=names[1])}
    scored = records.dropna(subset="right").astype({"right": bool})
    failure = scored["right"].map({True: "", False: "wrong"})
    found = decide(comparisons, scored.assign(**NEUTRAL, failure=failure))
    verdicts = [item._replace(comparison=item.comparison.model_copy(update=shown)) for item in found]
    return Report(verdicts, remarks, [], pd.DataFrame(), [])


def _unpaired(records: pd.DataFrame, where: str) -> Iterator[str]:
    """Yield a line if some log does not score all examples of a task.

    Raises:
        UserError: none is left, or the logs have other metrics or clusters.
    """
    if records["metric"].nunique() > 1:
        scored = " and ".join(f"{name!r}" for name in records["metric"].unique())
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


def _alike(records: pd.DataFrame, where: str, alone: bool) -> Iterator[str]:
    """Yield a line for every two logs of a task that agree on all examples that both score, or nearly.

    Trainings may agree by chance, or by solving everything. Ten different wrong answers, equal word for word, are no chance. Of
    scores, or of answers by a few letters, 30 right and 30 wrong ones in the same places are taken for a proof: were trainings to
    agree on nine examples of ten, they would agree on 60 in one case of 500. In a table, `seed` says that they are trainings. A
    treatment may change nothing in one task of several. Trainings nearly agree where ten different wrong answers are equal word for
    word, and nine of ten of those that either gives.

    Raises:
        UserError: logs are proven copies, and so no two seeds; or no two sides, if the task is `alone`.
    """
    scored = records.dropna(subset="right").assign(given=records["answer"] + records["right"].map(str))
    logs = scored.pivot(index="example", columns=["variant", "file", "run"], values="given")
    for first, second in combinations(logs, 2):
        both = logs[[first, second]].dropna()
        if both.empty:
            continue
        equal, bad = both[first] == both[second], both.apply(lambda given: given.str.endswith("False"))
        wrong = both[first][equal & bad[first]]
        many = wrong.nunique() >= 10
        if not equal.all() and (not many or len(wrong) < 0.9 * bad.any(axis=1).sum()):
            continue
        number = f"all {len(both)}" if equal.all() else f"{equal.sum()} of {len(both)}"
        pair = f"{first[2]} and {second[2]} agree on {number} examples that they share"
        proven = equal.all() and (many or 30 <= len(wrong) <= len(both) - 30)
        if proven and first[0] == second[0] and first[1] != second[1]:
            raise UserError(f"{where}: {pair}: they are one log, and no two seeds: give one of them")
        if proven and first[0] != second[0] and alone:
            raise UserError(f"{where}: {pair}: both sides are identical: give logs of two models")
        yield f"{pair}, and may be one log."


def _unlike(records: pd.DataFrame) -> Iterator[str]:
    """Yield a line for every setting, and for prompts, in which logs of a task differ."""
    logs = records.drop_duplicates("run").set_index("run")["settings"]
    logs = logs[logs.map(bool)]
    told = {key: logs.map(lambda one, key=key: one.get(key, "not set")) for key in chain.from_iterable(logs)}
    prompted = records[records["prompt"] != ""].set_index("run")
    prompts = prompted.groupby("example")["prompt"].nunique()
    if len(other := prompts.index[prompts > 1]):
        key = f"the prompt differs on {len(other)} of {len(prompts)} examples: that of {other[0]!r}"
        told[key] = prompted.loc[prompted["example"] == other[0], "prompt"]
    for key, values in told.items():
        said = values.drop_duplicates().map(cut)
        if len(said) > 1:
            yield f"{key} is {said.iloc[0]} in {said.index[0]}, and {said.iloc[1]} in {said.index[1]}."


def side_names(first: Path, second: Path) -> tuple[str, str]:
    """Return names of two sides: of their files or folders, or of the folders above where these are equal; else as they were given."""
    for one, other in zip((first, *first.parents), (second, *second.parents)):
        if one.stem and other.stem and one.stem != other.stem:
            return one.stem, other.stem
    return str(first), str(second)
