"""Do wrong actions follow another occurrence of the line before them? Of the traces that runs wrote freely, by condition.

python -m benchmarks.occurrences RUN ...    RUN: of configs/experiment/wrong_actions.yaml or repeats.yaml, seeds of one recipe

A step is a line that is run after another, up to and including the first error. It is *doubtful* if the line before it stands elsewhere
in the program with another line after it. By kind of step: how many there were, how many of them have a wrong line as the trace's first
error, and the rate with its 95 % interval (steps are taken to be independent). Of the wrong ones among doubtful steps: how many are
what follows another occurrence; how many would be if any other line of the program were as likely; and how many are expected if a
doubtful step goes wrong in this way as often as it does in the other conditions of as many commands: what repetition alone foretells.
Programs are made again from the evaluation's own settings; nothing is run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pandas as pd

from remedy.data_gen.examples import Example, examples
from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Role
from remedy.eval.stats import rate
from remedy.eval.view.evaluation import Opened

HEADER = ("doubtful", "wrong", "%", "after another occurrence", "at random", "expected", "others", "wrong", "%")


def elsewhere(lines: Sequence[str], place: int) -> set[str]:
    """What follows the line before `place` where that one stands another time, other than what is true at `place`."""
    return {after for before, after in pairwise(lines) if before == lines[place - 1]} - {lines[place]}


def steps(example: Example, reached: int, wrong: bool, followed: bool) -> Counter[str]:
    """The counts of one trace that was right for `reached` frames. `wrong`: whether its next frame has a wrong line, which is what
    follows another occurrence if `followed`."""
    at = [place for place, frame in enumerate(example.frames) if frame.event is Event.LINE]
    lines = [example.frames[place].source for place in at]
    found: Counter[str] = Counter()
    for number, place in enumerate(at):
        if number == 0 or place > reached or (place == reached and not wrong):
            continue
        error, others = place == reached, elsewhere(lines, number)
        found["doubtful" if others else "sure"] += 1
        found["doubtful wrong" if others else "sure wrong"] += error
        if others and error:
            pool = [line for line in lines if line != lines[number]]
            found["followed"] += followed
            found["at random"] += sum(line in others for line in pool) / len(pool)  # type: ignore[assignment]
    return found


def of_condition(opened: Opened, slug: str) -> Counter[str]:
    """The counts of all traces of a condition."""
    records, condition = opened.records(slug), opened.conditions[slug]
    found: Counter[str] = Counter()
    for example in examples(condition.data, condition.split, [int(index) for index in records.index]):
        record = records.loc[example.index]
        wrong = record["first_error_role"] == Role.ACTION.label
        found.update(steps(example, int(record["frames_right"]), wrong, bool(record["followed_another"])))
    return found


def written_freely(run: Path) -> Iterator[dict[str, object]]:
    """The counts of each condition under which a run wrote its actions itself."""
    opened = Opened(run / "evaluation")
    for slug, condition in opened.conditions.items():
        labels = {key: value for key, value in condition.own_labels.items() if key in ("length", "repertoire")}
        if condition.forcing == "free" and "length" in labels:
            name = f"{labels['length']} commands" + (f" of {labels['repertoire']}" if "repertoire" in labels else "")
            yield {"condition": name, "length": labels["length"], **of_condition(opened, slug)}


def table(found: pd.DataFrame) -> list[str]:
    """A row for each condition, of all runs together."""
    summed = found.fillna(0).groupby(["length", "condition"], sort=False).sum()
    rows = []
    for (length, name), row in summed.iterrows():
        others = summed.loc[[length]].drop(index=(length, name)).sum()
        expected = f"{row.doubtful * others.followed / others.doubtful:.1f}" if others.doubtful else "-"
        cells = [
            *(f"{row.doubtful:.0f}", f"{row['doubtful wrong']:.0f}", _rate(row["doubtful wrong"], row.doubtful)),
            *(f"{row.followed:.0f}", f"{row['at random']:.1f}", expected),
            *(f"{row.sure:.0f}", f"{row['sure wrong']:.0f}", _rate(row["sure wrong"], row.sure)),
        ]
        rows.append(f"| {' | '.join([name, *cells])} |")
    return rows


def _rate(count: float, of: float) -> str:
    if not of:
        return "-"
    found = rate([True] * int(count) + [False] * int(of - count))
    return f"{100 * found.mean:.2f} ({100 * found.low:.2f} to {100 * found.high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    rows = [row for run in parser.parse_args().runs for row in written_freely(run)]
    print(f"| | {' | '.join(HEADER)} |\n|{'---|' * (len(HEADER) + 1)}")
    print("\n".join(table(pd.DataFrame(rows))))


if __name__ == "__main__":
    main()
