"""Does a model believe the values that it is shown on the way, or what it has carried itself? One state is shown falsely.

python -m benchmarks.believed RUN ... [--lengths 64 256 1024] [--programs 500]

RUN: of configs/experiment/reveals.yaml but `end-only`, or its `model` folder.

All commands and all shown values are fed. In the last state that is shown before the end two values are exchanged or, where it shows
one, that of another variable stands in its place; after the commands that follow, the model writes the state at the end, one variable
after another as in training, up to the one that has got it. It says the false value if it believes what it was shown last, and the true
one if it goes by what it has carried. Beside it the same question where nothing is false.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

from benchmarks.reflections import swap_of
from benchmarks.sessions import Run, opened
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import UserError
from remedy.data_gen.tokens import Tokens
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.train.data import encode_rows

BATCH = 50


class Question(NamedTuple):
    """What is read before the state at the end, truly and with a false value, and the names of which the model writes the values, the
    last being the one that is asked for; its `true` value and the `false`."""

    truly: list[int]
    falsely: list[int]
    names: list[int]
    true: int
    false: int


def carried_to(name: str, commands: Iterable[int], tokenizer: TraceTokenizer) -> str:
    """The variable that has, after these swaps, the value that `name` had before them."""
    for command in commands:
        pair = swap_of(tokenizer, command) or ""
        if name in pair:
            name = pair.replace(name, "")
    return name


def question(row: Tokens, tokenizer: TraceTokenizer) -> Question:
    """Of one program, whose trace shows values on the way.

    Raises:
        UserError: it shows none.
    """
    ids, roles = row.ids.tolist(), row.roles.tolist()
    commands = [place for place, role in enumerate(roles) if role == Role.ACTION]
    end, begin = commands[-1] + 1, commands[0]
    shown = [place for place in range(begin, end) if roles[place] == Role.STATE]
    if not shown:
        raise UserError("no value is shown between the commands of this run's programs: give a run that shows some")
    first = last = shown[-1]  # of one state, whose values stand two tokens apart
    while first - 2 in shown:
        first -= 2
    falsely = ids[:end]
    if first < last:
        falsely[first], falsely[first + 2] = ids[first + 2], ids[first]
    else:
        values = sorted(ids[place + 1] for place in range(end, len(ids)) if roles[place] == Role.QUERY)
        falsely[first] = values[(values.index(ids[first]) + 1) % len(values)]
    name = carried_to(tokenizer.decode([ids[first - 1]]), (ids[at] for at in commands if at > last), tokenizer)
    names = ids[end::2]
    asked = next(number for number, one in enumerate(names) if tokenizer.decode([one]) == name)
    return Question(ids[:end], falsely, names[: asked + 1], ids[first], falsely[first])


def questions(run: Run, length: int, count: int) -> list[Question]:
    """Of the first test programs of a length."""
    data = run.config.data.changed({"task.length": length}, "--lengths")
    return [question(row, run.tokenizer) for row in encode_rows(data, run.tokenizer, "test", range(count))]


def said(model: CausalLM, rows: Sequence[Sequence[int]], names: Sequence[Sequence[int]]) -> list[int]:
    """The value of the last name, after each of these rows, all of one length, that the model writes after its own of the others."""
    found = [0] * len(rows)
    for place in range(0, len(rows), BATCH):
        texts = {number: list(rows[number]) for number in range(place, min(place + BATCH, len(rows)))}
        for step in range(max(len(names[number]) for number in texts)):
            texts = {number: text for number, text in texts.items() if step < len(names[number])}
            for number, text in texts.items():
                text.append(names[number][step])
            for number, value in zip(texts, likeliest(model, list(texts.values()))):
                texts[number].append(value)
                found[number] = value
    return found


@torch.inference_mode()
def likeliest(model: CausalLM, rows: Sequence[Sequence[int]]) -> list[int]:
    """The likeliest token after each row, all of one length."""
    values: list[int] = model(input_ids=torch.tensor(rows)).logits[:, -1].argmax(-1).tolist()
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--programs", type=int, default=500)
    args = parser.parse_args()
    print("| run | commands | shown truly: right | shown falsely: says the false value | the true one | another |")
    print("|---|---|---|---|---|---|")
    for path in args.runs:
        run = opened(path)
        for length in args.lengths:
            asked = questions(run, length, args.programs)
            names = [one.names for one in asked]
            truly = said(run.model, [one.truly for one in asked], names)
            falsely = said(run.model, [one.falsely for one in asked], names)
            right = sum(word == one.true for word, one in zip(truly, asked))
            believed = sum(word == one.false for word, one in zip(falsely, asked))
            carried = sum(word == one.true for word, one in zip(falsely, asked))
            shares = [
                f"{count / len(asked):.1%}" for count in (right, believed, carried, len(asked) - believed - carried)
            ]
            print(f"| {path.name} | {length:,} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
