"""The figures and verdicts of results/study, of the records that stand there; nothing is run.

python -m benchmarks.study [results/study]                        figures/*.png and verdicts.md
python -m benchmarks.study --report mixers --out runs/report      a question's whole report, as `remedy report` makes it

Every figure is right answers against a number of commands, calls or tokens: a thick line or a large mark is the mean of a recipe's
seeds, thin and small ones are the seeds.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from PIL import Image

from benchmarks import packed, study_reports
from remedy.eval.tables import plotting
from remedy.eval.tables.colours import COLOURS
from remedy.settings import UserError


class Recipe(NamedTuple):
    """One line of a figure.

    `name` is in the page's words, `group` its group or groups, `where` the labels of its conditions. `fed`: right is
    the final state predicted after true states, where no answer is the model's.
    """

    name: str
    group: str
    run: str
    where: Mapping[str, object] = {}
    fed: bool = False


class Drawing(NamedTuple):
    """A figure with several titled panels.

    `by`: the horizontal axis, a label or `written_tokens`. `points`: the axis is measured, so no line is drawn along
    it. `trained`: the longest trained value. `guess`: a rule without a model, and its right answers in each panel.
    """

    by: str
    xlabel: str
    panels: Mapping[str, Sequence[Recipe]]
    trained: float | None = None
    guess: tuple[str, Mapping[str, float]] | None = None
    points: bool = False


def recipes(group: str, runs: Mapping[str, str], **where: object) -> list[Recipe]:
    """Those of one group, their runs by the name that the page gives them."""
    return [Recipe(name, group, run, where) for name, run in runs.items()]


MIXERS = {
    "attention": "transformer",
    "Mamba": "mamba",
    "RWKV-7": "rwkv7",
    "DeltaNet in [-1, 1]": "deltanet",
    "DeltaProduct": "deltaproduct",
    "PaTH attention": "path-attention",
    "GRU": "gru",
}
HORIZON = {"permutation": ("plain", "narrow", "roomy"), "wide": ("smoothed", "closed")}
REVEALS = {
    "nothing": "end-only",
    "one value in 16 commands": "one-in-sixteen",
    "one in 4": "one-in-four",
    "all five in 16": "all-in-sixteen",
}
STRINGS = {
    "strings by characters": "characters",
    "letters apart in the text": "spelt",
    "400 subwords": "subwords",
    "1,000 subwords": "subwords-1000",
}
TYPES = {
    "strings by characters": "characters",
    "lists of strings": "list-of-strings",
    "lists of numbers": "list-of-numbers",
    "tuples of strings": "tuple",
}
WRONG_ACTIONS = {
    "attention": "attention",
    "recurrences": "recurrence",
    "hybrid": "hybrid",
    "hybrid, numbered lines": "hybrid-numbered",
    "hybrid, sees two frames": "hybrid-memory",
}
TRACES = {
    "every state": "full-1",
    "every second": "full-2",
    "every fourth": "full-4",
    "the last alone": "last",
    "differences": "diff",
    "one variable in turn": "one-1",
    "one, at every second": "one-2",
    "lines with numbers": "numbered",
    "numbers for lines": "numbers",
}
PLACED = {"every second": "placed-2", "every fourth": "placed-4", "the last alone": "placed-last"}
PRETRAINED = {
    "differences": "diff",
    "every variable": "full",
    "every fourth state": "sparse",
    "strings by characters": "characters",
    "numbered lines": "numbered",
}
COLOURS_KEPT = 128
"""Colours of a figure's file, which make it a third as large and no different to the eye."""
CALLS = {"forcing": "action_forced", "form": "flattened"}
DRAWINGS = {
    "mixers": Drawing(
        "length",
        "commands",
        {
            "600 steps, six seeds": recipes("mixers/permutation", MIXERS),
            "2,400 steps, three other seeds": recipes(
                "mixers_longer/longer", {name: f"{run}-longer" for name, run in MIXERS.items()}
            ),
        },
        trained=16,
        guess=(
            "a guess that knows odd from even",
            {"600 steps, six seeds": 1 / 3, "2,400 steps, three other seeds": 1 / 3},
        ),
    ),
    "horizon": Drawing(
        "length",
        "commands",
        {
            "state at the end alone": [
                *(Recipe(run, f"horizon/{group}", run) for group, runs in HORIZON.items() for run in runs),
                Recipe("plain, longer", "horizon/long", "plain-long"),
                Recipe("roomy, longer", "horizon/long", "roomy-long"),
            ]
        },
        trained=64,
    ),
    "reveals": Drawing(
        "length",
        "commands",
        {
            "values shown, written by the model": recipes("reveals/permutation", REVEALS, forcing="action_forced"),
            "values shown, as they truly are": [
                line._replace(fed=True) for line in recipes("reveals/permutation", REVEALS, forcing="teacher_forced")
            ],
        },
        trained=64,
    ),
    "wrong_actions": Drawing(
        "length",
        "commands",
        {
            "written freely": recipes("wrong_actions/permutation", WRONG_ACTIONS, forcing="free", repertoire=None),
            "held to the control flow": [
                *recipes("wrong_actions/permutation", WRONG_ACTIONS, forcing="control_flow"),
                Recipe("held, trained to 12", "wrong_actions/held", "recall-first"),
            ],
        },
        trained=6,
    ),
    "accuracy_per_token": Drawing(
        "written_tokens",
        "tokens that the model wrote for a trace",
        {
            "12 commands, the longest trained on": recipes("accuracy_per_token/permutation", TRACES, length=12),
            "64 commands": recipes("accuracy_per_token/permutation", TRACES, length=64),
            "64 commands, three other seeds": recipes(
                "accuracy_per_token/places", PLACED, length=64, forcing="control_flow"
            ),
            "the same, told where states stand": recipes(
                "accuracy_per_token/places", PLACED, length=64, forcing="action_forced"
            ),
        },
        points=True,
    ),
    "pretrained": Drawing(
        "written_tokens",
        "tokens that the model wrote for a trace",
        {
            "the five functions trained on": recipes("pretrained/*", PRETRAINED, benchmark="composition (strings)"),
            "CruxEval": recipes("pretrained/*", PRETRAINED, benchmark="cruxeval"),
        },
        guess=("the input given back", {"the five functions trained on": 0.10, "CruxEval": 0.22}),
        points=True,
    ),
    "strings": Drawing(
        "depth",
        "calls",
        {
            "strings": recipes("strings/composition", STRINGS, **CALLS),
            "other types": recipes("strings/composition", TYPES, **CALLS),
        },
        trained=5,
    ),
}


