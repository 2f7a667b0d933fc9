"""Do wrong actions follow another occurrence of the line before them? Of the traces that runs wrote freely, by condition.

python -m benchmarks.occurrences RUN ...    RUN: of configs/experiment/wrong_actions.yaml or repeats.yaml, seeds of one recipe

A step is a command after another command, up to and including the first error; one whose event is wrong (the program is said to end) is
not counted. It is *doubtful* if the command before it stands elsewhere in the program with another command after it. By kind of step:
how many there were, how many of them have a wrong line as the trace's first error, and the rate with its 95 % interval (steps of these
models, taken to be independent; not of other seeds). Of the wrong ones among doubtful steps: how many are what follows another
occurrence, as their records say, and how many would be if every other command of the program were as likely. `times`: how many times as
often a doubtful step goes wrong as another at the same place of a program in the same run (Mantel and Haenszel's ratio). Programs are
made again from the evaluation's own settings; nothing is run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import Event, Frame
from remedy.data_gen.roles import Role
from remedy.eval.stats import rate
from remedy.eval.view.evaluation import Opened

HEADER = ("doubtful", "wrong", "%", "after another occurrence", "at random", "others", "wrong", "%", "times")


def elsewhere(lines: Sequence[str], place: int) -> set[str]:
    """What follows the line before `place` where that one stands another time, other than what is true at `place`."""
    return {after for before, after in pairwise(lines) if before == lines[place - 1]} - {lines[place]}


def steps(
    frames: Sequence[Frame], commands: int, reached: int, wrong: bool, followed: bool
) -> Iterator[dict[str, Any]]:
    """The steps of one trace, whose last lines are so many commands, and which was right for `reached` frames. `wrong`: whether its
    next frame has a wrong line, which is what follows another occurrence if `followed`."""
    lines_at = [number for number, frame in enumerate(frames) if frame.event is Event.LINE]
    at = lines_at[-commands:]
    lines = [frames[number].source for number in at]
    for place, number in enumerate(at):
        if place == 0 or number > reached or (number == reached and not wrong):
            continue
        others, error = elsewhere(lines, place), number == reached
        pool = [line for line in lines if line != lines[place]]
        by_chance = sum(line in others for line in pool) / len(pool) if others and error else 0.0
        doubtful = bool(others)
        yield {
            "place": place,
            "doubtful": doubtful,
            "wrong": error,
            "followed": doubtful and error and followed,
            "at random": by_chance,
        }


def of_condition(opened: Opened, slug: str) -> Iterator[dict[str, Any]]:
    """The steps of all traces of a condition."""
    records, condition = opened.records(slug), opened.conditions[slug]
    commands = int(condition.own_labels["length"])
    for example in examples(condition.data, condition.split, [int(index) for index in records.index]):
        record = records.loc[example.index]
        wrong = record["first_error_role"] == Role.ACTION.label
        yield from steps(example.frames, commands, int(record["frames_right"]), wrong, bool(record["followed_another"]))


def written_freely(run: Path) -> Iterator[dict[str, Any]]:
    """The steps of each condition under which a run wrote its actions itself."""
    opened = Opened(run / "evaluation")
    for slug, condition in opened.conditions.items():
        labels = condition.own_labels
        if condition.forcing == "free" and "length" in labels:
            name = f"{labels['length']} commands" + (f" of {labels['repertoire']}" if "repertoire" in labels else "")
            yield from ({"run": run.name, "condition": name, **step} for step in of_condition(opened, slug))


def times(found: pd.DataFrame) -> float:
    """How many times as often doubtful steps go wrong as others of the same run and place; NaN where none of these does (Mantel and
    Haenszel, 1959, as a ratio of risks)."""
    above = below = 0.0
    for _, stratum in found.groupby(["run", "place"]):
        doubtful, others = stratum[stratum["doubtful"]], stratum[~stratum["doubtful"]]
        above += doubtful["wrong"].sum() * len(others) / len(stratum)
        below += others["wrong"].sum() * len(doubtful) / len(stratum)
    return above / below if below else float("nan")


def table(found: pd.DataFrame) -> list[str]:
    """A row for each condition, of all runs together."""
    rows = []
    for name, of in found.groupby("condition", sort=False):
        doubtful, others = of[of["doubtful"]], of[~of["doubtful"]]
        cells = [
            *_counted(doubtful),
            *(f"{doubtful['followed'].sum()}", f"{doubtful['at random'].sum():.1f}"),
            *_counted(others),
            f"{times(of):.1f}",
        ]
        rows.append(f"| {' | '.join([str(name), *cells])} |")
    return rows


def _counted(found: pd.DataFrame) -> tuple[str, str, str]:
    if found.empty:
        return "0", "0", "-"
    share = rate(list(found["wrong"]))
    percent = f"{100 * share.mean:.2f} ({100 * share.low:.2f} to {100 * share.high:.2f})"
    return str(len(found)), str(found["wrong"].sum()), percent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    runs = parser.parse_args().runs
    rows = [row for run in runs for row in written_freely(run)]
    if not rows:
        names = ", ".join(run.name for run in runs)
        raise SystemExit(
            f"{names}: no step to count: nothing was written freely, or no trace came as far as a command's next line"
        )
    print(f"| | {' | '.join(HEADER)} |\n|{'---|' * (len(HEADER) + 1)}")
    print("\n".join(table(pd.DataFrame(rows))))


if __name__ == "__main__":
    main()
