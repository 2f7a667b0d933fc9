"""Settings of a model server."""

from __future__ import annotations

import httpx
from pydantic import Field, field_validator

from remedy.settings import Settings

KEY = "REMEDY_API_KEY"
"""Environment variable with the server's key. No configuration or record holds the key."""


class Backend(Settings):
    """A server of the OpenAI completions protocol with vLLM's additions."""

    url: str
    """Its address, such as `http://localhost:8000`. A key is read from the environment variable REMEDY_API_KEY."""
    model: str
    """The model's name on the server, as in `vllm serve NAME` or `--served-model-name`."""
    timeout: float = Field(default=300.0, gt=0, le=86_400)
    """Seconds until a reply must be complete; doubled after each time-out."""
    patience: float = Field(default=600.0, ge=0, le=604_800)
    """Seconds for which a failing request is retried (time-outs, dropped connections, broken replies, status 429 or 5xx)."""
    batch_invariant: bool = False
    """The server was started with VLLM_BATCH_INVARIANT=1. It says so itself only in development mode (VLLM_SERVER_DEV_MODE=1)."""

    @field_validator("url")
    @classmethod
    def _plain(cls, value: str) -> str:
        try:
            url = httpx.URL(value.strip())
            plain = url.scheme in ("http", "https") and url.host and not (url.userinfo or url.query or url.fragment)
        except (httpx.InvalidURL, UnicodeError):  # the second if the host is no domain name
            plain = False
        if not plain:
            raise ValueError(
                "must begin with http:// or https:// and name a host, such as http://localhost:8000, without a password or a key, "
                f"which records would repeat: set {KEY} in the environment"
            )
        return value.strip().rstrip("/").removesuffix("/v1").rstrip("/")
