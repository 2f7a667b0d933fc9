"""The study's verdicts and rates, made anew of its packed records by the code that judges for `remedy report`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import packed
from remedy.data_gen.traces.comparison import same_text
from remedy.eval.records.failures import UNTRACED
from remedy.eval.records.schema import Record, rank
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.fairness import has_no_seed, with_fairness
from remedy.eval.report.page import report as write_report
from remedy.eval.report.reading import variants_of
from remedy.eval.report.verdicts import Verdict, compute_verdicts
from remedy.eval.report.wording import tokens_of
from remedy.launch.experiment import ExperimentConfig
from remedy.settings import load

CONFIGS = Path(__file__).parents[1] / "configs" / "study"
QUESTIONS = (
    *("mixers", "mixers_longer", "held_out_pairs", "held_out_pairs_fourth", "held_out_pairs_every"),
    *("held_out_pairs_five", "horizon", "reveals", "groups", "wrong_actions", "repeats", "strings", "equal_examples"),
    *("accuracy_per_token", "budget", "failing_share", "failing_long"),
    *("strings_pretrained", "strings_pretrained_why", "strings_pretrained_longer"),
    *("pretrained", "executor", "pretrained_harvested"),
)
"""The questions with records, in the order of the study's page."""
REQUEST = "evaluation/evaluation.json"
_AT_16 = {"horizon": 16}
PAST = {
    "mixers": {
        8: Comparison(
            mitigation="Mamba-3 in place of attention (horizon 16)",
            failure="lost state",
            baseline=Side(run="transformer", where=_AT_16),
            treatment=Side(run="mamba3", where=_AT_16),
        )
    }
}
"""By question and place, comparisons of code that is gone (Mamba-3 was in commit ef0c9f3): published levels count them."""
AXES = ("length", "depth", "forcing")
"""Labels along which rates stand in the columns of a table: the first that a question has."""
INTRODUCTION = """\
# Every verdict and rate of the study

Made by `python -m benchmarks.study` of the records beside this page, and held to them by a test. A word is of recipes, of their
trainings as draws; *of these runs* holds for other programs and not for other seeds ([verdicts](../../docs/statistics.md)). Rates are
right answers in per cent, each seed; the interval of a difference and its p stand at the level that the comparison is judged at. What
was fed has no answer of the model's: there the rate is that of last states that are predicted as they are.

`records.parquet` of a question holds every record of every run with all its columns, [runs.parquet](runs.parquet) what each run was
asked and took. A question's whole report: `python -m benchmarks.study --report mixers --out runs/report`. Its runs' folders as they
were: `python -m benchmarks.packed unpack results/study/mixers runs/mixers`.
"""
HEAD = (
    *("compared", "recipes", "of these runs", "baseline", "solve it", "with it", "solve it"),
    *("points", "p", "level", "tokens a trace"),
)


def config_of(question: str) -> ExperimentConfig:
    """Return a question's experiment, with past comparisons of runs that no longer exist."""
    config = load(ExperimentConfig, CONFIGS / f"{question}.yaml")
    comparisons = list(config.comparisons)
    for place, one in PAST.get(question, {}).items():
        comparisons.insert(place, one)
    return config.model_copy(update={"comparisons": tuple(comparisons)})


def requests_of(question: Path) -> list[dict[str, Any]]:
    """Return what the evaluations of a question say of themselves, each with its `folder`."""
    runs = packed.read_runs(question.parent)
    mine = runs.loc[runs.index.str.startswith(f"{question.name}/"), REQUEST].dropna()
    return [{**json.loads(text), "folder": str(folder).split("/", 1)[1]} for folder, text in mine.items()]


def verdicts(question: Path) -> list[Verdict]:
    """Return the verdicts on a question's comparisons, for its experiment's groups."""
    config = config_of(question.name)
    requests = [one for one in requests_of(question) if one["folder"].split("/")[0] in config.groups]
    variants = variants_of(requests)
    records = packed.read_records(question)
    records = records[records["group"].isin(config.groups) & (records["failure"] != UNTRACED)]
    records = records.drop(columns=list(packed.OWN)).assign(variant=records["run"].map(variants))
    decided = compute_verdicts(config.comparisons, records, [one["run"] for one in requests if has_no_seed(one)])
    return [with_fairness(item, requests) for item in decided]


