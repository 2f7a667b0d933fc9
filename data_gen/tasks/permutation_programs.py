"""Permutation programs: n variables and a list of commands that permute their values, many programs at a time.

Two public forms. The *function form* (the diagnostic of "Debugging code world models") is a Python function that is really
traced; the *REPL form* (its companion paper) is a list of commands whose states are computed here, and held equal to real
execution by a test.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from math import factorial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from remedy import rng
from remedy.data_gen.execution.program import MARKER, Event, Frame, Program, Trace, Value

NAMES = "abcdefgh"
# The first random position of each draw.
_LENGTH, _VALUES, _SIZE, _PAIR, _PLACE, _MOVES, _REPERTOIRE = 0, 1, 11, 12, 13, 16, 1 << 20

PUBLISHED_DOCSTRING = '"""Execute the REPL trace operations."""'

Ints = npt.NDArray[np.int64]
Moves = Literal["swaps", "full"]
Answer = Literal["string", "print", "none"]


@lru_cache
def move_table(n: int, kind: Moves) -> Ints:
    """All moves as index arrays, in lexicographic order; shape (M, n). New value i is old value `table[m, i]`.

    M is n(n-1)/2 swaps, or all n! permutations.
    """
    if kind == "full":
        return np.array(list(itertools.permutations(range(n))), dtype=np.int64)
    rows = []
    for a, b in itertools.combinations(range(n), 2):
        row = list(range(n))
        row[a], row[b] = b, a
        rows.append(row)
    return np.array(sorted(rows), dtype=np.int64)


@lru_cache
def commands(n: int, kind: Moves) -> list[str]:
    """The command of every move, in the order of `move_table`: `a, b = b, a`; full permutations name all variables."""
    lines = []
    for row in move_table(n, kind).tolist():
        targets = [i for i in range(n) if kind == "full" or row[i] != i]
        lines.append(f"{', '.join(NAMES[i] for i in targets)} = {', '.join(NAMES[row[i]] for i in targets)}")
    return lines


class PermutationBatch(NamedTuple):
    """Programs of one kind of move: `lengths` (B,), starting digits `values` (B, n), commands `moves` (B, T; T the longest).

    A command is its rank in `move_table`. `pairs` (B,): how many held-out pairs each has, where any are held out.
    """

    kind: Moves
    lengths: Ints
    values: Ints
    moves: Ints
    pairs: Ints | None = None

    @property
    def n(self) -> int:
        """Count the variables."""
        return int(self.values.shape[1])

    def rows(self, chosen: Ints, length: int) -> PermutationBatch:
        """Some of the programs, of at most `length` commands."""
        return PermutationBatch(self.kind, self.lengths[chosen], self.values[chosen], self.moves[chosen, :length])


@lru_cache(maxsize=64)
def held_out_successors(n: int, kind: Moves, count: int, seed: int) -> Ints:
    """Draw ordered pairs of commands that do not commute; shape (M,): the command that a pair forbids after each, or -1.

    No two pairs share their first or their second command, and `count` is at most half of the commands, so that enough are left. Two
    swaps that do not commute make a cycle of three, which is no command; a product of full permutations always is one.
    """
    table = move_table(n, kind)
    successors = np.full(len(table), -1, np.int64)
    attempt = 0
    while (successors >= 0).sum() < count:
        key = rng.key(seed, rng.PAIRS, attempt)
        first, second = (rng.below(rng.bits(key, place), len(table)) for place in range(2))
        commute = (table[first][table[second]] == table[second][table[first]]).all()
        if not commute and successors[first] < 0 and second not in successors:
            successors[first] = second
        attempt += 1
    return successors


def count_pairs(batch: PermutationBatch, successors: Ints) -> Ints:
    """Count the held-out pairs in each program; shape (B,)."""
    inside = np.arange(1, batch.moves.shape[1]) < batch.lengths[:, None]
    found: Ints = ((successors[batch.moves[:, :-1]] == batch.moves[:, 1:]) & inside).sum(axis=1)
    return found


def draw_batch(
    kind: Moves,
    n: int,
    lengths: tuple[int, int],
    distinct_values: bool,
    keys: rng.U64,
    repertoire: tuple[int, int] | None = None,
    successors: Ints | None = None,
    with_pair: bool = False,
) -> PermutationBatch:
    """The programs of a vector of keys, each a function of its key alone; of all commands, or of a repertoire of some.

    Commands are independent and uniform. With `successors`, the held-out pairs, the first command is uniform, and every other one is
    uniform over those of the repertoire that may follow the one before. So no program is drawn again, and lengths and repertoires are
    as without pairs. A program may start from any values with any command: every state still meets every command. `with_pair`:
    a program is drawn as without pairs; then a pair takes the place of two commands, uniform over pairs and places. A repertoire
    has both of its commands.
    """
    drawn = _between(lengths, keys, _LENGTH)
    digits = rng.bits_array(keys, np.arange(_VALUES, _VALUES + 10))
    values = np.argsort(digits, axis=1)[:, :n] if distinct_values else rng.below_array(digits[:, :n], 10)
    positions = np.arange(_MOVES, _MOVES + int(drawn.max(initial=0)))
    bits, every = rng.bits_array(keys, positions), len(move_table(n, kind))
    rows = np.arange(len(keys))[:, None]
    sizes, known = np.full(rows.shape, every), np.broadcast_to(np.arange(every), (len(keys), every))
    pair: Ints | None = None
    if successors is not None and with_pair:
        firsts = np.flatnonzero(successors >= 0)
        first = firsts[_between((0, len(firsts) - 1), keys, _PAIR)]
        pair = np.stack([first, successors[first]], axis=1)
    if repertoire is not None:
        order = rng.bits_array(keys, np.arange(_REPERTOIRE, _REPERTOIRE + every))
        if pair is not None:
            order[rows, pair] = 0, 1  # the first two that the program knows
        sizes, known = _between(repertoire, keys, _SIZE)[:, None], np.argsort(order, axis=1)
    if successors is not None and pair is None:
        return PermutationBatch(kind, drawn, values, _without_pairs(bits, sizes[:, 0], known, successors))
    moves = np.take_along_axis(known, rng.below_array(bits, sizes), axis=1)
    if pair is not None:
        place = rng.below_array(rng.bits_array(keys, np.array([_PLACE])), drawn[:, None] - 1)
        moves[rows, place + np.arange(2)] = pair
    return PermutationBatch(kind, drawn, values, moves)


def _without_pairs(bits: rng.U64, sizes: Ints, known: Ints, successors: Ints) -> Ints:
    """Commands from the first `sizes` (B,) that each program knows, none after one that forbids it; shape (B, T)."""
    rows, moves, places = np.arange(len(bits)), np.empty(bits.shape, np.int64), np.argsort(known, axis=1)
    forbidden = np.full(len(bits), -1)
    for step in range(bits.shape[1]):
        place = np.where(forbidden < 0, sizes, places[rows, forbidden])
        chosen = rng.below_array(bits[:, step], sizes - (place < sizes))
        moves[:, step] = known[rows, chosen + (chosen >= place)]
        forbidden = successors[moves[:, step]]
    return moves


def _between(bounds: tuple[int, int], keys: rng.U64, position: int) -> Ints:
    low, high = bounds
    return low + rng.below_array(rng.bits_array(keys, np.array([position])), high - low + 1)[:, 0]


def content_hash(batch: PermutationBatch, values: bool = True) -> rng.U64:
    """64-bit hash of each program: the same for every spacing, format and encoding it is written in. Without `values` of its commands
    alone, whatever digits they start from. Shape (B,)."""
    kinds = {"swaps": 1, "full": 3}
    state = np.full(len(batch.lengths), rng.mix(batch.n * 7 + kinds[batch.kind]), dtype=np.uint64)
    for column in range(batch.n if values else 0):
        state = rng.mix_array(state + batch.values[:, column].astype(np.uint64) + np.uint64(1))
    # Moves hash by (position, rank), summed: order matters through the position, and a shorter program ends earlier.
    steps = np.arange(batch.moves.shape[1])
    ranked = batch.moves.astype(np.uint64) + (steps.astype(np.uint64) << np.uint64(20))[None, :]
    inside = steps[None, :] < batch.lengths[:, None]
    summed = np.where(inside, rng.mix_array(ranked), np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return rng.mix_array(state + summed + batch.lengths.astype(np.uint64))


def states(batch: PermutationBatch) -> npt.NDArray[np.int8]:
    """Values of all variables before every command and after the last; shape (B, T+1, n)."""
    table = move_table(batch.n, batch.kind)
    count, steps = batch.moves.shape
    out = np.empty((steps + 1, count, batch.n), dtype=np.int8)
    out[0] = batch.values
    offsets = (np.arange(count) * batch.n)[:, None]
    for step in range(steps):
        np.take(out[step].reshape(-1), table[batch.moves[:, step]] + offsets, out=out[step + 1], mode="clip")
    return out.transpose(1, 0, 2)


def session(batch: PermutationBatch, row: int = 0) -> Trace:
    """One program of the batch in REPL form: a LINE frame per command, and a last one without a command.

    The assignments are the trace's `setup`: they give the starting state and belong to the context.
    """
    length = int(batch.lengths[row])
    names = NAMES[: batch.n]
    one = batch.rows(np.array([row]), length)
    lines = commands(batch.n, batch.kind)
    setup = [f"{name} = {value}" for name, value in zip(names, one.values[0].tolist())]
    body = [lines[rank] for rank in one.moves[0].tolist()]
    sources = [line + "\n" for line in body] + [""]
    frames = [
        Frame(Event.LINE, line, source, {name: Value(str(digit), "int") for name, digit in zip(names, state)})
        for line, (source, state) in enumerate(zip(sources, states(one)[0].tolist()), start=len(setup) + 1)
    ]
    return Trace(Program("\n".join(setup + body) + "\n", "permutation session"), frames, setup)


def function(batch: PermutationBatch, row: int = 0, answer: Answer = "string") -> Program:
    """One program of the batch in function form. `print` and `none` are the programs that were published; `string` returns
    `a=X,b=X,...`."""
    length = int(batch.lengths[row])
    names = NAMES[: batch.n]
    lines = commands(batch.n, batch.kind)
    body = ['"""Permute the variables step by step."""' if answer == "string" else PUBLISHED_DOCSTRING]
    body += [f"{name} = {value}" for name, value in zip(names, batch.values[row].tolist())]
    body += [lines[rank] for rank in batch.moves[row, :length].tolist()]
    if answer == "print":
        chosen = names[(length - 1) % batch.n]
        body.append(f'print(f"{chosen} = {{{chosen}}}")')
    elif answer == "string":
        body.append(f'return f"{",".join(f"{name}={{{name}}}" for name in names)}"')
    code = "def execute_repl_trace():\n" + "".join(f"    {line}\n" for line in body)
    main = "return execute_repl_trace()" if answer == "string" else "execute_repl_trace()"
    border = "\n\n" if answer == "string" else ""
    return Program(f"{code}{border}def main():  {MARKER}\n    {main}\n", "permutation function")


@lru_cache(maxsize=64)
def reachable(n: int, kind: Moves, steps: int) -> Ints:
    """All permutations that so many commands can make, as index arrays; shape (R, n).

    After an even number of swaps these are the even ones only.
    """
    table = move_table(n, kind)
    found = np.arange(n, dtype=np.int64)[None, :]
    for step in range(steps):
        if len(found) == len(table) and kind == "full":
            break
        if len(found) == factorial(n) // 2:  # all of one parity: swaps go to the other and back
            return found[:, table[0]] if (steps - step) % 2 else found
        made = found[:, table].reshape(-1, n)
        found = made[np.unique(made @ (8 ** np.arange(n)), return_index=True)[1]]
    return found


def chance(start: Sequence[str], final: Sequence[str], kind: Moves, steps: int) -> float:
    """The probability that a guess among the permutations which `steps` commands can make gives the true final state.

    Above 1 in so many where values repeat, since several permutations then give one state.
    """
    ends = np.array(start)[reachable(len(start), kind, steps)]
    return float((ends == np.array(final)).all(axis=1).mean())
