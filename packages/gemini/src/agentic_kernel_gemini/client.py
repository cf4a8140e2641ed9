"""Client: the SDK's client, made when the planner first needs it."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from agentic_kernel_engine.providers import SDKClient, certificates

_VERSIONED: Final = re.compile(r"(.+)/(v\d+(?:alpha|beta)?\d*)/?")
"""An address that ends with a version of the API."""


class Client(SDKClient):
    """Holds a ``google.genai.Client``. Its asynchronous half is used; requests turn retries off."""

    sdk = "google.genai"
    kind = "Client"
    logger = "google_genai"
    http = "httpx2"
    named_events = False
    address_variable = "GOOGLE_GEMINI_BASE_URL"
    usual = "https://generativelanguage.googleapis.com"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")  # The SDK prefers the second one.
    key_headers: ClassVar = dict.fromkeys(reversed(key_variables), "x-goog-api-key: {}")
    models = "/v1/models?pageSize=1000"
    keys = ("_api_client.api_key",)
    headers = "_api_client._http_options.headers"
    connections = ("_api_client._async_httpx_client", "_api_client._http_options.aiohttp_client")

    def make(self) -> Any:
        """See `SDKClient`."""
        import httpx2
        from google.genai import Client as Made

        trusted = certificates(httpx2)  # Otherwise the SDK loads them for each of its clients.
        options: Any = {"client_args": {"verify": trusted}, "async_client_args": {"ssl": trusted}}
        address = self.asked_address()
        if versioned := _VERSIONED.fullmatch(address or ""):
            address, options["api_version"] = versioned.groups()
        options |= {"base_url": address, "httpx_async_client": self.transport()}
        return Made(api_key=self.given["api_key"], enterprise=False, http_options=options)
