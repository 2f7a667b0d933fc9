"""Decoding and scoring of a batch under a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from remedy.data_gen.examples import Example
from remedy.data_gen.roles import ROLES, Role
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.window_examples import longest_seen
from remedy.eval.decoding.constraints import starts_of
from remedy.eval.decoding.forcings import ANSWERS, TEACHER_FORCED, constraint_of, fed_roles, feeds_answers
from remedy.eval.diagnostics.condition import Condition
from remedy.eval.generators.base import MOST_NEW_TOKENS, DecodingOptions, ModelOutput, Writer, make_requests
from remedy.eval.records.generations import Generation, generation
from remedy.eval.records.schema import Score
from remedy.eval.scoring.common import DecodedExample, not_decoded
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.reading import generated_places
from remedy.eval.scoring.tokens import score_tokens
from remedy.models.tokenizer import Encoded, TraceTokenizer


class Result(NamedTuple):
    """Result of one example."""

    score: Score
    generation: Generation


def write_batch(
    generator: Writer,
    tokenizer: TraceTokenizer,
    batch: Sequence[tuple[Example, Encoded]],
    condition: Condition,
    max_new_tokens: int | None,
) -> dict[int, ModelOutput]:
    """Decode a batch under a condition; return outputs by index.

    Examples that cannot be decoded are left out.
    """
    fed, memory = fed_roles(condition.forcing), condition.data.memory
    most = max_new_tokens or MOST_NEW_TOKENS
    decoded = [
        index
        for index, (example, truth) in enumerate(batch)
        if example.outcome == "ok"
        and (generator.limit is None or longest_seen(*truth[:3], memory, tokenizer.special_ids) <= generator.limit)
        and (fed == TEACHER_FORCED or sum(Role(role) not in fed for role in truth.roles) <= most)
    ]
    chosen = [batch[index][1] for index in decoded]
    constraint = constraint_of(condition.forcing)
    starts = (
        starts_of(constraint, [batch[index][0] for index in decoded], condition.data, tokenizer) if constraint else ()
    )
    outputs = (
        generator.generate(make_requests(chosen, starts), decoding_options(condition, max_new_tokens)) if chosen else []
    )
    return dict(zip(decoded, outputs))


def score_batch(
    generator: Writer,
    tokenizer: TraceTokenizer,
    batch: Sequence[tuple[Example, Encoded]],
    condition: Condition,
    max_new_tokens: int | None,
) -> list[Result]:
    fed = fed_roles(condition.forcing)
    outputs = write_batch(generator, tokenizer, batch, condition, max_new_tokens)
    return [
        _result(DecodedExample(example, truth, outputs[index].runs, fed, condition.data), outputs[index], tokenizer)
        if index in outputs
        else Result(
            not_decoded(example, written_roles(condition), feeds_answers(condition.forcing)),
            generation(example.index, "", [], [], tokenizer, truth),
        )
        for index, (example, truth) in enumerate(batch)
    ]


def _result(decoded: DecodedExample, output: ModelOutput, tokenizer: TraceTokenizer) -> Result:
    score = score_tokens if FORMATS[decoded.data.format].one_token else score_frames
    text = tokenizer.decode(decoded.written(decoded.runs))
    places = generated_places(decoded, tokenizer)
    model_generation = generation(
        decoded.example.index, text, output.runs, places, tokenizer, decoded.truth, output.near_ties
    )
    return Result(score(decoded, tokenizer), model_generation)


def decoding_options(condition: Condition, max_new_tokens: int | None) -> DecodingOptions:
    exact, memory = FORMATS[condition.data.format].one_token, condition.data.memory
    constraint = constraint_of(condition.forcing)
    return DecodingOptions(
        fed_roles(condition.forcing), exact, max_new_tokens, written_roles(condition), memory, constraint
    )


def written_roles(condition: Condition) -> frozenset[Role]:
    """Return the roles that the model writes, or predicts under teacher forcing.

    Only supervised roles are predicted, and no actions where no program is shown.
    """
    fed = fed_roles(condition.forcing)
    if fed != TEACHER_FORCED:
        return frozenset(Role) - fed
    predicted = frozenset(Role) - {Role.CONTEXT} if condition.data.context else ANSWERS
    supervised = condition.supervised
    return predicted if supervised is None else predicted & frozenset(ROLES[name] for name in supervised)
