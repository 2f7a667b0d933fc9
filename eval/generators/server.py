"""Model behind HTTP, with retries, and tests of it before an evaluation."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import getitem
from typing import Annotated, Any, NamedTuple, TypeVar

import httpx
from pydantic import Field
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay, wait_random_exponential

from remedy.data_gen.roles import Special
from remedy.eval.generators.backend import KEY, Backend
from remedy.eval.generators.completions import CURE, PATH, Answer, Question, Reply, ask, read
from remedy.eval.generators.scores import Scores
from remedy.messages import one_line, shown, suggest
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import UserError
from remedy.speed import duration

log = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
"""Bounds of the first and of any pause, in seconds. Pauses are random, so that clients do not return together."""
CONNECT = 10.0
"""Time-out for opening a connection, in seconds."""
QUIET = 10.0
"""Least time between two warnings, in seconds."""
LARGEST = 256 << 20
"""Largest accepted reply, in bytes."""
COMPARED = 64
"""Number of ids whose text is compared, besides special tokens."""
DIFFERENT = 0.1
"""Share of these that may differ: versions of a tokenizer write some bytes and spaces differently."""
PROBES = 4
WRITTEN = 24
"""Number of test sequences, and of tokens written after each. They show how far the model's two ways of computing differ."""


class RequestRefused(UserError):
    """Request that a server rejects for good."""


class Server:
    """A backend's model, with connections inside `opened`. `most`: connections at a time.

    Raises:
        UserError: the key cannot be sent.
    """

    def __init__(self, backend: Backend, most: int) -> None:
        self.key = os.environ.get(KEY, "").strip()
        if not (self.key.isascii() and self.key.isprintable()):
            raise UserError(f"the environment variable {KEY} holds a character that no header may hold")
        self.backend, self.most = backend, most
        self.model = ""
        """The model that replies name."""
        self._warned = -QUIET

    def opened(self) -> httpx.AsyncClient:
        """Return connections, which are closed at the end of a `with`."""
        self._client = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **({"Authorization": f"Bearer {self.key}"} if self.key else {})},
            limits=httpx.Limits(max_connections=self.most, max_keepalive_connections=self.most),
            timeout=httpx.Timeout(None, connect=CONNECT),
        )
        return self._client

    async def answer(self, question: Question) -> Answer:
        """Return the server's answer.

        Raises:
            UserError: there is none, or it does not fit the request.
        """
        url, name = self.backend.url, self.backend.model
        answer = await self.call(PATH, partial(read, question=question), ask(name, question))
        model = one_line(answer.model, 80)
        if not self.model and model != name:
            log.warning("%s: backend.model %s: the replies are of %s", url, name, model)
        if self.model not in ("", model):
            raise UserError(f"{url}{PATH}: a reply is of {model}, those before of {self.model}: ask the server itself")
        self.model = model
        return answer

    async def write(self, read: Sequence[int], most: int, stops: Sequence[int], grammar: str = "") -> Scores:
        """Return what the model writes after `read`, under a grammar if given."""
        return (await self.answer(Question(list(read), most, stops, grammar=grammar))).predicted

    async def score(self, read: Sequence[int], guess: Sequence[int]) -> Scores:
        """Return predictions in place of each guessed token, and after the last."""
        return (await self.answer(Question([*read, *guess], 1, first=len(read)))).predicted

    async def call(
        self, path: str, parse: Callable[[Mapping[str, Any]], T], content: Mapping[str, Any] | None = None
    ) -> T:
        """Return the parsed reply to a POST, which is retried, or without `content` to a GET, which is not.

        Raises:
            UserError: there was none within the backend's patience, or it is bad.
            RequestRefused: the server rejects the request.
        """
        url, begin, timeout = self.backend.url + path, time.monotonic(), self.backend.timeout

        async def send() -> Mapping[str, Any]:
            nonlocal timeout
            try:
                return await self._once(url, content, timeout)
            except TimeoutError:
                timeout *= 2
                raise

        tries = AsyncRetrying(
            retry=retry_if_exception_type(OSError),
            wait=wait_random_exponential(FIRST_PAUSE, LONGEST_PAUSE),
            stop=stop_before_delay(self.backend.patience if content else 0.0),
            before_sleep=self._warn,
            reraise=True,
        )
        try:
            return parse(await tries(send))
        except ValueError as error:
            raise UserError(f"{url}: {error}: {CURE}") from None
        except OSError as error:
            passed = duration(time.monotonic() - begin)
            raise UserError(f"{url}: {error}, for {passed}: start the server, or correct its address") from None

    def _warn(self, state: RetryCallState) -> None:
        if state.outcome and time.monotonic() - self._warned >= QUIET:
            self._warned, passed = time.monotonic(), state.seconds_since_start or 0.0
            words = self.backend.url, state.outcome.exception(), duration(passed)
            log.warning("%s: %s, for %s; tried again for %s", *words, duration(self.backend.patience - passed))

    async def _once(self, url: str, content: Mapping[str, Any] | None, seconds: float) -> Mapping[str, Any]:
        """Send a request once; failures that may pass are OSErrors."""
        method, body = "POST" if content else "GET", bytearray()
        try:
            # httpx's time-out is between two bytes, so a server that trickles bytes would never reach it.
            async with asyncio.timeout(seconds), self._client.stream(method, url, json=content) as reply:
                # Raw, since a small compressed reply could expand to fill the memory.
                async for piece in reply.aiter_raw():
                    body += piece
                    if len(body) > LARGEST:
                        raise UserError(f"{url}: a reply of more than {LARGEST >> 20} MiB: is this the server?")
        except TimeoutError:
            raise TimeoutError("no reply in time") from None
        except httpx.RequestError as error:
            unreachable = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
            problem = "nothing answers" if unreachable else "the connection was dropped"
            raise ConnectionError(f"{problem} ({one_line(str(error), 200) or type(error).__name__})") from None
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        status = reply.status_code
        if status == 200:
            if isinstance(value, Mapping):
                return value
            raise ConnectionError("a reply that is no JSON object, or is cut")
        for key in ("error", "message", "detail"):  # OpenAI's form of an error, and FastAPI's
            value = value.get(key, value) if isinstance(value, Mapping) else value
        text = one_line(value if isinstance(value, str) else body.decode(errors="replace"), 300) or reply.reason_phrase
        if status in (408, 425, 429) or status >= 500:
            raise ConnectionError(f"status {status} ({text})")
        if status in (401, 403):
            given = "does not take the key in" if self.key else "asks for a key: set"
            text = f"the server {given} the environment variable {KEY}"
        raise RequestRefused(f"{url}: status {status}: {text}")


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
    try:
        written = str((await server.write([tokenizer.bos_id], len(wanted), [end], grammar)).tokens)
    except RequestRefused as error:
        written = str(error)
    if written != str(wanted):
        raise UserError(
            f"{server.backend.url}: does not hold a model to a grammar of token ids (not {wanted}, but {written}): start it "
            "with --structured-outputs-config.backend guidance"
        )


