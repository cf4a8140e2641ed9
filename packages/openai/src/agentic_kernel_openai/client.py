"""Client: the SDK's client, created when the planner first needs it."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine.providers import (
    Failures,
    Secrets,
    address_problem,
    check_address,
    check_key,
    key_problem,
    keys_in,
    mask,
    secrets_of,
)

from .failures import CODES, IMPL

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""The environment variable of the key."""
ADDRESS_VARIABLE: Final = "OPENAI_BASE_URL"
"""The environment variable of the server's address."""


class Client:
    """Holds the SDK's client for one planner.

    Args:
        api_key: The key; None for the value of `KEY_VARIABLE`.
        base_url: The server's address; None for ``OPENAI_BASE_URL``, or else OpenAI's own server.
        client: A client that the user made, used instead of a new one; it is never closed.
        timeout: Seconds to wait for the next piece of a response.
        organization: None for ``OPENAI_ORG_ID``.
        project: None for ``OPENAI_PROJECT_ID``.

    Raises:
        InvalidValue: A value is not valid; the error names it.
    """

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None,
        client: AsyncOpenAI | None,
        timeout: float,
        organization: str | None,
        project: str | None,
    ) -> None:
        named = (("api_key", api_key), ("organization", organization), ("project", project))
        for name, value in named:
            if value is not None:
                check_key(value, name)
        if base_url is not None:
            check_address(base_url)
        if client is not None:
            from openai import AsyncOpenAI

            if not isinstance(client, AsyncOpenAI):
                raise InvalidValue("client", "must be an openai.AsyncOpenAI")
            if (api_key, base_url, organization, project) != (None, None, None, None):
                raise InvalidValue(
                    "client",
                    "cannot be combined with api_key, base_url, organization or project; set "
                    "these on the client",
                )
        self._api_key = api_key
        self._base_url = base_url
        self._theirs = client
        self._timeout = timeout
        self._organization = organization
        self._project = project
        self._open: AsyncOpenAI | None = None

    async def load(self) -> None:
        """Import the SDK in a thread, unless the process has imported it already.

        The import takes most of a second; other Tasks go on meanwhile.

        Raises:
            CannotStart: There is no valid key, or the address in the environment is not valid.
        """
        if self._open is None and "openai" not in sys.modules:
            self._key()
            await asyncio.to_thread(import_module, "openai")

    def open(self) -> AsyncOpenAI:
        """Return the SDK's client, with retries off, because the Loop decides about retries.

        Raises:
            CannotStart: There is no valid key, or the address in the environment is not valid; the
                error says what to do.
        """
        if self._open is None:
            self._open = self._own() if self._theirs is None else self._shared(self._theirs)
            mask("openai", "httpx2", "httpcore2", "httpx", "httpcore")
        return self._open

    @property
    def secrets(self) -> Secrets:
        """The keys that the client sends, which must not appear in any output."""
        keys = [self._api_key, os.environ.get(KEY_VARIABLE)]
        client = self._theirs if self._open is None else self._open
        if client is not None:
            keys.append(client.api_key)
            keys += keys_in(getattr(client, "_custom_headers", {}))
        return secrets_of(*sorted({key for key in keys if isinstance(key, str) and key}))

    @property
    def failures(self) -> Failures:
        """A factory of failures in which the keys are redacted."""
        return Failures(IMPL, CODES, self.secrets)

    async def close(self) -> None:
        """Close the client, unless it is the user's own; `open` makes a new one later."""
        client, self._open = self._open, None
        if client is not None and self._theirs is None:
            await client.close()

    def _key(self) -> str:
        key = self._api_key or os.environ.get(KEY_VARIABLE)
        if not key:
            raise CannotStart(
                f"there is no API key: set the environment variable {KEY_VARIABLE}, or give "
                "api_key=; if your server needs no key, give any text"
            )
        problem = key_problem(key)
        if problem:
            raise CannotStart(f"the environment variable {KEY_VARIABLE} {problem}")
        address = os.environ.get(ADDRESS_VARIABLE)
        problem = address_problem(address) if address and self._base_url is None else ""
        if problem:
            raise CannotStart(f"the environment variable {ADDRESS_VARIABLE} {problem}")
        return key

    def _own(self) -> AsyncOpenAI:
        key = self._key()

        from openai import AsyncOpenAI

        from .transport import http_client

        http = http_client(self._timeout)
        return AsyncOpenAI(
            api_key=key,
            base_url=self._base_url,
            organization=self._organization,
            project=self._project,
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )

    def _shared(self, client: AsyncOpenAI) -> AsyncOpenAI:
        return client.with_options(max_retries=0)
