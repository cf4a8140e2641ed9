"""Client: the SDK's client, made when the planner first needs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agentic_kernel import InvalidValue
from agentic_kernel_engine.providers import SDKClient, http_client


class Client(SDKClient):
    """Holds an ``openai.AsyncOpenAI``."""

    sdk = "openai"
    http = "httpx2"
    keywords = ("api_key", "base_url", "organization", "project")
    address_variable = "OPENAI_BASE_URL"
    key_variables = ("OPENAI_API_KEY",)

    def check(self, own: Any) -> None:
        """See `SDKClient`."""
        if not isinstance(own, import_module(self.sdk).AsyncOpenAI):
            raise InvalidValue("client", "must be an openai.AsyncOpenAI")

    def make(self) -> Any:
        """See `SDKClient`."""
        import httpx2
        from openai import AsyncOpenAI

        http = http_client(httpx2, self.timeout)
        given: Any = self.given
        return AsyncOpenAI(**given, timeout=http.timeout, max_retries=0, http_client=http)
