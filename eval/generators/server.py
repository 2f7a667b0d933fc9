"""Server of a model: its facts, and tests before an evaluation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from remedy.data_gen.roles import Special
from remedy.eval.generators.completions import PATH, Answer, BadReply, Question, Reply, ask, checked, read
from remedy.eval.generators.http_client import HttpClient, RequestRefused
from remedy.eval.generators.scores import Scores
from remedy.messages import one_line, shown, suggest
from remedy.models.context_length import ContextLimit
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import UserError

log = logging.getLogger(__name__)
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

    @property
    def limit(self) -> ContextLimit | None:
        """Return how many tokens can be read: one fewer than a sequence may have."""
        what = "max_model_len, less the token that is written"
        return ContextLimit(self.longest - 1, what, True) if self.longest else None


class Server:
    """Model behind HTTP."""

    def __init__(self, client: HttpClient, about: About) -> None:
        self.client, self.about = client, about
        self.departure = 0.0
        """Greatest difference in log-probability between tokens written one by one and the same tokens read at once."""

    async def answer(self, question: Question) -> Answer:
        """Return the server's answer.

        Raises:
            UserError: there is none, or it does not fit the request.
        """
        backend, first = self.client.backend, self.about.model
        reply = await self.client.ask(PATH, ask(backend.model, question))
        try:
            answer = read(reply, question)
            model = one_line(answer.model, 80)
            if first not in ("", model):
                raise BadReply(
                    f"it is of {model}, those before of {first}: something between changes the model: ask the server itself"
                )
        except BadReply as error:
            raise BadReply(f"{backend.url}{PATH}: {error}") from None
        if not first and model != backend.model:
            log.warning("%s: backend.model %s: the replies are of %s", backend.url, backend.model, model)
        self.about = self.about._replace(model=model)
        return answer

    async def write(self, read: Sequence[int], most: int, stops: Sequence[int], grammar: str = "") -> Scores:
        """Return what the model writes after `read`, under a grammar if given."""
        return (await self.answer(Question(list(read), most, stops, grammar=grammar))).predicted

    async def score(self, read: Sequence[int], guess: Sequence[int]) -> Scores:
        """Return predictions in place of each guessed token, and after the last."""
        return (await self.answer(Question([*read, *guess], 1, first=len(read)))).predicted


def beginning(ids: Iterable[int]) -> str:
    """Return a grammar, in llguidance's Lark: one of these tokens, then any."""
    first = " | ".join(f"<[{token}]>" for token in ids)
    return f"%llguidance {{}}\nstart: first rest\nfirst: {first}\nrest: | rest <[*]>\n"


async def try_grammar(server: Server, tokenizer: TraceTokenizer) -> None:
    """Refuse a server that does not apply a grammar over token ids."""
    sign, end = tokenizer.special_ids[Special.FRAME_SEP], tokenizer.eos_id
    wanted = [sign, tokenizer.special_ids[Special.ACTION_SEP], sign, end]
    grammar = "%llguidance {}\nstart: " + " ".join(f"<[{token}]>" for token in wanted) + "\n"
    try:
        tokens = (await server.write([tokenizer.bos_id], len(wanted), [end], grammar)).tokens
        if tokens == wanted:
            return
        detail = f"it wrote {len(tokens)} tokens, and others than were allowed"
    except RequestRefused as error:
        detail = str(error)
    raise UserError(
        f"{server.client.backend.url}: does not hold a model to a grammar of token ids ({detail}): start it with "
        "--structured-outputs-config.backend guidance"
    )


async def connect(client: HttpClient, tokenizer: TraceTokenizer, checkpoint: str) -> Server:
    """Find the backend's model and test it. `checkpoint`: the tokenizer's source."""
    async with client.opened():
        server = Server(client, await _about(client))
        try:
            await _try(server, tokenizer, checkpoint)
        except RequestRefused as error:
            raise UserError(
                f"{error}: needed are log-probabilities (--max-logprobs), and a model with the vocabulary of {checkpoint} "
                f"({tokenizer.vocab_size:,} ids)"
            ) from None
    return server


