"""Decode a batch under a condition and score every example of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from remedy.data_gen.examples import Example
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.windows import longest_seen
from remedy.eval.decoding import ANSWERS, TEACHER_FORCED, Generated, decode, fed_roles, feeds_answers, predict
from remedy.eval.diagnostics.condition import Condition
from remedy.eval.generations import Generation, generation
from remedy.eval.records import Score
from remedy.eval.scoring.common import Decoded, not_decoded
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.places import frame_probabilities
from remedy.eval.scoring.tokens import score_tokens
from remedy.models.protocol import Reader
from remedy.models.tokenizer import Encoded, TraceTokenizer


class Result(NamedTuple):
    """What became of one example: its score and what the model wrote."""

    score: Score
    generation: Generation


def score_batch(
    reader: Reader,
    tokenizer: TraceTokenizer,
    batch: Sequence[tuple[Example, Encoded]],
    condition: Condition,
    max_new_tokens: int,
) -> list[Result]:
    """Decode a batch under a condition's forcing and score every example."""
    fed, memory = fed_roles(condition.forcing), condition.data.memory
    decoded = [
        place
        for place, (example, truth) in enumerate(batch)
        if example.outcome == "ok"
        and (reader.limit is None or longest_seen(truth.roles, truth.frames, memory) <= reader.limit)
        and (fed == TEACHER_FORCED or _to_write(truth, fed) <= max_new_tokens)
    ]
    chosen = [batch[place][1] for place in decoded]
    runs = dict(zip(decoded, generate(reader, tokenizer, chosen, condition, max_new_tokens) if chosen else []))
    return [
        _result(Decoded(example, truth, runs[place], fed, condition.data), tokenizer)
        if place in runs
        else Result(
            not_decoded(example, written_roles(condition), feeds_answers(condition.forcing)),
            generation(example.index, "", [], []),
        )
        for place, (example, truth) in enumerate(batch)
    ]


def _result(decoded: Decoded, tokenizer: TraceTokenizer) -> Result:
    score = score_tokens if FORMATS[decoded.data.format].one_token else score_frames
    text = tokenizer.decode(decoded.written(decoded.runs))
    kept = generation(decoded.example.index, text, decoded.runs, frame_probabilities(decoded, tokenizer))
    return Result(score(decoded, tokenizer), kept)


def generate(
    reader: Reader, tokenizer: TraceTokenizer, truths: Sequence[Encoded], condition: Condition, max_new_tokens: int
) -> list[list[Generated]]:
    """What the model writes for each example under a condition's forcing."""
    fed, memory = fed_roles(condition.forcing), condition.data.memory
    if fed == TEACHER_FORCED:
        return predict(reader, truths, written_roles(condition), memory)
    exact = FORMATS[condition.data.format].one_token
    return decode(reader, tokenizer, truths, fed, exact=exact, max_new_tokens=max_new_tokens, memory=memory)


def written_roles(condition: Condition) -> frozenset[Role]:
    """The roles that the model writes, or under teacher forcing predicts: nothing says a program's actions that is not shown."""
    fed = fed_roles(condition.forcing)
    if fed != TEACHER_FORCED:
        return frozenset(Role) - fed
    return frozenset(Role) - {Role.CONTEXT} if condition.data.context else ANSWERS


def _to_write(truth: Encoded, fed: frozenset[Role]) -> int:
    """Tokens of the true sequence that the model has to write."""
    return sum(Role(role) not in fed for role in truth.roles)
