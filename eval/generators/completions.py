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
from typing import Any, NamedTuple

from remedy.eval.generators.scores import Scores
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

    predicted: Scores
    """What would have been written in place of `prompt[first:]`, and what is written after the prompt."""
    names: Mapping[int, str]
    """The text of ids, as far as the server says it."""


class BadReply(UserError):
    """A reply that lacks what was asked for."""


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
        BadReply: it lacks something; the message says what, and what to do.
    """
    try:
        return _read(reply["choices"][0], reply.get("usage") or {}, question)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise BadReply(f"a reply in another form than vLLM's ({type(error).__name__}: {error})") from None


def _read(choice: Mapping[str, Any], usage: Mapping[str, Any], question: Question) -> Answer:
    ids = choice.get("token_ids")
    if any(type(one) is not int or one < 0 for one in ids or ()):
        raise TypeError("token ids that are no whole numbers")
    if ids is None:
        raise BadReply(
            "the reply has no token ids (return_token_ids): in its text special tokens are lost; vLLM gives them from 0.10.2 on"
        )
    if usage.get("prompt_tokens", len(question.prompt)) != len(question.prompt):
        raise BadReply(
            f"the server read {usage['prompt_tokens']:,} tokens where {len(question.prompt):,} were sent: something between adds or "
            "cuts tokens"
        )
    if usage.get("completion_tokens", len(ids)) != len(ids) or not ids:
        raise BadReply(
            f"the model wrote {usage.get('completion_tokens')} tokens, and {len(ids)} came back: something between strips special "
            "tokens, without which a trace cannot be read: ask the server itself, not through a program that does"
        )
    listed = choice.get("logprobs") or {}
    logprobs, tops = listed.get("token_logprobs"), listed.get("top_logprobs")
    if not logprobs or not tops or len(logprobs) != len(ids) or len(tops) != len(ids):
        raise _no_logprobs(f"logprobs: {LIKELIEST}")
    held = bool(question.allowed or question.grammar)
    numbers = [[_logprob(one, held) for one in top.values()] for top in tops]
    written = Scores(list(ids), list(map(_logprob, logprobs)), [_margin(top) for top in numbers])
    if not held and any(one < max(top) - POSITIVE for one, top in zip(written.logprobs, numbers)):
        raise BadReply(
            "the model wrote a token that is not the likeliest: the server samples, or penalises repetition, though it is asked not to"
        )
    _check(written, -math.inf if held else LEAST)
    if question.first is None:
        return Answer(written, {})
    listing = choice.get("prompt_logprobs")
    if not listing or len(listing) != len(question.prompt):
        raise _no_logprobs(f"prompt_logprobs: {LIKELIEST}")
    places = [{int(key): about for key, about in place.items()} for place in listing[question.first :]]
    scored = _likeliest([[(_logprob(about["logprob"]), token) for token, about in place.items()] for place in places])
    named = [(token, about.get("decoded_token")) for place in places for token, about in place.items()]
    logprobs, margins = scored.logprobs + written.logprobs, scored.margins + written.margins
    joined = Scores(scored.tokens + written.tokens, logprobs, margins)
    return Answer(joined, {token: str(name) for token, name in named if name is not None})


def _no_logprobs(asked: str) -> BadReply:
    return BadReply(
        f"the server gives no log-probabilities ({asked}): vLLM does unless it was started with --max-logprobs below {LIKELIEST}"
    )


def _margin(logprobs: Sequence[float]) -> float:
    """Return how far the likeliest is above the next."""
    ordered = sorted(logprobs, reverse=True)
    return ordered[0] - ordered[1] if len(ordered) > 1 else math.inf


def _likeliest(places: Sequence[Sequence[tuple[float, int]]]) -> Scores:
    if any(len(place) < LIKELIEST for place in places):
        raise _no_logprobs("of the likeliest tokens")
    best = [max(place, key=lambda one: (one[0], -one[1])) for place in places]
    margins = [_margin([logprob for logprob, _ in place]) for place in places]
    found = Scores([token for _, token in best], [logprob for logprob, _ in best], margins)
    _check(found, LEAST)
    return found


def _logprob(value: Any, held: bool = False) -> float:
    """`held`: only some tokens were allowed, and of others the logarithm of 0 may be given."""
    if not (math.isfinite(value) or (held and value == -math.inf)):
        raise BadReply(
            f"{value} stands where a log-probability should: a server computes none where the weights or their precision overflow"
        )
    return float(value)


def _check(scores: Scores, least: float) -> None:
    if any(not least - POSITIVE <= logprob <= POSITIVE for logprob in scores.logprobs):
        raise BadReply("what the server gives are no log-probabilities: start it without --logprobs-mode")
