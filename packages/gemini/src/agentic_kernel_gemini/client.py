"""Client: the SDK's client, made when the planner first needs it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.providers import SDKClient, certificates, http_client, keys_in

_VERSIONED: Final = re.compile(r"(.+)/(v\d+(?:alpha|beta)?\d*)/?")
"""An address that ends with a version of the API."""


class Client(SDKClient):
    """Holds a ``google.genai.Client``; its asynchronous half is used."""

    sdk = "google.genai"
    logger = "google_genai"
    http = "httpx2"
    address_variable = "GOOGLE_GEMINI_BASE_URL"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    def check(self, own: Any) -> None:
        """See `SDKClient`."""
        if not isinstance(own, import_module(self.sdk).Client):
            raise InvalidValue("client", "must be a google.genai.Client")

    def make(self) -> Any:
        """See `SDKClient`."""
        import httpx2
        from google.genai import Client as Made

        options: Any = {
            "httpx_async_client": http_client(httpx2, self.timeout),
            # Otherwise the SDK loads the certificates for each of its other clients.
            "httpx_client": httpx2.Client(verify=certificates(httpx2)),
            "async_client_args": {"ssl": certificates(httpx2)},
        }
        address = self.given["base_url"] or os.environ.get(self.address_variable)
        versioned = _VERSIONED.fullmatch(address or "")
        if versioned is not None:
            address, options["api_version"] = versioned.groups()
        options["base_url"] = address or None
        return Made(api_key=self.given["api_key"], enterprise=False, http_options=options)

    def share(self, own: Any) -> Any:
        """See `SDKClient`; each request turns the retries off."""
        return own

    async def end(self, client: Any) -> None:
        """See `SDKClient`; the SDK leaves open the HTTP clients that it was given."""
        options = client._api_client._http_options
        await options.httpx_async_client.aclose()
        options.httpx_client.close()

    def keys_of(self, client: Any) -> Iterable[Any]:
        """See `SDKClient`."""
        inner = getattr(client, "_api_client", None)
        yield getattr(inner, "api_key", None)
        yield from keys_in(getattr(getattr(inner, "_http_options", None), "headers", None) or {})
