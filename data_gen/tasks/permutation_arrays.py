"""Permutation examples in symbolic format as arrays, a batch at a time.

They equal what `render` writes, which is too slow for training small models.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from remedy import rng
from remedy.data_gen.roles import PAD_ROLE, Role, Special
from remedy.data_gen.tasks.permutation_programs import NAMES, Ints, Moves, PermutationBatch, commands, session, states
from remedy.data_gen.tasks.task import TextColumns, TokenArrays
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import REVEAL_POSITION, RevealConfig


def vocabulary(n: int, kind: Moves) -> list[str]:
    """Return the task's symbols in the order of their ids, after the special tokens."""
    return [*NAMES[:n], *"0123456789", "..", *commands(n, kind)]


def batch_arrays(batch: PermutationBatch, keys: rng.U64, reveal: RevealConfig, context: bool) -> TokenArrays:
    """Write drawn programs as arrays."""
    if (batch.lengths == batch.lengths[0]).all():
        return _one_length(batch, keys, reveal, context, int(batch.lengths[0]))
    parts = []
    for length in np.unique(batch.lengths):
        rows = np.flatnonzero(batch.lengths == length)
        chosen = batch.rows(rows, int(length))
        parts.append((rows, _one_length(chosen, keys[rows], reveal, context, int(length))))
    width = max(part.ids.shape[1] for _, part in parts)
    shape = (len(batch.lengths), width)
    out = TokenArrays(
        np.zeros(shape, np.int64),
        np.full(shape, PAD_ROLE, np.int8),
        np.full(shape, -1, np.int32),
        np.zeros(shape[0], np.int64),
        partial(_text_columns, batch),
    )
    for rows, part in parts:
        size = part.ids.shape[1]
        out.ids[rows, :size], out.roles[rows, :size], out.frames[rows, :size] = part.ids, part.roles, part.frames
        out.lengths[rows] = size
    return out


def _one_length(
    batch: PermutationBatch, keys: rng.U64, reveal: RevealConfig, context: bool, length: int
) -> TokenArrays:
    n, count = batch.n, len(batch.lengths)
    name0 = len(Special)
    digit0 = name0 + n
    moves = batch.moves[:, :length] + digit0 + 11  # after ten digits and the unchanged mark
    values = states(batch._replace(moves=batch.moves[:, :length])) + digit0
    layout = _layout(n, batch.kind, length, reveal, context)
    ids = np.tile(layout.ids, (count, 1))
    ids[:, 2 : 2 * n + 1 : 2] = values[:, 0]  # after begin-of-text: name, digit, name, digit
    if context:
        ids[:, 1 + 2 * n : 1 + 2 * n + length] = moves
    action_columns, state_columns = (np.flatnonzero(layout.roles == role) for role in (Role.ACTION, Role.STATE))
    ids[:, action_columns] = moves[:, layout.frames[action_columns]]
    ids[:, state_columns] = values[:, layout.frames[state_columns], layout.ids[state_columns - 1] - name0]
    if reveal.locals == "one_at_random":
        for ordinal, column in enumerate(state_columns[:-n]):  # all but the last state, which is whole
            bits = rng.bits_array(keys, np.array([REVEAL_POSITION + ordinal]))
            variable = rng.below_array(bits, n)[:, 0]
            ids[:, column - 1] = name0 + variable
            ids[:, column] = values[np.arange(count), layout.frames[column], variable]
    return TokenArrays(
        ids,
        np.broadcast_to(layout.roles, ids.shape),
        np.broadcast_to(layout.frames, ids.shape),
        np.full(count, ids.shape[1], dtype=np.int64),
        partial(_text_columns, batch),
    )


def _text_columns(batch: PermutationBatch) -> TextColumns:
    lines, lengths = commands(batch.n, batch.kind), batch.lengths.tolist()
    last = states(batch)[np.arange(len(lengths)), batch.lengths].tolist()
    programs = [
        "\n".join([*map("{} = {}".format, NAMES, start), *(lines[rank] for rank in moves[:length])]) + "\n"
        for start, moves, length in zip(batch.values.tolist(), batch.moves.tolist(), lengths)
    ]
    answers = [",".join(map("{}={}".format, NAMES, values)) for values in last]
    count = len(lengths)
    slices = {
        "n": [batch.n] * count,
        "moves": [batch.kind] * count,
        "length": lengths,
        **({} if batch.pairs is None else {"held_out_pairs": batch.pairs}),
        "frame_count": batch.lengths + 1,
    }
    return TextColumns(programs, answers, slices)


class _Layout(NamedTuple):
    """Tokens, roles and frames (T,) that examples of one length share."""

    ids: Ints
    roles: npt.NDArray[np.int8]
    frames: npt.NDArray[np.int32]


@lru_cache(maxsize=1024)
def _layout(n: int, kind: Moves, length: int, reveal: RevealConfig, context: bool) -> _Layout:
    example = PermutationBatch(kind, np.array([length]), np.zeros((1, n), np.int64), np.zeros((1, length), np.int64))
    spans = render(session(example), "symbolic", reveal, context=context).spans
    ids = {symbol: token for token, symbol in enumerate([*Special, *vocabulary(n, kind)])}
    return _Layout(
        np.array([ids[span.piece] for span in spans]),
        np.array([span.role for span in spans], np.int8),
        np.array([span.frame for span in spans], np.int32),
    )
