"""Facts about a server, and tests of it before an evaluation."""

from __future__ import annotations

import asyncio
from functools import reduce
from operator import getitem
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from remedy.data_gen.roles import Special
from remedy.eval.generators.completions import BadReply, Question, Reply
from remedy.eval.generators.server import RequestRefused, Server
from remedy.messages import one_line, shown, suggest
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import UserError

COMPARED = 64
"""Number of ids whose text is compared, besides special tokens."""
DIFFERENT = 0.1
"""Share of these that may differ: versions of a tokenizer write some bytes and spaces differently."""
PROBES = 4
WRITTEN = 24
"""Number of test sequences, and of tokens written after each. They show how far the model's two ways of computing differ."""


class _Card(Reply):
    id: str
    owned_by: str | None = None
    max_model_len: Annotated[int, Field(ge=8)] | None = None  # the tests below send sequences of 8 tokens


class _Models(Reply):
    data: list[_Card]


class About(NamedTuple):
    """Facts that a server tells about itself.

    `model`: as replies name it. `longest`: tokens of a sequence, with written ones. `batch_invariant`: `on` or `off` as the server
    says, `declared` by the configuration, or `unknown`.
    """

    server: str
    version: str
    model: str
    longest: int | None
    batch_invariant: str


async def try_grammar(server: Server, tokenizer: TraceTokenizer) -> None:
    """Refuse a server that does not apply a grammar over token ids."""
    sign, end = tokenizer.special_ids[Special.FRAME_SEP], tokenizer.eos_id
    wanted = [sign, tokenizer.special_ids[Special.ACTION_SEP], sign, end]
    grammar = "%llguidance {}\nstart: " + " ".join(f"<[{token}]>" for token in wanted) + "\n"
    written: object
    try:
        written = (await server.write([tokenizer.bos_id], len(wanted), [end], grammar)).tokens
    except RequestRefused as error:
        written = error
    if written != wanted:
        raise UserError(
            f"{server.backend.url}: does not hold a model to a grammar of token ids (not {wanted}, but {written}): start it "
            "with --structured-outputs-config.backend guidance"
        )


async def connect(server: Server, tokenizer: TraceTokenizer, checkpoint: str) -> tuple[About, float]:
    """Find and test the backend's model; return facts and its departure.

    The departure is the greatest difference in log-probability between tokens written one by one and the same tokens read at once.
    `checkpoint`: the tokenizer's source.
    """
    backend, url = server.backend, server.backend.url
    async with server.opened():
        try:
            cards = {card.id: card for card in _Models.checked(await server.ask("/v1/models")).data}
        except BadReply as error:
            raise UserError(f"{url}/v1/models: {error}") from None
        if backend.model not in cards:
            raise UserError(f"{url}: serves no model {backend.model!r}; {suggest(backend.model, cards)}")
        card, version = cards[backend.model], await _may_ask(server, "/version", "version")
        flag = await _may_ask(server, "/server_info?config_format=json", "vllm_env", "VLLM_BATCH_INVARIANT")
        undisclosed = "declared" if backend.batch_invariant else "unknown"
        invariant = undisclosed if flag is None else "on" if str(flag) in ("True", "1") else "off"
        if invariant == "off" and backend.batch_invariant:
            raise UserError(
                f"backend.batch_invariant true: {url} says that it is not: start it so, or remove the setting"
            )
        try:
            departure = await _try(server, tokenizer, checkpoint, card.max_model_len)
        except RequestRefused as error:
            raise UserError(
                f"{error}: needed are log-probabilities (--max-logprobs), and a model with the vocabulary of {checkpoint} "
                f"({tokenizer.vocab_size:,} ids)"
            ) from None
    name, version = (one_line(str(text or "unknown"), 80) for text in (card.owned_by, version))
    return About(name, version, server.model, card.max_model_len, invariant), departure


async def _may_ask(server: Server, path: str, *keys: str) -> Any:
    """Return a nested value of a page; None if the server hides it."""
    try:
        return reduce(getitem, keys, await server.ask(path))
    except (UserError, LookupError, TypeError):
        return None


async def _try(server: Server, tokenizer: TraceTokenizer, checkpoint: str, longest: int | None) -> float:
    """Refuse a server whose ids stand for other texts; return the model's departure."""
    special = tokenizer.special_ids
    spread = range(0, tokenizer.vocab_size, max(1, tokenizer.vocab_size // COMPARED))
    ids = list(dict.fromkeys([tokenizer.bos_id, *special.values(), tokenizer.vocab_size - 1, *spread]))
    longest = longest or len(ids) + WRITTEN
    names = (await server.answer(Question([ids[0], *ids[: longest - 2]], 1, first=1))).names
    own = {token: tokenizer.decode([token]) for token in ids} | {token: kind.value for kind, token in special.items()}
    # Tokens that are parts of a character have no text of their own.
    compared = [token for token in names if own.get(token, "").strip() and "\ufffd" not in own[token] + names[token]]
    differing = [token for token in compared if names[token].strip() != own[token].strip()]
    if len(differing) > DIFFERENT * len(compared) or not {*special.values()}.isdisjoint(differing):
        raise UserError(
            f"{server.backend.url}: the tokenizer of {server.model} is not that of {checkpoint}: id {differing[0]} is "
            f"{shown(names[differing[0]])} there, and {shown(own[differing[0]])} here ({len(differing)} of {len(compared)} ids that "
            "were compared differ): evaluate the checkpoint that is served, or serve this one"
        )
    # `read` refuses a reply that drops a special token.
    await server.answer(Question(ids[:4], 2, allowed=[special[Special.FRAME_SEP]]))
    pieces = [ids[start : start + 4] for start in range(0, 4 * PROBES, 4)]
    return max(await asyncio.gather(*(_departure(server, piece, longest - 5) for piece in pieces if piece)))


async def _departure(server: Server, ids: list[int], room: int) -> float:
    """Return the difference between writing tokens one by one and reading them at once."""
    written = await server.write(ids, min(WRITTEN, room), ())
    scored = await server.score(ids, written.tokens[:-1])
    pairs = zip(written.tokens, written.logprobs, scored.tokens, scored.logprobs)
    return max((abs(logprob - other) for token, logprob, same, other in pairs if token == same), default=0.0)
