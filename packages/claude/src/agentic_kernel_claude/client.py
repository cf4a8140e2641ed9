"""Client: the SDK's client, imported and created when the planner first needs it."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine.providers import (
    Secrets,
    address_problem,
    check_address,
    check_key,
    key_problem,
    keys_in,
    mask,
    secrets_of,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE: Final = "ANTHROPIC_AUTH_TOKEN"
ADDRESS_VARIABLE: Final = "ANTHROPIC_BASE_URL"


class Client:
    """Holds the SDK's client for one planner: the user's own, or one that it creates.

    The SDK's retries are off, because the Loop retries calls, and reserves the budget before each.

    Args:
        own: The user's client; it is never closed.
        api_key: None for the key that the SDK finds in the environment.
        base_url: None for the address that the SDK finds there.
        timeout: Seconds; see `transport.http_client`.

    Raises:
        InvalidValue: A value is not valid; the error names it.
    """

    def __init__(
        self,
        own: AsyncAnthropic | None,
        api_key: str | None,
        base_url: str | None,
        timeout: float,
    ) -> None:
        if api_key is not None:
            check_key(api_key)
        if base_url is not None:
            check_address(base_url)
        if own is not None:
            vendor: Any = import_module("anthropic")
            if isinstance(own, vendor.Anthropic):
                raise InvalidValue("client", "is synchronous; give an AsyncAnthropic")
            if not hasattr(own, "messages") or not hasattr(own, "with_options"):
                raise InvalidValue("client", f"is a {type(own).__name__}; give an AsyncAnthropic")
            if api_key is not None or base_url is not None:
                raise InvalidValue(
                    "client",
                    "cannot be combined with api_key or base_url; set these on the client",
                )
        self._own = own
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._client: AsyncAnthropic | None = None

    async def open(self) -> AsyncAnthropic:
        """Return the client; the first call creates it.

        Raises:
            CannotStart: There is no valid key, or the address in the environment is not valid.
        """
        if self._client is None:
            if "anthropic" not in sys.modules:
                # The import takes a second or more; other Tasks go on meanwhile.
                await asyncio.to_thread(import_module, "anthropic")
            if self._client is None:
                self._client = self._make()
                mask("anthropic", "httpx2", "httpcore2", "httpx", "httpcore")
        return self._client

    def secrets(self) -> Secrets:
        """Return the keys that the client sends, which must not appear in any output."""
        client = self._client or self._own
        keys = self._keys(client)
        keys += (os.environ.get(name, "") for name in (KEY_VARIABLE, TOKEN_VARIABLE))
        if client is not None:
            keys += keys_in(getattr(client, "_custom_headers", {}))
        return secrets_of(*sorted(set(filter(None, keys))))

    async def close(self) -> None:
        """Close the connections; idempotent. The user's own client stays open."""
        client, self._client = self._client, None
        if client is not None and self._own is None:
            await client.close()

    def _keys(self, client: AsyncAnthropic | None) -> list[str]:
        found = (getattr(client, name, None) for name in ("api_key", "auth_token"))
        return [each for each in (*found, self._api_key) if isinstance(each, str)]

    def _make(self) -> AsyncAnthropic:
        from anthropic import AnthropicError, AsyncAnthropic

        if self._own is not None:
            return self._own.with_options(max_retries=0)
        from .transport import http_client

        address = os.environ.get(ADDRESS_VARIABLE)
        problem = address_problem(address) if address and self._base_url is None else ""
        if problem:
            raise CannotStart(f"the environment variable {ADDRESS_VARIABLE} {problem}")
        http = http_client(self._timeout)
        try:
            client = AsyncAnthropic(
                api_key=self._api_key,
                base_url=self._base_url,
                timeout=http.timeout,
                max_retries=0,
                http_client=http,
            )
        except AnthropicError as error:
            raise CannotStart(
                f"the SDK finds no key: {error} Set {KEY_VARIABLE}, or give api_key="
            ) from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise CannotStart(
                f"there is no API key: set the environment variable {KEY_VARIABLE}, or give "
                "api_key=; if your server needs no key, give any text"
            )
        problem = next(filter(None, map(key_problem, self._keys(client))), "")
        if problem:
            raise CannotStart(f"the environment variable {KEY_VARIABLE} {problem}")
        return client