def report(question: Path, out: Path) -> Path:
    """Write the whole report of a question; returns its page."""
    config = config_of(question.name)
    with tempfile.TemporaryDirectory() as folder:
        packed.unpack(question, Path(folder))
        groups = [Path(folder) / group for group in config.groups]
        return write_report(groups, out, config.comparisons, config.title, config.baselines)


def page(root: Path) -> str:
    """Every question's verdicts and rates as Markdown."""
    return "\n".join([INTRODUCTION, *(section(root / name) for name in QUESTIONS)])


def section(question: Path) -> str:
    """One question's verdicts and rates."""
    name = question.name
    said = f"{config_of(name).title}. [Settings](../../configs/study/{name}.yaml).\n"
    tables = [rows for rows in (verdict_rows(question), rate_rows(question)) if len(rows) > 1]
    return "\n".join([f"## {_title_of(name).capitalize()}\n", said, *map(table, tables)])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown, the first their head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], ""])


def verdict_rows(question: Path) -> list[list[str]]:
    """Write a line for each comparison, under `HEAD`."""
    return [list(HEAD), *(row(item) for item in verdicts(question))]


def row(item: Verdict) -> list[str]:
    """Write the line of one comparison."""
    low, high = item.difference.interval(item.level)
    named = f"{item.comparison.mitigation} (primary)" if item.comparison.primary else item.comparison.mitigation
    sides = [
        cell
        for side in (item.baseline, item.treatment)
        for cell in (percent(side.points), f"{side.solved} of {len(side.points)}")
    ]
    return [
        named,
        "fed" if item.word is None else str(item.word) if item.difference.of_recipes else "",
        str(item.of_runs),
        *sides,
        f"{100 * item.difference.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})",
        f"{item.evidence.p_value:.4f}",
        f"{item.level:.4f}",
        tokens_of(item).replace("\n", ", "),
    ]


def percent(rates: Sequence[float]) -> str:
    """Shares in per cent: `100, 99.5, 0`."""
    return ", ".join(f"{round(100 * rate, 1):g}" for rate in rates)


def right(rows: pd.DataFrame) -> pd.Series:
    """Return which traced answers are right.

    Where states were fed, an answer is right if the last state is predicted as it is.
    """
    traced = rows[rows["failure"] != UNTRACED]
    fed = traced[traced["right"].isna()]
    answers = zip(fed["answer"], fed["true_answer"], fed["string_encoding"])
    outcomes = traced["right"].astype(object)
    outcomes[fed.index] = [same_text(*answer) for answer in answers]
    return outcomes.astype(bool)


def rate_rows(question: Path) -> list[list[str]]:
    """Write a line for each recipe and condition, with the axis values as columns.

    A cell holds the rate of each seed.
    """
    rows = packed.read_records(question)
    axis = next(name for name in AXES if name in rows)
    labels = [name for name in rows.columns if name not in {*Record.__annotations__, *packed.OWN, axis, "horizon"}]
    varying = [name for name in labels if rows[name].nunique(dropna=False) > 1]
    groups = ["group"] if rows["group"].nunique() > 1 else []
    recipe = rows["run"].str.replace(r",seed=\d+", "", regex=True)
    keys = ["recipe", *groups, *varying]
    values = sorted(rows[axis].dropna().unique()) + ([None] if rows[axis].isna().any() else [])
    rows = rows.assign(
        recipe=recipe, **{name: rows[name].map(_plain) for name in [*varying, axis]}, outcome=right(rows)
    )
    # One rate for each run.
    rates = rows.groupby([*keys, axis, "folder"], sort=False)["outcome"].mean()
    cells = {key: percent(mine) for key, mine in rates.dropna().groupby(level=[*keys, axis], sort=False)}
    columns = [_plain(value) for value in values]
    lines = sorted({key[:-1] for key in cells}, key=lambda line: [_place(*label) for label in zip(keys, line)])
    titles = [*map(_title_of, keys), *(f"{axis} {value}" if value else "other" for value in columns)]
    return [titles, *([*map(str, line), *(cells.get((*line, value), "") for value in columns)] for line in lines)]


def _place(name: str, value: str) -> tuple[Any, ...]:
    """Return a sort key: labels in their declared order, numbers by size."""
    try:
        return (0, float(value))
    except ValueError:
        return (1, rank(name, value))


def _plain(value: object) -> str:
    """Write a label's value; empty where a condition lacks it."""
    if pd.isna(value):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _title_of(name: str) -> str:
    return name.replace("_", " ")
