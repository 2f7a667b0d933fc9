"""Judge what a model wrote against the truth: is the answer right, where does it first depart, and in which role?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from remedy.data_gen.roles import Role
from remedy.eval.decoding import Written
from remedy.models.tokenizer import Encoded, TraceTokenizer


class Judgement(NamedTuple):
    """One example under one condition. `departure` is the first wrong token's position in the true sequence, or None.

    `frames_right` counts the frames before the departure; `written_tokens` what the model produced.
    """

    final_right: bool
    departure: int | None
    departure_role: str
    departure_frame: int
    frames_right: int
    truncated: bool
    written_tokens: int


def answer_start(truth: Encoded) -> int:
    """Position where the final answer begins: the last frame's first VALUE token, or STATE where no frame has a value."""
    for role in (Role.VALUE, Role.STATE):
        frames = [frame for frame, r in zip(truth.frames, truth.roles) if r == role]
        if frames:
            last = max(frames)
            return next(i for i, (f, r) in enumerate(zip(truth.frames, truth.roles)) if f == last and r == role)
    return len(truth.ids)


def judge_written(truth: Encoded, written: Sequence[Written], tokenizer: TraceTokenizer) -> Judgement:
    """Judge decoded runs. A run counts as right if its ids or, for subword vocabularies, its text are the true ones."""
    departure: int | None = None
    answer = answer_start(truth)
    final_right = True
    for run in written:
        true_ids = truth.ids[run.start : run.stop]
        if run.ids == true_ids or (run.complete and tokenizer.decode(run.ids) == tokenizer.decode(true_ids)):
            continue
        if departure is None:
            departure = run.start + _first_difference(run.ids, true_ids)
        if run.stop > answer:
            # The answer may be right although the way there was not: compare from the answer to the end.
            tail = run.stop - max(answer, run.start)
            final_right = final_right and run.start < answer and run.ids[-tail:] == true_ids[-tail:]
    cut = any(not run.complete for run in written)
    return _judgement(truth, final_right, departure, cut, sum(len(run.ids) for run in written))


def judge_predicted(truth: Encoded, predicted: Sequence[int], judged: frozenset[Role]) -> Judgement:
    """Judge one-step predictions of the tokens whose role is in `judged`."""
    answer = answer_start(truth)
    wrong = [
        position
        for position in range(1, len(truth.ids))
        if truth.roles[position] in judged and predicted[position - 1] != truth.ids[position]
    ]
    said = {Role.STATE, Role.VALUE}
    final_right = not any(p >= answer and truth.roles[p] in said for p in wrong)
    count = sum(role in judged for role in truth.roles)
    return _judgement(truth, final_right, wrong[0] if wrong else None, False, count)


def _judgement(truth: Encoded, final_right: bool, departure: int | None, cut: bool, count: int) -> Judgement:
    frames = max(truth.frames) + 1
    if departure is None:
        return Judgement(final_right, None, "", -1, frames, cut, count)
    at = min(departure, len(truth.ids) - 1)
    first_frame = min((frame for frame in truth.frames if frame >= 0), default=0)
    frame = max(truth.frames[at], first_frame)
    role = Role(truth.roles[at]).label
    return Judgement(final_right, departure, role, frame, frame - first_frame, cut, count)


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int:
    for position, (a, b) in enumerate(zip(left, right)):
        if a != b:
            return position
    return min(len(left), len(right))


def tokens_by_role(truth: Encoded) -> dict[str, int]:
    """Tokens of the true sequence by role, as `tokens_context`, `tokens_structure`, ..."""
    return {role.column: truth.roles.count(int(role)) for role in Role}