def seeds_of(root: Path, recipe: Recipe, by: str) -> list[dict[float, float]]:
    """Return right answers by the value of `by`, one mapping per seed in order of names.

    The list is empty where nothing has run.

    Raises:
        UserError: two conditions of a run have the same value, so that `where` does not tell them apart.
    """
    question, group = recipe.group.split("/")
    rows = _records(root / question)
    folders = [name for name in rows["folder"].unique() if fnmatchcase(name, f"{group}/{recipe.run},seed=*/evaluation")]
    found = []
    for folder in sorted(folders, key=lambda name: str(name.split("/")[1])):
        points: dict[float, float] = {}
        for _, mine in rows[rows["folder"] == folder].groupby("condition", sort=False):
            labels = {name: mine[name].iloc[0] for name in {by, *recipe.where} & {*mine.columns}}
            if any(not _is(labels.get(name), value) for name, value in recipe.where.items()):
                continue
            place = _tokens(mine) if by == "written_tokens" else labels.get(by)
            if place is None or pd.isna(place) or mine["right"].isna().all() != recipe.fed:
                continue
            if place in points:
                raise UserError(
                    f"{question}, {folder}: several conditions with {by} {place}; say in `where` which is meant"
                )
            points[float(place)] = float(study_reports.right(mine).mean())
        found.append(points)
    return found


def _is(label: object, value: object) -> bool:
    """Say if a label has a value; None is that of a condition without the label."""
    return bool(pd.isna(label)) if value is None else label == value


def _tokens(rows: pd.DataFrame) -> float:
    """Tokens written for a trace, of the examples that were decoded: of one whose true trace is beyond the limit nothing is read."""
    return float(rows.loc[rows["read_tokens"] > 0, "written_tokens"].mean())


@lru_cache(maxsize=1)
def _records(question: Path) -> pd.DataFrame:
    return packed.read_records(question)


