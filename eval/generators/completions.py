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
from collections.abc import Mapping, Sequence
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
Id = Annotated[int, Field(ge=0, lt=2**31)]
Logprob = Annotated[float, Field(le=POSITIVE)]
Likeliest = Field(min_length=LIKELIEST)
Finite = Annotated[Logprob, Field(allow_inf_nan=False)]


class _Scored(Reply):
    logprob: Finite
    decoded_token: str


class _Logprobs(Reply):
    token_logprobs: list[Finite]
    top_logprobs: list[Annotated[dict[str, Logprob], Likeliest]]


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
    choice, usage, prompt = whole.choices[0], whole.usage, question.prompt
    first = len(prompt) if question.first is None else question.first
    ids, logprobs, tops = choice.token_ids, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs
    if len(ids) > question.most:
        raise BadReply(f"it has {len(ids)} tokens, and at most {question.most} were asked for")
    places = [place or {} for place in (choice.prompt_logprobs or [])[first:]]
    counts = usage.prompt_tokens, len(places), usage.completion_tokens, len(tops)
    if counts != (len(prompt), len(prompt) - first, len(ids), len(ids)):
        raise BadReply(
            f"{len(prompt)} tokens were sent and {len(ids)} came back; by the server's count {counts[0]} were read and {counts[2]} "
            f"written, and it gives the log-probabilities of {counts[1]} and {counts[3]}: something between adds, cuts or strips "
            f"tokens, without which a trace cannot be read: ask the server itself; {FORM}"
        )
    if [top.get(f"token_id:{token}") for token, top in zip(ids, tops)] != logprobs or any(
        token not in place for token, place in zip(prompt[first:], places)
    ):
        raise BadReply("the log-probabilities are not those of the token ids: something between changes tokens")
    held = bool(question.allowed or question.grammar)
    rows = [sorted(top.values(), reverse=True) for top in tops]
    if not held and any(logprob < row[0] - POSITIVE for logprob, row in zip(logprobs, rows)):
        raise BadReply(
            "the model wrote a token that is not the likeliest: the server samples, or penalises repetition, though it is asked not to"
        )
    scored = [sorted((-about.logprob, token) for token, about in place.items()) for place in places]
    likeliest = [-place[0][0] for place in scored]
    if any(logprob < LEAST - POSITIVE for logprob in likeliest + logprobs * (not held)):
        raise BadReply(f"what the server gives are no log-probabilities: {FORM}")
    margins = [place[1][0] - place[0][0] for place in scored] + [row[0] - row[1] for row in rows]
    names = {token: about.decoded_token for place in places for token, about in place.items()}
    return Answer(whole.model, Scores([place[0][1] for place in scored] + ids, likeliest + logprobs, margins), names)
