"""Comparison of recipes' rates without shared programs, which no report can pair.

python -m benchmarks.rates results/study/equal_examples subwords rare-characters [more runs] [--where form=flattened]

For every two of the named runs in a folder of packed records, it prints each seed's right answers, the difference of
the means, and the exact permutation test of the seeds' rates that reports use from five seeds a side.
"""

from __future__ import annotations

import argparse
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from remedy.eval.stats.exact import permutation_test
from remedy.settings import UserError


def right(records: pd.DataFrame, run: str) -> tuple[npt.NDArray[np.int64], int]:
    """Return the right answers of each seed of a run, and the number of programs.

    Raises:
        UserError: there is no such run, or its seeds have different numbers of programs.
    """
    mine = records[records["run"].str.fullmatch(rf"{re.escape(run)},seed=\d+")]
    by_seed = mine.groupby("run")["right"].agg(["sum", "count"])
    if by_seed["count"].nunique() != 1:
        raise UserError(
            f"{run}: no records, or seeds with {sorted(by_seed['count'].unique())} programs; name a run and --where"
        )
    return by_seed["sum"].to_numpy(np.int64), int(by_seed["count"].iloc[0])


def lines(folder: Path, runs: list[str], where: dict[str, str]) -> list[str]:
    """Write a line for each run and each pair."""
    records = pd.read_parquet(folder / "records.parquet")
    for label, value in where.items():
        records = records[records[label].astype(str) == value]
    found = {run: right(records, run) for run in runs}
    said = [f"{run}: {', '.join(f'{100 * n / of:.1f}' for n in counts)} %" for run, (counts, of) in found.items()]
    for before, after in combinations(runs, 2):
        (first, of), (second, other) = found[before], found[after]
        if of != other:
            raise UserError(f"{before} was asked {of} programs, {after} {other}: the test takes equally many")
        points = 100 * (second.mean() - first.mean()) / of
        said.append(
            f"{after} against {before}: {points:+.1f} points, p = {permutation_test(first, second).p_value:.4f}"
        )
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--where", action="append", default=[], metavar="LABEL=VALUE")
    given = parser.parse_args()
    print("\n".join(lines(given.folder, given.runs, dict(one.split("=", 1) for one in given.where))))


if __name__ == "__main__":
    main()