async def connect(server: Server, tokenizer: TraceTokenizer, checkpoint: str) -> tuple[About, float]:
    """Find and test the backend's model; return facts and its departure. `checkpoint`: the tokenizer's source.

    The departure is the greatest difference in log-probability between tokens written one by one and the same tokens read at once.
    """
    url, model, declared = server.backend.url, server.backend.model, server.backend.batch_invariant
    async with server.opened():
        cards = {card.id: card for card in (await server.call("/v1/models", _Models.checked)).data}
        if model not in cards:
            raise UserError(f"{url}: serves no model {model!r}; {suggest(model, cards)}")
        card, version = cards[model], await _may_call(server, "/version", "version")
        flag = await _may_call(server, "/server_info?config_format=json", "vllm_env", "VLLM_BATCH_INVARIANT")
        try:
            departure = await _try(server, tokenizer, checkpoint, card.max_model_len)
        except RequestRefused as error:
            raise UserError(
                f"{error}: needed are log-probabilities (--max-logprobs), and a model with the vocabulary of {checkpoint} "
                f"({tokenizer.vocab_size:,} ids)"
            ) from None
    undisclosed = "declared" if declared else "unknown"
    invariant = undisclosed if flag is None else "on" if str(flag) in ("True", "1") else "off"
    if invariant == "off" and declared:
        raise UserError(f"backend.batch_invariant true: {url} says that it is not: start it so, or remove the setting")
    name, version = (one_line(str(text or "unknown"), 80) for text in (card.owned_by, version))
    return About(name, version, server.model, card.max_model_len, invariant), departure


async def _may_call(server: Server, path: str, *keys: str) -> Any:
    """Return a nested value of a page; None if the server hides it."""
    try:
        return reduce(getitem, keys, await server.call(path, dict))
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
    compared = [token for token in names if own.get(token, "").strip() and "\ufffd" not in own[token]]
    differing = [token for token in compared if names[token].strip() != own[token].strip()]
    if len(differing) > DIFFERENT * len(compared) or not {*special.values()}.isdisjoint(differing):
        raise UserError(
            f"{server.backend.url}: the tokenizer of {server.model} is not that of {checkpoint}: id {differing[0]} is "
            f"{shown(names[differing[0]])} there, and {shown(own[differing[0]])} here ({len(differing)} of {len(compared)} ids that "
            "were compared differ): evaluate the checkpoint that is served, or serve this one"
        )
    # `read` refuses a reply that drops a special token.
    await server.answer(Question(ids[:4], 2, allowed=[special[Special.FRAME_SEP]]))
    departure = 0.0
    for start in range(0, len(ids), 4)[:PROBES]:
        piece = ids[start : start + 4]
        written = await server.write(piece, min(WRITTEN, longest - 5), ())
        scored = await server.score(piece, written.tokens[:-1])
        pairs = zip(written.tokens, written.logprobs, scored.tokens, scored.logprobs)
        gaps = [abs(logprob - other) for token, logprob, same, other in pairs if token == same]
        departure = max([departure, *gaps])
    return departure
