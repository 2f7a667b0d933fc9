"""JSON over HTTP to one server. What may pass is tried again with growing pauses: no reply in time, a dropped connection, a broken
reply, a server that is busy or fails. What will not pass is one line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
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
"""Seconds between two lines that say that requests fail."""
LARGEST = 256 << 20
"""Bytes of a reply; one of more is none that was asked for."""


class ServerClosed(UserError):
    """A server that has not answered for as long as it was waited for."""


class Refused(UserError):
    """A request that a server will not answer, however often it is asked. `status`: of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Passing(Exception):
    """Failure that may pass."""


class _Late(_Passing):
    """No reply in time."""


class HttpClient:
    """A server's address. Connections are open inside `opened` alone. `most`: connections at a time.

    Raises:
        UserError: the key cannot be sent.
    """

    def __init__(self, backend: Backend, most: int) -> None:
        self.key = os.environ.get(KEY, "").strip()
        if not (self.key.isascii() and self.key.isprintable()):
            raise UserError(f"the environment variable {KEY} holds a character that no header may hold")
        self.backend = backend
        self.most = most
        self._client: httpx.AsyncClient | None = None
        self._said = -QUIET

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[HttpClient]:
        """Connections of the running event loop."""
        async with httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **({"Authorization": f"Bearer {self.key}"} if self.key else {})},
            limits=httpx.Limits(max_connections=self.most, max_keepalive_connections=self.most),
            timeout=httpx.Timeout(None, connect=CONNECT),
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
                allowed *= 2 if isinstance(error, _Late) else 1
                wait = pause * random.uniform(0.5, 1.0)
                passed, where = time.monotonic() - begin, f"{self.backend.url}{path}: {error}, for"
                if passed + wait > self.backend.patience:
                    raise ServerClosed(f"{where} {duration(passed)}") from None
                if time.monotonic() - self._said >= QUIET:
                    self._said, left = time.monotonic(), duration(self.backend.patience - passed)
                    log.warning("%s %s; tried again for %s", where, duration(passed), left)
                await asyncio.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _once(
        self, method: str, path: str, content: Mapping[str, Any] | None, seconds: float
    ) -> Mapping[str, Any]:
        url = self.backend.url + path
        try:
            # httpx's own time-out is between two bytes: one that sends a byte now and then would never reach it.
            reply = await asyncio.wait_for(self._whole(method, url, content), seconds)
        except (asyncio.TimeoutError, httpx.TimeoutException):
            raise _Late("no reply in time") from None
        except httpx.RequestError as error:
            kind = "nothing answers" if isinstance(error, httpx.ConnectError) else "the connection was dropped"
            raise _Passing(f"{kind} ({one_line(str(error), 200) or type(error).__name__})") from None
        except (httpx.InvalidURL, UnicodeError) as error:
            raise UserError(f"backend.url {shown(self.backend.url)} is no address ({error})") from None
        try:
            found = reply.json()
        except (ValueError, RecursionError):
            found = None
        if reply.status_code == 200:
            if not isinstance(found, Mapping):
                raise _Passing("a reply that is no JSON object, or is cut")
            return found
        for key in ("error", "message", "detail"):  # OpenAI's form of an error
            if isinstance(found, Mapping) and key in found:
                found = found[key]
        text = found if isinstance(found, str) else json.dumps(found) if found else reply.text
        status, said = reply.status_code, one_line(text, 300) or reply.reason_phrase
        if status in BUSY or status >= 500:
            raise _Passing(f"status {status} ({said})")
        if status in (401, 403):
            given = "does not take the key in" if self.key else "asks for a key: set"
            said = f"the server {given} the environment variable {KEY}"
        raise Refused(f"{url}: status {status}: {said}", status)

    async def _whole(self, method: str, url: str, content: Mapping[str, Any] | None) -> httpx.Response:
        """A reply that is read to its end."""
        assert self._client is not None, "outside of `opened`"
        body = bytearray()
        async with self._client.stream(method, url, json=content) as reply:
            async for piece in reply.aiter_raw():  # a few bytes, compressed twice, would fill the memory
                body += piece
                if len(body) > LARGEST:
                    raise UserError(f"{url}: a reply of more than {LARGEST >> 20} MiB: is this the server?")
        return httpx.Response(reply.status_code, content=bytes(body))
