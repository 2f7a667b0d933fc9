"""Requests to vLLM, and its replies: token ids on both sides, never text.

Two things are asked for: what the model writes after some tokens (greedily, up to a number of tokens or one that stops it), and what it
would have written in place of each of the last tokens that it is given.

The form is that of OpenAI's `/v1/completions` with vLLM's additions `return_token_ids`, `prompt_logprobs`, `stop_token_ids`,
`allowed_token_ids`, `structured_outputs` (vLLM 0.32: `vllm/entrypoints/openai/completion/protocol.py`, `vllm/v1/engine/logprobs.py`).
It masks what a grammar does not allow before it takes log-probabilities (`raw_logprobs` too: `gpu_model_runner.py` masks the logits
themselves), and never those of a prompt: under a grammar, what is cut is not told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from remedy.eval.generators.scores import Scores
from remedy.messages import one_line
from remedy.settings import UserError

PATH = "/v1/completions"
LIKELIEST = 2
"""Of each token the two likeliest are asked for: which one it is, and by how much."""
GREEDY = {"temperature": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Penalties count without sampling too, and a server may take them from the model's generation_config.json unless they are given."""
TOKENS = {
    "ignore_eos": True,  # the model's own end is among the stops where it ends anything
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "add_special_tokens": False,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
    "logprobs": LIKELIEST,
}
"""Every token is sent and returned as it is, by its id."""
POSITIVE = 1e-3
"""What rounding may make of the logarithm of a probability of 1."""
LEAST = -math.log(2**31)
"""The likeliest of all tokens has at least this log-probability: no vocabulary has more."""
FORM = f"vLLM gives ids from 0.10.2 on, and log-probabilities unless it has --logprobs-mode or --max-logprobs below {LIKELIEST}"


class Question(NamedTuple):
    """Request for tokens."""

    prompt: list[int]
    """The ids that are read."""
    most: int
    """How many tokens are written at most, up to one of `stops`."""
    stops: Sequence[int] = ()
    first: int | None = None
    """The place in the prompt from which on it is asked for what would have been written."""
    allowed: Sequence[int] = ()
    """Ids that alone may be written, for trying a server; by default all."""
    grammar: str = ""
    """What may be written, in llguidance's Lark; by default anything."""


class Answer(NamedTuple):
    """A reply, read."""

    model: str
    """The model that wrote it, as the server says."""
    predicted: Scores
    """What would have been written in place of `prompt[first:]`, and what is written after the prompt."""
    names: Mapping[int, str]
    """The text of ids, as far as the server says it."""


class BadReply(UserError):
    """A reply that lacks what was asked for, or contradicts itself."""


class Reply(BaseModel):
    """Part of a reply that is used. Other keys may stand beside it."""

    model_config = ConfigDict(strict=True)


T = TypeVar("T", bound=Reply)
Id = Annotated[int, Field(ge=0)]
Logprob = Annotated[float, Field(le=POSITIVE)]
Finite = Annotated[Logprob, Field(allow_inf_nan=False)]


class _Scored(Reply):
    logprob: Finite
    decoded_token: str | None = None


class _Logprobs(Reply):
    tokens: list[str]
    token_logprobs: list[Finite]
    top_logprobs: list[dict[str, Logprob]]


class _Choice(Reply):
    index: Literal[0]
    token_ids: Annotated[list[Id], Field(min_length=1)]
    logprobs: _Logprobs
    prompt_logprobs: list[dict[Annotated[Id, Strict(False)], _Scored] | None] | None = None


class _Usage(Reply):
    prompt_tokens: int
    completion_tokens: int


class _Completion(Reply):
    model: str
    choices: Annotated[list[_Choice], Field(min_length=1, max_length=1)]
    usage: _Usage


def checked(form: type[T], content: Any, cure: str) -> T:
    """Return content of a server in the form that it must have.

    Raises:
        BadReply: it has another; the message says where, and what to do.
    """
    try:
        return form.model_validate(content)
    except ValidationError as error:
        detail = error.errors()[0]
        raise BadReply(f"{one_line('.'.join(map(str, detail['loc'])))}: {detail['msg']}: {cure}") from None


def ask(model: str, question: Question) -> dict[str, Any]:
    """The content of a request."""
    extra = {
        "prompt_logprobs": None if question.first is None else LIKELIEST,
        "allowed_token_ids": list(question.allowed) or None,
        "structured_outputs": {"grammar": question.grammar} if question.grammar else None,
    }
    return {
        "model": model,
        "prompt": question.prompt,
        "max_tokens": question.most,
        "stop_token_ids": list(question.stops),
        **GREEDY,
        **TOKENS,
        **{key: value for key, value in extra.items() if value is not None},
    }


def read(reply: Mapping[str, Any], question: Question) -> Answer:
    """Return what a reply says.

    Raises:
        BadReply: it lacks something, or contradicts itself; the message says where, and what to do.
    """
    whole = checked(_Completion, reply, FORM)
    choice, prompt, first = whole.choices[0], question.prompt, question.first
    ids, logprobs, tops = choice.token_ids, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs
    names = [f"token_id:{token}" for token in ids]
    listed = [] if first is None else choice.prompt_logprobs or []
    if whole.usage.prompt_tokens != len(prompt) or len(listed) != (0 if first is None else len(prompt)):
        raise BadReply(
            f"the server read {whole.usage.prompt_tokens:,} tokens where {len(prompt):,} were sent, and gives the log-probabilities of "
            f"{len(listed):,}: something between adds or cuts tokens, or {FORM}"
        )
    if not len(ids) == len(tops) == whole.usage.completion_tokens or choice.logprobs.tokens != names:
        raise BadReply(
            f"the model wrote {whole.usage.completion_tokens} tokens, and {len(ids)} other ids came back: something between changes or "
            "strips tokens, without which a trace cannot be read: ask the server itself"
        )
    if [top.get(name) for name, top in zip(names, tops)] != logprobs:
        raise BadReply("the log-probabilities of the tokens that were written are not those of their ids")
    places = [place or {} for place in listed[first:]]
    if any(token not in place or len(place) < LIKELIEST for token, place in zip(prompt[first:], places)):
        raise BadReply(f"the log-probabilities of the prompt are not of the tokens that were sent, or too few: {FORM}")
    held = bool(question.allowed or question.grammar)
    if not held and any(logprob < max(top.values()) - POSITIVE for logprob, top in zip(logprobs, tops)):
        raise BadReply(
            "the model wrote a token that is not the likeliest: the server samples, or penalises repetition, though it is asked not to"
        )
    scored = [sorted((-about.logprob, token) for token, about in place.items()) for place in places]
    found = [-place[0][0] for place in scored]
    if any(logprob < LEAST - POSITIVE for logprob in (found if held else found + logprobs)):
        raise BadReply(f"what the server gives are no log-probabilities: {FORM}")
    margins = [place[1][0] - place[0][0] for place in scored] + [_margin(top.values()) for top in tops]
    texts = {token: about.decoded_token for place in places for token, about in place.items()}
    predicted = Scores([place[0][1] for place in scored] + ids, found + logprobs, margins)
    return Answer(whole.model, predicted, {token: text for token, text in texts.items() if text is not None})


def _margin(logprobs: Iterable[float]) -> float:
    """Return how far the likeliest is above the next."""
    best, second, *_ = *sorted(logprobs, reverse=True), -math.inf
    return best - second
