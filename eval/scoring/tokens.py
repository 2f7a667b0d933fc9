"""Score traces of one-token formats, in which every token has its place: position by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from remedy.data_gen.examples import Example
from remedy.data_gen.roles import Role
from remedy.eval.decoding import TEACHER_FORCED
from remedy.eval.failures import Failure
from remedy.eval.records import Matches, Score
from remedy.eval.scoring.common import ANSWER_CHARACTERS, Decoded, operation_behind, share, spliced, storable
from remedy.models.tokenizer import Encoded, TraceTokenizer

ROLE_FAILURES: Mapping[Role, Failure] = {
    Role.STRUCTURE: Failure.MALFORMED,
    Role.ACTION: Failure.WRONG_ACTION,
    Role.QUERY: Failure.WRONG_QUERY,
    Role.STATE: Failure.WRONG_STATE,
    Role.VALUE: Failure.WRONG_RETURN,
}
"""The failure class of a first error by the role of its token, which is all of a frame's part."""


class _Place(NamedTuple):
    """One token of the true sequence, and what was written there: None where the model wrote nothing."""

    position: int
    role: Role
    frame: int
    right: bool


def score_tokens(decoded: Decoded, tokenizer: TraceTokenizer) -> Score:
    """One example's score. Tokens are compared at their place in the true sequence; fed ones are right."""
    example, truth, runs = decoded.example, decoded.truth, decoded.runs
    written: dict[int, int | None] = {}
    for run in runs:
        for offset, position in enumerate(range(run.start, run.stop)):
            written[position] = run.ids[offset] if offset < len(run.ids) else None
    places = [
        _Place(at, Role(role), frame, written.get(at, token) == token)
        for at, (token, role, frame) in enumerate(zip(truth.ids, truth.roles, truth.frames))
        if role != Role.CONTEXT
    ]
    numbers = sorted({place.frame for place in places if place.role is not Role.STRUCTURE})
    error = next((place for place in places if not place.right), None)
    answer = answer_start(truth, example)
    if decoded.fed == TEACHER_FORCED:  # what was written was not read: a wrong question changed nothing that follows
        right = all(place.right for place in places if place.position >= answer and place.role in _SAID)
    else:
        whole = spliced(truth.ids, runs)
        separators = [[token for token in ids if tokenizer.is_special(token)] for ids in (whole, truth.ids)]
        right = whole[answer - len(truth.ids) :] == list(truth.ids[answer:]) and separators[0] == separators[1]
    cut = any(not run.complete for run in runs)
    specials_right = all(
        tokenizer.is_special(truth.ids[at]) == (token is not None and tokenizer.is_special(token))
        for at, token in written.items()
    )
    score: Score = {
        "right": right,
        "valid_format": not cut and specials_right and None not in written.values(),
        "truncated": cut,
        "written_tokens": sum(len(run.ids) for run in runs),
        "frames": len(numbers),
        "frames_right": len(numbers),
        "first_error_frame": -1,
        "first_error_token": -1,
        "first_error_role": "",
        "first_error_in_string": False,
        "failure": "",
        "value_type": "",
        "operation": "",
        "answer": storable(_answer(truth, spliced(truth.ids, runs), answer, tokenizer)[:ANSWER_CHARACTERS]),
        "true_answer": example.answer[:ANSWER_CHARACTERS],
        **_matches(places, numbers),
    }
    if error is None:
        return score
    number = min(error.frame, numbers[-1])
    score["frames_right"] = sum(other < error.frame for other in numbers)
    score["first_error_frame"] = number
    score["first_error_token"] = error.position
    score["first_error_role"] = error.role.label
    score["first_error_in_string"] = bool(truth.strings[error.position])
    if right:
        return score
    score["failure"] = Failure.RUNAWAY if cut else ROLE_FAILURES[error.role]
    score["operation"] = operation_behind(example, number, error.role)
    if score["failure"] == Failure.WRONG_STATE:
        state = example.trace.frames[number].locals or {}
        name = tokenizer.decode(truth.ids[error.position - 1 : error.position])
        score["value_type"] = state[name].type if name in state else ""
    return score


_SAID = frozenset({Role.STATE, Role.VALUE})


def answer_start(truth: Encoded, example: Example) -> int:
    """Position where the final answer begins: the last frame's first VALUE token, or STATE where no frame has a value; of a program
    that raised, its exception's."""
    raised = example.trace.exception_frame
    for role in (Role.VALUE, Role.STATE):
        frames = [frame for frame, r in zip(truth.frames, truth.roles) if r == role]
        if frames:
            last = raised if raised in frames else max(frames)
            return next(i for i, (f, r) in enumerate(zip(truth.frames, truth.roles)) if f == last and r == role)
    return len(truth.ids)


def _answer(truth: Encoded, ids: Sequence[int], answer: int, tokenizer: TraceTokenizer) -> str:
    """The answer as written, in the words of the true one: a value, or `name=value` for each variable of a final state."""
    start = answer - len(truth.ids)
    tail = list(zip(ids[start - 1 :], truth.roles[start - 1 :]))
    said = []
    for (before, _), (token, role) in pairwise(tail):
        if role == Role.VALUE:
            said.append(tokenizer.decode([token]))
        elif role == Role.STATE:
            said.append(f"{tokenizer.decode([before])}={tokenizer.decode([token])}")
    return ",".join(said)


def _matches(places: Sequence[_Place], numbers: Sequence[int]) -> Matches:
    """Shares of the frames and variables that are right."""
    wrong_states = {place.frame for place in places if place.role in (Role.QUERY, Role.STATE) and not place.right}
    wrong_actions = {place.frame for place in places if place.role is Role.ACTION and not place.right}
    states = len({place.frame for place in places if place.role is Role.STATE})
    named = {place.position: place.right for place in places if place.role is Role.QUERY}
    values = [place.right and named.get(place.position - 1, True) for place in places if place.role is Role.STATE]
    return Matches(
        state_exact=share(states - len(wrong_states), states),
        action_exact=share(len(numbers) - len(wrong_actions), len(numbers)),
        key_match=share(sum(named.values()), len(named)),
        key_value_match=share(sum(values), len(values)),
        states=states,
        actions=len(numbers),
    )
