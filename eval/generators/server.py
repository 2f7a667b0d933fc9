"""Model behind HTTP: what may pass is retried with growing pauses, other failures become one line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay, wait_random_exponential

from remedy.eval.generators.backend import KEY, Backend
from remedy.eval.generators.completions import PATH, Answer, BadReply, Question, ask, read
from remedy.eval.generators.scores import Scores
from remedy.messages import one_line
from remedy.settings import UserError
from remedy.speed import duration

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
"""Bounds of the first and of any pause, in seconds. Pauses are random, so that clients do not return together."""
CONNECT = 10.0
"""Time-out for opening a connection, in seconds."""
QUIET = 10.0
"""Least time between two warnings, in seconds."""
LARGEST = 256 << 20
"""Largest accepted reply, in bytes."""


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
        self._client: httpx.AsyncClient
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
        reply = await self.ask(PATH, ask(name, question))
        try:
            answer = read(reply, question)
        except BadReply as error:
            raise UserError(f"{url}{PATH}: {error}") from None
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

    async def ask(self, path: str, content: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the reply to a POST, which is retried, or without `content` to a GET, which is not.

        Raises:
            UserError: there was no reply within the backend's patience.
            RequestRefused: the server rejects it.
        """
        begin, timeout = time.monotonic(), self.backend.timeout

        async def send() -> Mapping[str, Any]:
            nonlocal timeout
            try:
                return await self._once(path, content, timeout)
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
            return await tries(send)
        except OSError as error:
            passed = duration(time.monotonic() - begin)
            raise UserError(
                f"{self.backend.url}{path}: {error}, for {passed}: start the server, or correct its address"
            ) from None

    def _warn(self, state: RetryCallState) -> None:
        if state.outcome and time.monotonic() - self._warned >= QUIET:
            self._warned, passed = time.monotonic(), state.seconds_since_start or 0.0
            words = self.backend.url, state.outcome.exception(), duration(passed)
            log.warning("%s: %s, for %s; tried again for %s", *words, duration(self.backend.patience - passed))

    async def _once(self, path: str, content: Mapping[str, Any] | None, seconds: float) -> Mapping[str, Any]:
        """Send a request once; failures that may pass are OSErrors."""
        url, method, body = self.backend.url + path, "POST" if content else "GET", bytearray()
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
