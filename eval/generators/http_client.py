"""JSON over HTTP to one server. What may pass is tried again with growing pauses: no reply in time, a dropped connection, a broken
reply, a server that is busy or fails. What will not pass is one line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from remedy.eval.generators.backend import KEY, Backend
from remedy.messages import one_line, shown
from remedy.settings import UserError
from remedy.speed import duration

log = logging.getLogger(__name__)
BUSY = frozenset({408, 425, 429})
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
"""Seconds between two tries: doubled from the first up to this, less up to half by chance, so that many do not come back at once."""
CONNECT = 10.0
"""Seconds that a connection may take."""
QUIET = 10.0
"""Seconds for which a request fails before that is said, and between two lines that say so."""
LARGEST = 256 << 20
"""Bytes of a reply; one of more is none that was asked for."""
TIMED_OUT = "no reply in time"


class ServerClosed(UserError):
    """A server that has not answered for as long as it was waited for."""


class Refused(UserError):
    """A request that a server will not answer, however often it is asked. `status`: of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Passing(Exception):
    """Failure that may pass. `kind`: as it is counted; `detail`: what was said."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind} ({detail})" if detail else kind)
        self.kind = kind


class HttpClient:
    """A server's address, and what became of the requests to it. Connections are open inside `opened` alone."""

    def __init__(self, backend: Backend, most: int) -> None:
        """`most`: connections at a time.

        Raises:
            UserError: the key cannot be sent.
        """
        self.key = os.environ.get(KEY, "").strip()
        if not (self.key.isascii() and self.key.isprintable()):
            raise UserError(f"the environment variable {KEY} holds a character that no header may hold")
        self.backend = backend
        self.most = most
        self.failures: Counter[str] = Counter()
        """Requests that were sent again, by what became of them."""
        self._client: httpx.AsyncClient | None = None
        self._said = -QUIET

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[HttpClient]:
        """Connections of the running event loop."""
        async with httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
            limits=httpx.Limits(max_connections=self.most, max_keepalive_connections=self.most),
        ) as self._client:
            yield self

    async def look(self, path: str) -> Mapping[str, Any] | None:
        """Return what is to be read at a path, at once or not at all: None if there is no such page.

        Raises:
            UserError: nothing answers there, or not with JSON.
        """
        try:
            return await self._once("GET", path, None, self.backend.timeout)
        except Refused as error:
            if error.status in (404, 405):
                return None
            raise
        except _Passing as error:
            raise UserError(
                f"{self.backend.url}{path}: {error}: is the server started, and is this its address?"
            ) from None

    async def ask(self, path: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The reply to a request, which is sent until there is one.

        Raises:
            ServerClosed: there was none for as long as the backend's patience lasts.
            Refused: the server will not answer it.
        """
        begin, pause, allowed = time.monotonic(), FIRST_PAUSE, self.backend.timeout
        while True:
            try:
                return await self._once("POST", path, content, allowed)
            except _Passing as error:
                self.failures[error.kind] += 1
                allowed *= 2 if error.kind == TIMED_OUT else 1
                now, wait = time.monotonic(), pause * random.uniform(0.5, 1.0)
                if now - begin + wait > self.backend.patience:
                    raise ServerClosed(f"{self.backend.url}{path}: {error}, for {duration(now - begin)}") from None
                if min(now - begin, now - self._said) >= QUIET:
                    self._said, left = now, duration(self.backend.patience - (now - begin))
                    failed = duration(now - begin)
                    log.warning("%s%s: %s, for %s; tried again for %s", self.backend.url, path, error, failed, left)
                await asyncio.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _once(
        self, method: str, path: str, content: Mapping[str, Any] | None, seconds: float
    ) -> Mapping[str, Any]:
        try:
            # httpx's own time-out is between two bytes: one that sends a byte now and then would never reach it.
            reply = await asyncio.wait_for(self._whole(method, path, content, seconds), seconds)
        except (asyncio.TimeoutError, httpx.TimeoutException):
            raise _Passing(TIMED_OUT) from None
        except httpx.RequestError as error:
            kind = "nothing answers" if isinstance(error, httpx.ConnectError) else "the connection was dropped"
            raise _Passing(kind, one_line(str(error), 200) or type(error).__name__) from None
        except (httpx.InvalidURL, UnicodeError) as error:
            raise UserError(f"backend.url {shown(self.backend.url)} is no address ({error})") from None
        if reply.status_code in BUSY or reply.status_code >= 500:
            raise _Passing(f"status {reply.status_code}", _said(reply))
        if reply.status_code != 200:
            raise Refused(self._refusal(path, reply), reply.status_code)
        try:
            found = reply.json()
        except (ValueError, RecursionError):
            raise _Passing("a reply that is no JSON, or is cut") from None
        if not isinstance(found, Mapping):
            raise _Passing("a reply that is no JSON object")
        return found

    async def _whole(self, method: str, path: str, content: Mapping[str, Any] | None, seconds: float) -> httpx.Response:
        """A reply that is read to its end."""
        assert self._client is not None, "outside of `opened`"
        url, timeout = self.backend.url + path, httpx.Timeout(seconds, connect=min(seconds, CONNECT), pool=None)
        body = bytearray()
        async with self._client.stream(method, url, json=content, timeout=timeout) as reply:
            async for piece in reply.aiter_bytes():
                body += piece
                if len(body) > LARGEST:
                    raise UserError(f"{url}: a reply of more than {LARGEST >> 20} MiB: is this the server?")
        return httpx.Response(reply.status_code, content=bytes(body))

    def _refusal(self, path: str, reply: httpx.Response) -> str:
        where = f"{self.backend.url}{path}: status {reply.status_code}"
        if reply.status_code in (401, 403):
            given = "does not take the key in" if self.key else "asks for a key: set"
            return f"{where}: the server {given} the environment variable {KEY}"
        return f"{where}: {_said(reply)}"


def _said(reply: httpx.Response) -> str:
    """Return what the body of an error says, on one line: the message of OpenAI's form, or the text."""
    try:
        found = reply.json()
    except (ValueError, RecursionError):
        return one_line(reply.text, 300) or reply.reason_phrase
    for key in ("error", "message", "detail"):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
    return one_line(found if isinstance(found, str) else json.dumps(found), 300)
