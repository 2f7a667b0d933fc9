"""JSON over HTTP to one server, with retries.

Time-outs, dropped connections, broken replies and busy or failing servers are retried with growing pauses. Other failures become
one line.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay, wait_random_exponential

from remedy.eval.generators.backend import KEY, Backend
from remedy.messages import one_line, shown
from remedy.settings import UserError
from remedy.speed import duration

log = logging.getLogger(__name__)
BUSY = frozenset({408, 425, 429})
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
"""Bounds of the first and of any pause, in seconds. Pauses are random below a doubling bound, so that clients do not return
together."""
CONNECT = 10.0
"""Time-out for opening a connection, in seconds."""
QUIET = 10.0
"""Least time between two warnings, in seconds."""
LARGEST = 256 << 20
"""Largest accepted reply, in bytes."""


class ServerClosed(UserError):
    """Server that has not answered within the backend's patience."""


class RequestRefused(UserError):
    """Request that a server rejects for good."""


class _TransientError(Exception):
    """Failure that is retried."""


class _ReplyTimeout(_TransientError):
    """Reply that did not come in time."""


class HttpClient:
    """Client of one server, with connections inside `opened`. `most`: connections at a time.

    Raises:
        UserError: the key cannot be sent.
    """

    def __init__(self, backend: Backend, most: int) -> None:
        self.key = os.environ.get(KEY, "").strip()
        if not (self.key.isascii() and self.key.isprintable()):
            raise UserError(f"the environment variable {KEY} holds a character that no header may hold")
        self.backend = backend
        self.most = most
        self._client: httpx.AsyncClient
        self._warned = -QUIET

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **({"Authorization": f"Bearer {self.key}"} if self.key else {})},
            limits=httpx.Limits(max_connections=self.most, max_keepalive_connections=self.most),
            timeout=httpx.Timeout(None, connect=CONNECT),
        ) as self._client:
            yield

    async def look(self, path: str) -> Mapping[str, Any]:
        """Return the content of a path, without retries.

        Raises:
            UserError: there is none.
        """
        try:
            return await self._once("GET", path, None, self.backend.timeout)
        except _TransientError as error:
            url = self.backend.url + path
            raise UserError(f"{url}: {error}: is the server started, and is this its address?") from None

    async def ask(self, path: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the reply to a request, which is retried.

        Raises:
            ServerClosed: there was no reply within the backend's patience.
            Refused: the server rejects it.
        """
        begin, timeout = time.monotonic(), self.backend.timeout
        tries = AsyncRetrying(
            retry=retry_if_exception_type(_TransientError),
            wait=wait_random_exponential(FIRST_PAUSE, LONGEST_PAUSE),
            stop=stop_before_delay(self.backend.patience),
            before_sleep=self._warn,
            reraise=True,
        )

        async def send() -> Mapping[str, Any]:
            nonlocal timeout
            try:
                return await self._once("POST", path, content, timeout)
            except _ReplyTimeout:
                timeout *= 2
                raise

        try:
            return await tries(send)
        except _TransientError as error:
            passed = duration(time.monotonic() - begin)
            raise ServerClosed(f"{self.backend.url}{path}: {error}, for {passed}") from None

    def _warn(self, state: RetryCallState) -> None:
        if state.outcome and time.monotonic() - self._warned >= QUIET:
            self._warned, passed = time.monotonic(), state.seconds_since_start or 0.0
            words = self.backend.url, state.outcome.exception(), duration(passed)
            log.warning("%s: %s, for %s; tried again for %s", *words, duration(self.backend.patience - passed))

    async def _once(self, method: str, path: str, content: Any, seconds: float) -> Mapping[str, Any]:
        url, body = self.backend.url + path, bytearray()
        try:
            # httpx's time-out is between two bytes, so a server that trickles bytes would never reach it.
            async with asyncio.timeout(seconds), self._client.stream(method, url, json=content) as reply:
                async for (
                    piece
                ) in reply.aiter_raw():  # raw: a small compressed reply could otherwise expand to fill the memory
                    body += piece
                    if len(body) > LARGEST:
                        raise UserError(f"{url}: a reply of more than {LARGEST >> 20} MiB: is this the server?")
        except (TimeoutError, httpx.TimeoutException):
            raise _ReplyTimeout("no reply in time") from None
        except httpx.RequestError as error:
            kind = "nothing answers" if isinstance(error, httpx.ConnectError) else "the connection was dropped"
            raise _TransientError(f"{kind} ({one_line(str(error), 200) or type(error).__name__})") from None
        except (httpx.InvalidURL, UnicodeError) as error:
            raise UserError(f"backend.url {shown(self.backend.url)} is no address ({error})") from None
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        status = reply.status_code
        if status == 200:
            if not isinstance(value, Mapping):
                raise _TransientError("a reply that is no JSON object, or is cut")
            return value
        for key in ("error", "message", "detail"):  # OpenAI's form of an error
            if isinstance(value, Mapping) and key in value:
                value = value[key]
        text = value if isinstance(value, str) else json.dumps(value) if value else body.decode(errors="replace")
        text = one_line(text, 300) or reply.reason_phrase
        if status in BUSY or status >= 500:
            raise _TransientError(f"status {status} ({text})")
        if status in (401, 403):
            given = "does not take the key in" if self.key else "asks for a key: set"
            text = f"the server {given} the environment variable {KEY}"
        raise RequestRefused(f"{url}: status {status}: {text}")