def draw(root: Path, drawing: Drawing, out: Path) -> list[str]:
    """Write the figure; returns the recipes that have no records yet, which it leaves out."""
    figure, axes = plotting.panels(len(drawing.panels))
    rows, columns = axes[0].get_gridspec().get_geometry()
    figure.set_size_inches(4.8 * columns, 3.7 * rows)
    names = list(dict.fromkeys(recipe.name for lines in drawing.panels.values() for recipe in lines))
    missing, shown = [], set()
    for axis, (title, lines) in zip(axes, drawing.panels.items()):
        for recipe in lines:
            seeds = seeds_of(root, recipe, drawing.by)
            missing += [] if seeds else [f"{recipe.group}/{recipe.run}"]
            shown |= (_points if drawing.points else _line)(axis, seeds, recipe.name, names.index(recipe.name))
        _frame(axis, drawing, title)
    if not shown:
        return missing
    for axis in axes:
        if drawing.points:  # one scale for all panels, whose costs may be far apart
            axis.set_xscale("log")
            axis.set_xlim(min(shown) / 1.2, max(shown) * 1.2)
            axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            axis.xaxis.set_minor_locator(ticker.NullLocator())
        else:
            plotting.numbers(axis, sorted(shown))
    axes[0].set_ylabel("right answers")
    plotting.legend(figure, axes)
    out.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, bbox_inches="tight", dpi=150)
    Image.open(drawn).convert("RGB").quantize(COLOURS_KEPT).save(out, optimize=True)
    return missing


def _line(axis: Axes, seeds: Sequence[Mapping[float, float]], name: str, number: int) -> set[float]:
    """Seeds as thin lines and their mean as a thick one; returns the places that it has."""
    if not seeds:
        return set()
    places = sorted(set.intersection(*({*points} for points in seeds)))
    for points in seeds:
        axis.plot(places, [points[place] for place in places], color=COLOURS[number], lw=0.8, alpha=0.45)
    mean = np.mean([[points[place] for place in places] for points in seeds], axis=0)
    marker = plotting.MARKERS[number % len(plotting.MARKERS)]
    axis.plot(places, mean, color=COLOURS[number], lw=2.2, marker=marker, ms=5, label=name)
    return set(places)


def _points(axis: Axes, seeds: Sequence[Mapping[float, float]], name: str, number: int) -> set[float]:
    """Seeds as small marks and their mean as a large one, each at a place of its own; returns these."""
    if not seeds:
        return set()
    places, rates = zip(*(pair for points in seeds for pair in points.items()))
    colour, marker = COLOURS[number % len(COLOURS)], plotting.MARKERS[number % len(plotting.MARKERS)]
    axis.plot(places, rates, ls="", color=colour, marker=marker, ms=4, alpha=0.5)
    axis.plot([np.mean(places)], [np.mean(rates)], ls="", color=colour, marker=marker, ms=9, label=name)
    return set(places)


def _frame(axis: Axes, drawing: Drawing, title: str) -> None:
    plotting.rates(axis)
    axis.set(xlabel=drawing.xlabel, title=title)
    if drawing.trained is not None:
        axis.axvline(drawing.trained, color="0.4", lw=1, ls="--", label="longest trained on")
    if drawing.guess is not None and title in drawing.guess[1]:
        axis.axhline(drawing.guess[1][title], color="0.4", lw=1, ls=":", label=drawing.guess[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?", default=Path("results/study"))
    parser.add_argument(
        "--report", metavar="QUESTION", choices=study_reports.QUESTIONS, help="make this question's whole report"
    )
    parser.add_argument("--out", type=Path, help="the folder for it")
    given = parser.parse_args()
    if (given.report is None) != (given.out is None):
        parser.error("--report and --out go together: the question, and the folder for its report")
    if given.report is not None:
        print(study_reports.report(given.root / given.report, given.out))
        return
    for name, drawing in DRAWINGS.items():
        path = given.root / "figures" / f"{name}.png"
        missing = draw(given.root, drawing, path)
        print(f"{path}" + (f"; no records yet: {', '.join(missing)}" if missing else ""))
    page = given.root / "verdicts.md"
    page.write_text(study_reports.page(given.root), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
