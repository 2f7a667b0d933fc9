"""Requests to vLLM and its replies, as token ids and never as text.

The form is OpenAI's `/v1/completions` with vLLM's additions (vLLM 0.32: `vllm/entrypoints/openai/completion/protocol.py`,
`vllm/v1/engine/logprobs.py`). vLLM masks logits before it computes log-probabilities (`gpu_model_runner.py`), except those of a
prompt: under a grammar the removed probability is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError

from remedy.eval.generators.scores import Scores
from remedy.messages import one_line

PATH = "/v1/completions"
LIKELIEST = 2
"""Number of likeliest tokens requested at each position: the best one and its margin."""
SETTINGS = {
    # Penalties apply to greedy decoding too. Without these values a server may take them from generation_config.json.
    "temperature": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    # Every token is sent and returned by its id, unchanged.
    "ignore_eos": True,  # the end of text is in `stops` wherever it ends a run
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "add_special_tokens": False,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
    "logprobs": LIKELIEST,
}
CURE = (
    "needed is vLLM 0.10.2 or later, asked with nothing between that changes requests or replies, without --logprobs-mode, and "
    f"with --max-logprobs of {LIKELIEST} or more"
)
"""What to do about a reply that lacks required content or contradicts itself."""
POSITIVE = 1e-3
"""Largest log-probability that rounding may give to a probability of 1."""
LEAST = -math.log(2**31)
"""Smallest log-probability of the likeliest of 2**31 tokens, more than a vocabulary has. Logits may be smaller."""


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


class Reply(BaseModel):
    """Part of a reply that is used. Other keys are ignored."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def checked(cls, content: Mapping[str, Any]) -> Self:
        """Return server content in the form that it must have.

        Raises:
            ValueError: it has another form.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            detail = error.errors()[0]
            raise ValueError(f"{one_line('.'.join(map(str, detail['loc'])))}: {detail['msg']}") from None


Id = Annotated[int, Field(ge=0, lt=2**31)]
NamedId = Annotated[Id, BeforeValidator(lambda name: int(name.removeprefix("token_id:")))]
Logprob = Annotated[float, Field(le=POSITIVE)]
Likeliest = Field(min_length=LIKELIEST)


class _Scored(Reply):
    logprob: Annotated[Logprob, Field(allow_inf_nan=False)]
    decoded_token: str


class _Completion(Reply):
    model: str
    choices: list[Any] = Field(max_length=1)
    index: Literal[0] = Field(validation_alias=AliasPath("choices", 0, "index"))
    prompt_tokens: int = Field(validation_alias=AliasPath("usage", "prompt_tokens"))
    completion_tokens: int = Field(validation_alias=AliasPath("usage", "completion_tokens"))
    ids: list[Id] = Field(min_length=1, validation_alias=AliasPath("choices", 0, "token_ids"))
    written: list[Annotated[dict[NamedId, Logprob], Likeliest]] = Field(
        validation_alias=AliasPath("choices", 0, "logprobs", "top_logprobs")
    )
    scored: list[Annotated[dict[Annotated[Id, Strict(False)], _Scored], Likeliest] | None] | None = Field(
        default=None, validation_alias=AliasPath("choices", 0, "prompt_logprobs")
    )


def ask(model: str, question: Question) -> dict[str, Any]:
    """Return the JSON content of a request."""
    prompt, most, stops, first, allowed, grammar = question
    content = {"model": model, "prompt": prompt, "max_tokens": most, "stop_token_ids": list(stops), **SETTINGS}
    if first is not None:
        content["prompt_logprobs"] = LIKELIEST
    if allowed:
        content["allowed_token_ids"] = list(allowed)
    if grammar:
        content["structured_outputs"] = {"grammar": grammar}
    return content


def beginning(ids: Iterable[int]) -> str:
    """Return a grammar, in llguidance's Lark: one of these tokens, then any."""
    first = " | ".join(f"<[{token}]>" for token in ids)
    return f"%llguidance {{}}\nstart: first rest\nfirst: {first}\nrest: | rest <[*]>\n"


def read(content: Mapping[str, Any], question: Question) -> Answer:
    """Return the parsed reply to a request.

    Raises:
        ValueError: counts, token ids or log-probabilities do not fit the request.
    """
    reply, prompt = _Completion.checked(content), question.prompt
    if reply.prompt_tokens != len(prompt) or len(reply.ids) > question.most:
        raise ValueError(
            f"{len(prompt)} tokens were sent, {reply.prompt_tokens} by the server's count, and {len(reply.ids)} came back, of at most "
            f"{question.most}"
        )
    true_ids = [] if question.first is None else prompt[question.first :]
    entries = [entry or {} for entry in (reply.scored or [])[len(prompt) - len(true_ids) :]]
    candidates_at = [{token: scored.logprob for token, scored in entry.items()} for entry in entries] + reply.written
    counts = len(entries), len(reply.written), reply.completion_tokens
    fits = counts == (len(true_ids), len(reply.ids), len(reply.ids))
    at_ids = zip(true_ids + reply.ids, candidates_at)
    if not fits or any(token not in logprobs or max(logprobs.values()) < LEAST for token, logprobs in at_ids):
        raise ValueError("what the server gives are no log-probabilities of the token ids")
    ranked = [sorted(logprobs.items(), key=lambda item: (-item[1], item[0])) for logprobs in candidates_at]
    tokens = [best for (best, _), *_ in ranked[: len(true_ids)]] + reply.ids
    logprobs = [of_token[token] for token, of_token in zip(tokens, candidates_at)]
    limited = question.allowed or question.grammar
    if not limited and any(logprob < best - POSITIVE for logprob, ((_, best), *_) in zip(logprobs, ranked)):
        raise ValueError("the server samples, or penalises repetition: a token is not the likeliest")
    names = {token: scored.decoded_token for entry in entries for token, scored in entry.items()}
    margins = [best - second for (_, best), (_, second), *_ in ranked]
    return Answer(reply.model, Scores(tokens, logprobs, margins), names)
