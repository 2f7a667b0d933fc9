"""Permutation examples in the symbolic form as ready arrays, a whole batch at a time.

The arrays are token for token what `render` writes for the same programs (a test holds that); this path exists because
rendering spans one example at a time would starve even a small model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from remedy import rng
from remedy.data_gen.roles import PAD_ROLE, Role, Special
from remedy.data_gen.tasks.permutation_programs import NAMES, Moves, PermutationBatch, commands, states
from remedy.data_gen.tasks.task import TokenArrays
from remedy.data_gen.traces.reveal import REVEAL_POSITION, RevealConfig, chosen_variable


def vocabulary(n: int, kind: Moves) -> list[str]:
    """Every symbol of the task, in the order of their ids: variables, digits, the unchanged mark, commands."""
    return [*NAMES[:n], *"0123456789", "..", *commands(n, kind)]


def batch_arrays(batch: PermutationBatch, keys: rng.U64, reveal: RevealConfig, context: bool) -> TokenArrays:
    """Token, role and frame arrays of the drawn programs."""
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
    command0 = digit0 + 11
    specials = list(Special)
    moves = batch.moves[:, :length] + command0
    values = states(batch._replace(moves=batch.moves[:, :length])) + digit0

    plan = _plan(n, length, reveal, context)
    ids = np.empty((count, len(plan.roles)), dtype=np.int64)
    ids[:, 0] = specials.index(Special.BEGIN_OF_TEXT)
    ids[:, 1 : 2 * n : 2] = np.arange(name0, digit0)
    ids[:, 2 : 2 * n + 1 : 2] = values[:, 0]
    if context:
        ids[:, 1 + 2 * n : 1 + 2 * n + length] = moves
    ids[:, plan.separator] = specials.index(Special.FRAME_SEP)
    ids[:, plan.command_positions] = moves
    ids[:, plan.full_positions] = np.arange(name0, digit0)
    ids[:, plan.full_positions + 1] = values[:, plan.full_frames]
    for ordinal, (position, frame) in enumerate(plan.partial):
        if reveal.locals == "one_at_random":
            bits = rng.bits_array(keys, np.array([REVEAL_POSITION + ordinal]))
            variable = rng.below_array(bits, n)[:, 0]
        else:
            variable = np.full(count, chosen_variable(reveal, n, ordinal, 0))
        ids[:, position] = name0 + variable
        ids[:, position + 1] = values[np.arange(count), frame, variable]
    ids[:, -1] = specials.index(Special.END_OF_TEXT)
    shape = ids.shape
    return TokenArrays(
        ids,
        np.broadcast_to(plan.roles, shape),
        np.broadcast_to(plan.frames, shape),
        np.full(count, shape[1], dtype=np.int64),
    )


class _Plan(NamedTuple):
    """Layout of an example of one length; shared by all rows of a batch."""

    roles: npt.NDArray[np.int8]
    frames: npt.NDArray[np.int32]
    separator: int
    command_positions: npt.NDArray[np.int64]
    full_positions: npt.NDArray[np.int64]
    """Positions of variable names in full reveals, (reveals, n); the value stands one further."""
    full_frames: npt.NDArray[np.int64]
    partial: list[tuple[int, int]]
    """(position of the name, frame) of each one-variable reveal."""


def _plan(n: int, length: int, reveal: RevealConfig, context: bool) -> _Plan:
    separator = 1 + 2 * n + (length if context else 0)
    roles = [Role.CONTEXT] * (separator + 1)
    frames = [-1] * len(roles)
    actions, full, full_frames, partial = [], [], [], []
    for frame in range(length + 1):
        if reveal.keeps(frame, length):
            whole = reveal.locals == "full" or frame == length
            if whole:
                full.append([len(roles) + 2 * i for i in range(n)])
                full_frames.append(frame)
            else:
                partial.append((len(roles), frame))
            shown = n if whole else 1
            roles += [Role.QUERY, Role.STATE] * shown
            frames += [frame] * (2 * shown)
        if frame < length:
            actions.append(len(roles))
            roles.append(Role.ACTION)
            frames.append(frame)
    roles.append(Role.STRUCTURE)
    frames.append(length + 1)
    return _Plan(
        np.array(roles, np.int8),
        np.array(frames, np.int32),
        separator,
        np.array(actions, np.int64),
        np.array(full, np.int64),
        np.array(full_frames, np.int64),
        partial,
    )