async def _about(client: HttpClient) -> About:
    url, model, declared = client.backend.url, client.backend.model, client.backend.batch_invariant
    try:
        models = checked(_Models, await client.look("/v1/models"), "is this a server of OpenAI's protocol?")
    except BadReply as error:
        raise UserError(f"{url}/v1/models: {error}") from None
    cards = {card.id: card for card in models.data}
    if model not in cards:
        raise UserError(f"{url}: serves no model {model!r}; {suggest(model, cards)}")
    version = await _may_look(client, "/version", "version")
    flag = await _may_look(client, "/server_info?config_format=json", "vllm_env", "VLLM_BATCH_INVARIANT")
    if flag is None:
        invariant = "declared" if declared else "unknown"
    else:
        invariant = "on" if flag in (True, 1, "1", "True") else "off"
    if invariant == "off" and declared:
        raise UserError(f"backend.batch_invariant true: {url} says that it is not: start it so, or remove the setting")
    name, version = (one_line(str(text or "unknown"), 80) for text in (cards[model].owned_by, version))
    return About(name, version, "", cards[model].max_model_len, invariant)


async def _may_look(client: HttpClient, path: str, *keys: str) -> Any:
    """Return a nested value of a page; None if the server hides it."""
    try:
        return reduce(getitem, keys, await client.look(path))
    except (UserError, LookupError, TypeError):
        return None


async def _try(server: Server, tokenizer: TraceTokenizer, checkpoint: str) -> None:
    # Special ids, the last id, and some between.
    step = max(1, tokenizer.vocab_size // COMPARED)
    spread = [*tokenizer.special_ids.values(), tokenizer.vocab_size - 1, *range(0, tokenizer.vocab_size, step)]
    ids = list(dict.fromkeys([tokenizer.bos_id, *spread]))
    longest = server.about.longest or len(ids) + WRITTEN + 2
    names: dict[int, str] = {}
    for start in range(0, len(ids), longest - 2):
        part = [ids[0], *ids[start : start + longest - 2]]
        names.update((await server.answer(Question(part, 1, first=1))).names)
    _compare(tokenizer, {token: names[token] for token in ids if token in names}, server, checkpoint)
    # `read` refuses a reply that drops a special token, in every answer.
    await server.answer(Question(ids[:4], 2, allowed=[tokenizer.special_ids[Special.FRAME_SEP]]))
    pieces = [ids[start : start + 4] for start in range(0, min(4 * PROBES, len(ids)), 4)]
    server.departure = max(
        await asyncio.gather(*(_departure(server, piece, min(WRITTEN, longest - 5)) for piece in pieces))
    )


def _compare(tokenizer: TraceTokenizer, names: Mapping[int, str], server: Server, checkpoint: str) -> None:
    """Refuse a server whose ids stand for other texts."""
    special = {token: token_type.value for token_type, token in tokenizer.special_ids.items()}
    local_names = {token: special.get(token, tokenizer.decode([token])) for token in names}
    wrong = [token for token in special if token in names and names[token] != special[token]]
    # Tokens that are parts of a character have no text of their own.
    comparable = [token for token in names if token not in special and local_names[token].strip()]
    comparable = [token for token in comparable if "\ufffd" not in local_names[token] + names[token]]
    differing = [token for token in comparable if names[token].strip() != local_names[token].strip()]
    wrong += differing if len(differing) > DIFFERENT * len(comparable) else []
    if wrong:
        raise UserError(
            f"{server.client.backend.url}: the tokenizer of {server.about.model} is not that of {checkpoint}: id {wrong[0]} is "
            f"{shown(names[wrong[0]])} there, and {shown(local_names[wrong[0]])} here ({len(wrong)} of {len(names)} ids that were "
            "compared differ): evaluate the checkpoint that is served, or serve this one"
        )


async def _departure(server: Server, ids: list[int], count: int) -> float:
    """Return the difference between writing tokens one by one and reading them at once."""
    written = await server.write(ids, count, ())
    if len(written.tokens) < 2:
        return 0.0
    scored = await server.score(ids, written.tokens[:-1])
    pairs = zip(written.tokens, written.logprobs, scored.tokens, scored.logprobs)
    return max((abs(logprob - other) for token, logprob, same, other in pairs if token == same), default=0.0)
