"""States right by where the held-out pair lies, of the experiments on held-out pairs that show several states.

    python -m benchmarks.held_out_pieces

A piece of a program begins after a shown state and ends with the next: four commands with every fourth state, one with every state. It
counts if all states before it are right: at the first wrong one a model goes on from its own. The pair lies in a piece, or across the
state shown before it.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pandas as pd

from benchmarks import packed, study_reports
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples

PIECES = {"held_out_pairs_fourth": 4, "held_out_pairs_every": 1}
"""Commands of a piece, by question."""
LENGTH, PROGRAMS = 16, 300
Pair = tuple[str, str]


def commands(question: str, test_pairs: str) -> list[list[str]]:
    """Return the commands of the test programs."""
    data = study_reports.config_of(question).groups["swaps"].base["data"]
    task = {**data["task"], "length": LENGTH, "test_pairs": test_pairs}
    config = DataConfig.model_validate({**data, "task": task})
    return [
        [frame.source for frame in example.trace.frames if frame.source.strip()]
        for example in examples(config, "test", range(PROGRAMS))
    ]


def held_out(question: str) -> Pair:
    """Return the pair of commands that no program has where the pair is left out."""
    seen = {pair for program in commands(question, "without") for pair in itertools.pairwise(program)}
    (pair,) = {pair for program in commands(question, "with") for pair in itertools.pairwise(program)} - seen
    return pair


def where_pairs_lie(program: list[str], pair: Pair, length: int) -> list[str]:
    """Say of each piece where the pair lies: in the piece, across the state shown before it, or nowhere."""
    starts = {index for index, commands in enumerate(itertools.pairwise(program)) if commands == pair}
    kinds = []
    for begin in range(0, LENGTH, length):
        inside = starts & set(range(begin, begin + length - 1))
        kinds.append("in the piece" if inside else "across" if begin - 1 in starts else "no pair")
    return kinds


def same_parity(answer: str, true: str) -> bool:
    """Say if an answer is an even permutation of the true values: all in place, or none of the three."""
    values, true_values = ([part.partition("=")[2] for part in text.split(",")] for text in (answer, true))
    moved = sum(value != true_value for value, true_value in zip(values, true_values))
    return sorted(values) == sorted(true_values) and moved != 2


def main() -> None:
    """Print for each question what `print_shares` does."""
    for question, length in PIECES.items():
        print(question)
        print_shares(question, length)


def print_shares(question: str, length: int) -> None:
    """Print how many pairs lie across a shown state, and by mixer the share of right states, mean of seeds, and of right parities."""
    pair, programs = held_out(question), commands(question, "with")
    kinds = [where_pairs_lie(program, pair, length) for program in programs]
    starts = [
        [start for start, commands in enumerate(itertools.pairwise(program)) if commands == pair]
        for program in programs
    ]
    across = [sum(start % length == length - 1 for start in of_program) for of_program in starts]
    alone = sum(len(of_program) == count > 0 for of_program, count in zip(starts, across))
    print(f"{sum(map(len, starts))} pairs, {sum(across)} across a shown state; {alone} programs have no other")
    records = packed.read_records(Path(__file__).parents[1] / "results" / "study" / question)
    records = records[records["condition"].str.contains(f"length-{LENGTH}__test_pairs-with__")]
    rows = []
    for index, record in zip(records["index"], records.itertuples()):
        for piece, kind in enumerate(kinds[index]):
            end = length * (piece + 1)
            if record.first_error_frame in (-1, end) or record.first_error_frame > end:
                variant = record.run.split(",")[0]
                rows.append((variant, record.seed, kind, record.first_error_frame != end))
    table = pd.DataFrame(rows, columns=["mixer", "seed", "pair", "right"])
    shares = table.groupby(["mixer", "seed", "pair"], sort=False)["right"].mean().mul(100)
    print(shares.groupby(["mixer", "pair"], sort=False).mean().unstack().round(1).to_string())
    parities = pd.Series(map(same_parity, records["answer"], records["true_answer"]), records.index)
    print(parities.groupby(records["run"].str.split(",").str[0]).mean().mul(100).round(1).to_string())


if __name__ == "__main__":
    main()
