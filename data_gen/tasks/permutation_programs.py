"""Permutation programs: commands that permute n variables, many programs at a time.

The function form (the diagnostic of "Debugging code world models") is traced. The REPL form (its companion paper) has
states computed here.
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
    """Return all n(n-1)/2 swaps or n! permutations as index arrays (M, n).

    In lexicographic order. New value i is old value `table[m, i]`.
    """
    if kind == "full":
        return np.array(list(itertools.permutations(range(n))), dtype=np.int64)
    rows = []
    for first, second in itertools.combinations(range(n), 2):
        row = list(range(n))
        row[first], row[second] = second, first
        rows.append(row)
    return np.array(sorted(rows), dtype=np.int64)


@lru_cache
def commands(n: int, kind: Moves) -> list[str]:
    """Write every move of `move_table` as a command, such as `a, b = b, a`."""
    lines = []
    for row in move_table(n, kind).tolist():
        targets = [i for i in range(n) if kind == "full" or row[i] != i]
        lines.append(f"{', '.join(NAMES[i] for i in targets)} = {', '.join(NAMES[row[i]] for i in targets)}")
    return lines


class PermutationBatch(NamedTuple):
    """Programs as arrays.

    `lengths`, and `pairs`, counts of held-out ones: (B,). `values`, the starting digits: (B, n). `moves`, ranks in
    `move_table`, padded: (B, T).
    """

    kind: Moves
    lengths: Ints
    values: Ints
    moves: Ints
    pairs: Ints | None = None

    @property
    def n(self) -> int:
        return int(self.values.shape[1])

    def rows(self, chosen: Ints, length: int) -> PermutationBatch:
        """Select programs, without `pairs`, their moves cut to `length`."""
        return PermutationBatch(self.kind, self.lengths[chosen], self.values[chosen], self.moves[chosen, :length])


@lru_cache(maxsize=64)
def held_out_successors(n: int, kind: Moves, count: int, seed: int) -> Ints:
    """Draw pairs of commands that do not commute.

    Returns each command's forbidden successor, or -1; (M,). No two pairs share their first or second command.
    """
    table = move_table(n, kind)
    successors = np.full(len(table), -1, np.int64)
    attempt = 0
    while (successors >= 0).sum() < count:
        key = rng.key(seed, rng.PAIRS, attempt)
        first, second = (rng.below(rng.bits(key, position), len(table)) for position in range(2))
        # So that no single command does a pair's work: swaps that do not commute make a three-cycle, which is no command. A product of
        # full permutations always is one.
        commute = (table[first][table[second]] == table[second][table[first]]).all()
        if not commute and successors[first] < 0 and second not in successors:
            successors[first] = second
        attempt += 1
    return successors


def count_pairs(batch: PermutationBatch, successors: Ints) -> Ints:
    """Count the held-out pairs in each program; (B,)."""
    inside = np.arange(1, batch.moves.shape[1]) < batch.lengths[:, None]
    counts: Ints = ((successors[batch.moves[:, :-1]] == batch.moves[:, 1:]) & inside).sum(axis=1)
    return counts


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
    """Draw one program for each key.

    Commands are independent and uniform over the repertoire. With `successors`, each is uniform over those that may follow
    the one before, so that no state is ruled out before any command. `with_pair`: a pair, uniform over pairs and places, replaces
    two commands; a repertoire then has both.
    """
    drawn = _between(lengths, keys, _LENGTH)
    digits = rng.bits_array(keys, np.arange(_VALUES, _VALUES + 10))
    values = np.argsort(digits, axis=1)[:, :n] if distinct_values else rng.below_array(digits[:, :n], 10)
    positions = np.arange(_MOVES, _MOVES + int(drawn.max(initial=0)))
    bits, command_count = rng.bits_array(keys, positions), len(move_table(n, kind))
    rows = np.arange(len(keys))[:, None]
    sizes, ranked = (
        np.full(rows.shape, command_count),
        np.broadcast_to(np.arange(command_count), (len(keys), command_count)),
    )
    pair: Ints | None = None
    if successors is not None and with_pair:
        firsts = np.flatnonzero(successors >= 0)
        first = firsts[_between((0, len(firsts) - 1), keys, _PAIR)]
        pair = np.stack([first, successors[first]], axis=1)
    if repertoire is not None:
        order = rng.bits_array(keys, np.arange(_REPERTOIRE, _REPERTOIRE + command_count))
        if pair is not None:
            order[rows, pair] = 0, 1  # the pair comes first, so that every repertoire has it
        sizes, ranked = _between(repertoire, keys, _SIZE)[:, None], np.argsort(order, axis=1)
    if successors is not None and pair is None:
        return PermutationBatch(kind, drawn, values, _without_pairs(bits, sizes[:, 0], ranked, successors))
    moves = np.take_along_axis(ranked, rng.below_array(bits, sizes), axis=1)
    if pair is not None:
        start = rng.below_array(rng.bits_array(keys, np.array([_PLACE])), drawn[:, None] - 1)
        moves[rows, start + np.arange(2)] = pair
    return PermutationBatch(kind, drawn, values, moves)


def _without_pairs(bits: rng.U64, sizes: Ints, ranked: Ints, successors: Ints) -> Ints:
    """Draw commands (B, T) from each one's first `sizes` (B,), none forbidden."""
    rows, moves, positions = np.arange(len(bits)), np.empty(bits.shape, np.int64), np.argsort(ranked, axis=1)
    forbidden = np.full(len(bits), -1)
    for step in range(bits.shape[1]):
        skipped = np.where(forbidden < 0, sizes, positions[rows, forbidden])
        chosen = rng.below_array(bits[:, step], sizes - (skipped < sizes))
        moves[:, step] = ranked[rows, chosen + (chosen >= skipped)]
        forbidden = successors[moves[:, step]]
    return moves


