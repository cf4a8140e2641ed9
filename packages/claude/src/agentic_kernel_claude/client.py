"""Client: the vendor's SDK, imported and made when it is first needed."""

from __future__ import annotations

import asyncio
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from agentic_kernel import CannotStart, InvalidValue

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
_KEY: Final = re.compile(r"[\x21-\x7e]+")


class Client:
    """Where a planner gets the SDK's client from: the user's own, or one that it makes.

    Retries of the SDK are off, for the Loop has calls repeated, and reserves anew before it does.

    Args:
        own: The user's; it is never closed.
        api_key: None for what the SDK finds in the environment.
        base_url: None likewise.
        timeout: Seconds; see `transport.http_client`.

    Raises:
        InvalidValue: One of them makes no sense; it is named.
    """

    def __init__(
        self,
        own: AsyncAnthropic | None,
        api_key: str | None,
        base_url: str | None,
        timeout: float,
    ) -> None:
        if api_key is not None and not (isinstance(api_key, str) and _KEY.fullmatch(api_key)):
            raise InvalidValue(
                "api_key", "has blanks, line breaks or nothing at all, and is no key"
            )
        if base_url is not None and not str(base_url).startswith(("http://", "https://")):
            raise InvalidValue("base_url", "must begin with https:// or http://")
        if own is not None:
            if isinstance(own, import_module("anthropic").Anthropic):
                raise InvalidValue("client", "cannot be awaited; give an AsyncAnthropic")
            if api_key is not None or base_url is not None:
                raise InvalidValue("client", "has its own key and address; give those or a client")
        self._own = own
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._client: AsyncAnthropic | None = None

    async def open(self) -> AsyncAnthropic:
        """The client, which is made at the first call.

        Raises:
            CannotStart: There is no key.
        """
        if self._client is None:
            if "anthropic" not in sys.modules:
                # It takes a second or more, in which other Tasks go on.
                await asyncio.to_thread(import_module, "anthropic")
            if self._client is None:
                self._client = self._make()
        return self._client

    def secrets(self) -> list[str]:
        """What the client sends that nobody may see."""
        return self._keys(self._client)

    async def close(self) -> None:
        """Let go of the connections; idempotent. The user's own client is left as it is."""
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
                "api_key=; for a server that wants none, give any text"
            )
        if not all(map(_KEY.fullmatch, self._keys(client))):
            raise CannotStart(f"the environment variable {KEY_VARIABLE} holds what is no key")
        return client
