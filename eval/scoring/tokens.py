"""Scorer for one-token formats, position by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from remedy.data_gen.examples import Example
from remedy.data_gen.execution.program import UNCHANGED
from remedy.data_gen.roles import Role
from remedy.eval.records.failures import Failure
from remedy.eval.records.schema import Matches, Score
from remedy.eval.scoring.common import (
    ANSWER_CHARACTERS,
    DecodedExample,
    count_frames,
    errorless,
    first_error,
    followed_another,
    operation_behind,
    share_right,
    spliced,
    storable,
)
from remedy.models.tokenizer import Encoded, TraceTokenizer

ROLE_FAILURES: Mapping[Role, Failure] = {
    Role.STRUCTURE: Failure.MALFORMED,
    Role.EVENT: Failure.WRONG_ACTION,
    Role.ACTION: Failure.WRONG_ACTION,
    Role.QUERY: Failure.WRONG_QUERY,
    Role.STATE: Failure.WRONG_STATE,
    Role.VALUE: Failure.WRONG_RETURN,
}
"""Failure class by the role of the first wrong token."""


class _TokenPair(NamedTuple):
    """True token and the token written in its place (None: none).

    `right`: both are equal, or after `_by_meaning` mean the same.
    """

    position: int
    role: Role
    frame: int
    token: int
    written: int | None
    right: bool


def score_tokens(decoded: DecodedExample, tokenizer: TraceTokenizer) -> Score:
    """Score one example. Fed tokens are right."""
    example, truth, runs = decoded.example, decoded.truth, decoded.runs
    pairs = _by_meaning(decoded, _token_pairs(decoded), tokenizer)
    numbers = sorted({pair.frame for pair in pairs if pair.role is not Role.STRUCTURE})
    error = next((pair for pair in pairs if not pair.right), None)
    answer = answer_start(truth, example)
    sequence = spliced(truth.ids, runs)
    separators = [[token for token in ids if tokenizer.is_special(token)] for ids in (sequence, truth.ids)]
    answer_rights = [pair.right for pair in pairs if pair.position >= answer]
    # An answer may be right after wrong steps, so that only its own tokens count; but the trace must be whole.
    right = (
        answer < len(truth.ids)
        and separators[0] == separators[1]
        and (all(answer_rights) or sequence[answer - len(truth.ids) :] == list(truth.ids[answer:]))
    )
    truncated = any(not run.complete for run in runs)
    specials_right = all(
        pair.written is not None and tokenizer.is_special(pair.token) == tokenizer.is_special(pair.written)
        for pair in pairs
    )
    score: Score = {
        **errorless(decoded, len(numbers), tokenizer),
        "right": None if decoded.answer_fed else right,
        "valid_format": not truncated and specials_right,
        "truncated": truncated,
        "answer": storable(_answer(truth, sequence, answer, tokenizer)[:ANSWER_CHARACTERS]),
        **_matches(decoded, pairs),
    }
    if error is None:
        return score
    number = min(error.frame, numbers[-1])  # the end of the text has a number after all frames
    before = sum(other < error.frame for other in numbers)
    score = {**score, **first_error(decoded, before, number, error.position, error.role)}
    if error.role is Role.ACTION and error.written is not None:
        action_positions = [position for position, role in enumerate(truth.roles) if role == Role.ACTION]
        commands = [truth.ids[position] for position in action_positions]
        score["followed_another"] = followed_another(commands, action_positions.index(error.position), error.written)
    if right or decoded.answer_fed:
        return score
    score["failure"] = Failure.RUNAWAY if truncated else ROLE_FAILURES[error.role]
    score["operation"] = operation_behind(example, number, error.role)
    if score["failure"] == Failure.WRONG_STATE:
        state = example.trace.frames[number].locals or {}
        # In these formats, a value follows the one token of its variable's name.
        name = tokenizer.decode(truth.ids[error.position - 1 : error.position])
        score["value_type"] = state[name].type if name in state else ""
    return score


def _token_pairs(decoded: DecodedExample) -> list[_TokenPair]:
    truth = decoded.truth
    written: dict[int, int | None] = {}
    for run in decoded.runs:
        for offset, position in enumerate(range(run.start, run.stop)):
            written[position] = run.ids[offset] if offset < len(run.ids) else None
    return [
        _TokenPair(
            position, Role(role), frame, token, written.get(position, token), written.get(position, token) == token
        )
        for position, (token, role, frame) in enumerate(zip(truth.ids, truth.roles, truth.frames))
        if role != Role.CONTEXT
    ]


def _by_meaning(decoded: DecodedExample, pairs: Sequence[_TokenPair], tokenizer: TraceTokenizer) -> list[_TokenPair]:
    """Return the pairs, with `right` by meaning: `..` stands for the value last shown.

    That is the model's own value or, where states are fed, the true one.
    """
    pairs_by_meaning: list[_TokenPair] = []
    frame = -1
    # Of true and of written values: `..` looks into the previous state's `memories`, this state fills `latest`.
    memories: list[dict[int, int | None]] = [{}, {}]
    latest: list[dict[int, int | None]] = [{}, {}]
    for before, pair in zip([None, *pairs], pairs):
        if pair.role is Role.STATE and before is not None:
            if pair.frame != frame:
                frame, memories, latest = pair.frame, latest, [{}, {}]
            meanings = []
            # Under teacher forcing, a value answers the true question, not the predicted one.
            asked_id = before.token if decoded.parallel else before.written
            for side, (name, token) in enumerate([(before.token, pair.token), (asked_id, pair.written)]):
                past = memories[0 if Role.STATE in decoded.fed else side]
                known = token is not None and tokenizer.decode([token]) == UNCHANGED.text and name in past
                meanings.append(past[name] if known and name is not None else token)
                if name is not None:
                    latest[side][name] = meanings[-1]
            pair = pair._replace(right=meanings[0] == meanings[1])
        pairs_by_meaning.append(pair)
    return pairs_by_meaning


def answer_start(truth: Encoded, example: Example) -> int:
    """Return the position of the answer's first token.

    It is the first VALUE of the last frame, or of the exception that left the program; without values, the first STATE of the last
    frame.
    """
    raised = example.trace.exception_frame
    for role in (Role.VALUE, Role.STATE):
        starts: dict[int, int] = {}
        for position, frame in enumerate(truth.frames):
            if truth.roles[position] == role:
                starts.setdefault(frame, position)
        if starts:
            last = starts[max(starts)]
            return last if raised is None else starts.get(raised, last)
    return len(truth.ids)


def _answer(truth: Encoded, ids: Sequence[int], answer: int, tokenizer: TraceTokenizer) -> str:
    """Return the written answer: a value, or `name=value` for each variable."""
    start = answer - len(truth.ids)
    tail = list(zip(ids[start - 1 :], truth.roles[start - 1 :]))
    parts = []
    for (before, _), (token, role) in pairwise(tail):
        if role == Role.VALUE:
            parts.append(tokenizer.decode([token]))
        elif role == Role.STATE:
            parts.append(f"{tokenizer.decode([before])}={tokenizer.decode([token])}")
    return ",".join(parts)


def _matches(decoded: DecodedExample, pairs: Sequence[_TokenPair]) -> Matches:
    """Count the right states, actions, variables and values of one trace.

    A state's queries belong to it, except under teacher forcing.
    """
    state_roles = {Role.STATE} if decoded.parallel else {Role.STATE, Role.QUERY}
    wrong_states = {pair.frame for pair in pairs if pair.role in state_roles and not pair.right}
    shown = [pair for pair in pairs if pair.role is Role.STATE]
    rights = {
        Role.STATE: {pair.frame: pair.frame not in wrong_states for pair in shown},
        Role.ACTION: {pair.frame: pair.right for pair in pairs if pair.role is Role.ACTION},
        Role.VALUE: {pair.frame: pair.right for pair in pairs if pair.role is Role.VALUE},
    }
    named = {pair.position: pair.right for pair in pairs if pair.role is Role.QUERY}
    values = [pair.right and (decoded.parallel or named.get(pair.position - 1, True)) for pair in shown]
    respelled = {pair.frame for pair in shown if pair.right and pair.written != pair.token}
    return Matches(
        **count_frames(decoded.wrote, rights, decoded.example),
        key_match=share_right(decoded, {Role.QUERY}, sum(named.values()), len(named)),
        key_value_match=share_right(decoded, {Role.STATE}, sum(values), len(values)),
        respelled=len(respelled - wrong_states),
    )