def _between(bounds: tuple[int, int], keys: rng.U64, position: int) -> Ints:
    low, high = bounds
    return low + rng.below_array(rng.bits_array(keys, np.array([position])), high - low + 1)[:, 0]


def content_hash(batch: PermutationBatch, values: bool = True) -> rng.U64:
    """Hash each program, in any spacing, format or encoding; (B,), 64 bits.

    `values`: hash the starting digits too.
    """
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
    """Return all variables' values before every command and after the last; (B, T+1, n)."""
    table = move_table(batch.n, batch.kind)
    count, steps = batch.moves.shape
    out = np.empty((steps + 1, count, batch.n), dtype=np.int8)
    out[0] = batch.values
    offsets = (np.arange(count) * batch.n)[:, None]
    for step in range(steps):
        np.take(out[step].reshape(-1), table[batch.moves[:, step]] + offsets, out=out[step + 1], mode="clip")
    return out.transpose(1, 0, 2)


def session(batch: PermutationBatch, row: int = 0) -> Trace:
    """Write one program in REPL form.

    `setup` has the starting assignments, which belong to the context.
    """
    length = int(batch.lengths[row])
    names = NAMES[: batch.n]
    program = batch.rows(np.array([row]), length)
    lines = commands(batch.n, batch.kind)
    setup = [f"{name} = {value}" for name, value in zip(names, program.values[0].tolist())]
    body = [lines[rank] for rank in program.moves[0].tolist()]
    sources = [line + "\n" for line in body] + [""]
    frames = [
        Frame(Event.LINE, line, source, {name: Value(str(digit), "int") for name, digit in zip(names, state)})
        for line, (source, state) in enumerate(zip(sources, states(program)[0].tolist()), start=len(setup) + 1)
    ]
    return Trace(Program("\n".join(setup + body) + "\n", "permutation session"), frames, setup)


def function(batch: PermutationBatch, row: int = 0, answer: Answer = "string") -> Program:
    """Write one program in function form.

    `string` returns `a=X,b=X,...`, `print` prints one variable, `none` does neither.
    """
    length = int(batch.lengths[row])
    names = NAMES[: batch.n]
    lines = commands(batch.n, batch.kind)
    body = ['"""Permute the variables step by step."""' if answer == "string" else PUBLISHED_DOCSTRING]
    body += [f"{name} = {value}" for name, value in zip(names, batch.values[row].tolist())]
    body += [lines[rank] for rank in batch.moves[row, :length].tolist()]
    if answer == "print":
        printed = names[(length - 1) % batch.n]  # the variables take turns, by length
        body.append(f'print(f"{printed} = {{{printed}}}")')
    elif answer == "string":
        body.append(f'return f"{",".join(f"{name}={{{name}}}" for name in names)}"')
    code = "def execute_repl_trace():\n" + "".join(f"    {line}\n" for line in body)
    main = "return execute_repl_trace()" if answer == "string" else "execute_repl_trace()"
    border = "\n\n" if answer == "string" else ""
    return Program(f"{code}{border}def main():  {MARKER}\n    {main}\n", "permutation function")


@lru_cache(maxsize=64)
def reachable(n: int, kind: Moves, steps: int) -> Ints:
    """Return all permutations that `steps` commands make, as index arrays (R, n)."""
    table = move_table(n, kind)
    permutations = np.arange(n, dtype=np.int64)[None, :]
    for step in range(steps):
        if len(permutations) == len(table) and kind == "full":
            break
        if len(permutations) == factorial(n) // 2:  # all of one parity: swaps go to the other and back
            return permutations[:, table[0]] if (steps - step) % 2 else permutations
        products = permutations[:, table].reshape(-1, n)
        permutations = products[np.unique(products @ (8 ** np.arange(n)), return_index=True)[1]]
    return permutations


def chance(start: Sequence[str], final: Sequence[str], kind: Moves, steps: int) -> float:
    """Return the chance of a guess among the states that `steps` commands reach."""
    ends = np.array(start)[reachable(len(start), kind, steps)]
    return float((ends == np.array(final)).all(axis=1).mean())
