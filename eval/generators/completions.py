"""Requests to vLLM and its replies, as token ids and never as text.

The form is OpenAI's `/v1/completions` with vLLM's additions (vLLM 0.32: `vllm/entrypoints/openai/completion/protocol.py`,
`vllm/v1/engine/logprobs.py`). vLLM masks logits before it computes log-probabilities (`gpu_model_runner.py`), except those of a
prompt: under a grammar the removed probability is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError

from remedy.eval.generators.scores import Scores
from remedy.messages import one_line
from remedy.settings import UserError

PATH = "/v1/completions"
LIKELIEST = 2
"""Number of likeliest tokens requested at each position: the best one and its margin."""
GREEDY = {"temperature": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Penalties apply to greedy decoding too. Without these values a server may take them from the model's generation_config.json."""
TOKENS = {
    "ignore_eos": True,  # the end of text is in `stops` wherever it ends a run
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "add_special_tokens": False,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
    "logprobs": LIKELIEST,
}
"""Send and return every token by its id, unchanged."""
POSITIVE = 1e-3
"""Largest log-probability that rounding may give to a probability of 1."""
LEAST = -math.log(2**31)
"""Smallest log-probability of the likeliest token: no vocabulary has more than 2**31 tokens."""
FORM = f"vLLM gives ids from 0.10.2 on, and log-probabilities unless it has --logprobs-mode or --max-logprobs below {LIKELIEST}"


class Question(NamedTuple):
    """Request for at most `most` tokens after a prompt, up to one of `stops`.

    `first`: also predict `prompt[first:]`. `allowed`: the only ids that may be written. `grammar`: in llguidance's Lark dialect.
    """

    prompt: list[int]
    most: int
    stops: Sequence[int] = ()
    first: int | None = None
    allowed: Sequence[int] = ()
    grammar: str = ""


class Answer(NamedTuple):
    """Parsed reply: the model it names, its predictions, and known texts of ids."""

    model: str
    predicted: Scores
    names: Mapping[int, str]


class BadReply(UserError):
    """Reply that lacks required content or contradicts itself."""


class Reply(BaseModel):
    """Part of a reply that is used. Other keys are ignored."""

    model_config = ConfigDict(strict=True)


T = TypeVar("T", bound=Reply)
Id = Annotated[int, Field(ge=0, lt=2**31)]
Logprob = Annotated[float, Field(le=POSITIVE)]
Likeliest = Field(min_length=LIKELIEST)


def _id(name: str) -> int:
    return int(name.removeprefix("token_id:"))


class _Scored(Reply):
    logprob: Annotated[Logprob, Field(allow_inf_nan=False)]
    decoded_token: str


class _Logprobs(Reply):
    top_logprobs: list[Annotated[dict[Annotated[Id, BeforeValidator(_id)], Logprob], Likeliest]]


class _Choice(Reply):
    index: Literal[0]
    token_ids: Annotated[list[Id], Field(min_length=1)]
    logprobs: _Logprobs
    prompt_logprobs: list[Annotated[dict[Annotated[Id, Strict(False)], _Scored], Likeliest] | None] | None = None


class _Usage(Reply):
    prompt_tokens: int
    completion_tokens: int


class _Completion(Reply):
    model: str
    choices: Annotated[list[_Choice], Field(min_length=1, max_length=1)]
    usage: _Usage


def checked(form: type[T], content: Any, cure: str) -> T:
    """Return server content in the form that it must have.

    Raises:
        BadReply: it has another form.
    """
    try:
        return form.model_validate(content)
    except ValidationError as error:
        detail = error.errors()[0]
        raise BadReply(f"{one_line('.'.join(map(str, detail['loc'])))}: {detail['msg']}: {cure}") from None


def ask(model: str, question: Question) -> dict[str, Any]:
    """Return the JSON content of a request."""
    prompt, most, stops, first, allowed, grammar = question
    content = {"model": model, "prompt": prompt, "max_tokens": most, "stop_token_ids": list(stops)}
    scored = {} if first is None else {"prompt_logprobs": LIKELIEST}
    limits = ({"allowed_token_ids": list(allowed)} if allowed else {}) | (
        {"structured_outputs": {"grammar": grammar}} if grammar else {}
    )
    return content | GREEDY | TOKENS | scored | limits


def read(reply: Mapping[str, Any], question: Question) -> Answer:
    """Return the parsed reply to a request.

    Raises:
        BadReply: counts, token ids or log-probabilities do not fit the request.
    """
    whole = checked(_Completion, reply, FORM)
    choice, usage, prompt = whole.choices[0], whole.usage, question.prompt
    first = len(prompt) if question.first is None else question.first
    ids, written = choice.token_ids, choice.logprobs.top_logprobs
    scored = [candidates or {} for candidates in (choice.prompt_logprobs or [])[first:]]
    counts = usage.prompt_tokens, len(scored), usage.completion_tokens, len(written)
    if counts != (len(prompt), len(prompt) - first, len(ids), len(ids)) or len(ids) > question.most:
        raise BadReply(
            f"{len(prompt)} tokens were sent and {len(ids)} came back, of at most {question.most}; by the server's count {counts[0]} "
            f"were read and {counts[2]} written, and it gives the log-probabilities of {counts[1]} and {counts[3]}: something between "
            f"adds, cuts or strips tokens, without which a trace cannot be read: ask the server itself; {FORM}"
        )
    candidates_at = [{token: entry.logprob for token, entry in candidates.items()} for candidates in scored] + written
    if any(token not in candidates for token, candidates in zip(prompt[first:] + ids, candidates_at)):
        raise BadReply("the log-probabilities are not those of the token ids: something between changes tokens")
    tokens = [
        min(candidates, key=lambda token: (-candidates[token], token)) for candidates in candidates_at[: len(scored)]
    ] + ids
    logprobs = [candidates[token] for token, candidates in zip(tokens, candidates_at)]
    likeliest = [nlargest(2, candidates.values()) for candidates in candidates_at]
    if not (question.allowed or question.grammar):
        if any(logprob < best - POSITIVE for logprob, (best, _) in zip(logprobs, likeliest)):
            raise BadReply(
                "the model wrote a token that is not the likeliest: the server samples, or penalises repetition, though it is asked "
                "not to"
            )
        if min(logprobs) < LEAST - POSITIVE:
            raise BadReply(f"what the server gives are no log-probabilities: {FORM}")
    names = {token: entry.decoded_token for candidates in scored for token, entry in candidates.items()}
    return Answer(whole.model, Scores(tokens, logprobs, [best - next_best for best, next_best in likeliest]), names)
