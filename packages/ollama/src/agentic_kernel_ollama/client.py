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
    check_key,
    key_problem,
    keys_in,
    mask,
    secrets_of,
)

if TYPE_CHECKING:
    from ollama import AsyncClient

HOST_VARIABLE: Final = "OLLAMA_HOST"
"""The environment variable of the server's address."""
KEY_VARIABLE: Final = "OLLAMA_API_KEY"
"""The environment variable of the key; a server of your own needs none."""
USUAL: Final = "http://127.0.0.1:11434"
"""The server's default address."""
REACH_SECONDS: Final = 5.0
"""The most seconds until a server answers the first request."""


class Client:
    """Holds the SDK's client for one planner: the user's own, or one that it creates.

    Args:
        own: The user's client; it is never closed.
        host: The server's address; None for the value of `HOST_VARIABLE`, or else `USUAL`.
        api_key: None for the value of `KEY_VARIABLE`, or else no key.
        timeout: Seconds; see `transport.http_options`.

    Raises:
        InvalidValue: A value is not valid; the error names it.
    """

    def __init__(
        self, own: AsyncClient | None, host: str | None, api_key: str | None, timeout: float
    ) -> None:
        if own is not None and (host, api_key) != (None, None):
            raise InvalidValue(
                "client", "cannot be combined with host or api_key; set these on the client"
            )
        if own is not None and not isinstance(own, import_module("ollama").AsyncClient):
            raise InvalidValue("client", "must be an ollama.AsyncClient")
        problem = "" if host is None else _problem(host)
        if problem:
            raise InvalidValue("host", problem)
        if api_key is not None:
            check_key(api_key)
        self._own: AsyncClient | None = own
        self._host = host
        self._api_key = api_key
        self._timeout = timeout
        self._client: AsyncClient | None = None
        self._reached = False

    async def open(self) -> AsyncClient:
        """Return the client; the first call creates it.

        Raises:
            CannotStart: The address or the key in the environment is not valid.
        """
        if self._client is None:
            if self._own is None:
                _check_environment()
            if "ollama" not in sys.modules:
                # The import takes a second or more; other Tasks go on meanwhile.
                await asyncio.to_thread(import_module, "ollama")
            if self._client is None:
                self._client = self._make()
                mask("httpx", "httpcore")
        return self._client

    async def reach(self) -> None:
        """Check that a server answers, with any response; after a success, do nothing.

        Raises:
            CannotStart: No server answers. The error says how to start one.
        """
        client = await self.open()
        if self._reached:
            return
        import httpx

        from .transport import Refused

        try:
            async with asyncio.timeout(min(REACH_SECONDS, self._timeout)):
                await client.list()
        except Refused:
            pass
        except (httpx.TransportError, OSError) as error:
            raise CannotStart(
                f"no Ollama server answers at {self._address()}; start one with `ollama serve`, or "
                f"give its address by {HOST_VARIABLE} or host= ({type(error).__name__})"
            ) from error
        except Exception:
            # An error response also shows that the server is there. The first call reports it.
            pass
        self._reached = True

    def secrets(self) -> Secrets:
        """Return the keys that the client sends, which must not appear in any output."""
        keys = {self._api_key or "", os.environ.get(KEY_VARIABLE) or ""}
        client = self._client or self._own
        if client is not None:
            keys.update(keys_in(getattr(client._client, "headers", {})))
        return secrets_of(*sorted(filter(None, keys)))

    async def close(self) -> None:
        """Close the connections; idempotent. The user's own client stays open."""
        client, self._client, self._reached = self._client, None, False
        if client is not None and self._own is None:
            await client.close()  # type: ignore[no-untyped-call]

    def _address(self) -> str:
        if self._own is not None:
            return "the address of its client"
        return self._host or os.environ.get(HOST_VARIABLE) or USUAL

    def _make(self) -> AsyncClient:
        from ollama import AsyncClient

        from .transport import http_options

        if self._own is not None:
            return self._own
        options: dict[str, Any] = http_options(self._timeout)
        if self._api_key is not None:
            options["headers"]["Authorization"] = f"Bearer {self._api_key}"
        client: AsyncClient = AsyncClient(self._host, **options)
        return client


def _check_environment() -> None:
    """Refuse a bad address or key first: the SDK reads both as soon as it is imported.

    Raises:
        CannotStart: The address or the key in the environment is not valid.
    """
    problem = _problem(os.environ.get(HOST_VARIABLE) or USUAL)
    if problem:
        raise CannotStart(f"the environment variable {HOST_VARIABLE} {problem}")
    problem = key_problem(os.environ.get(KEY_VARIABLE) or "none")
    if problem:
        raise CannotStart(f"the environment variable {KEY_VARIABLE} {problem}")


def _problem(host: Any) -> str:
    """Return the fault of an address, or an empty string; the address may leave out its scheme."""
    if not isinstance(host, str):
        return f"must be a string, not {type(host).__name__}"
    if not host:
        return "is empty; give an address, e.g. http://127.0.0.1:11434"
    return address_problem(host if "://" in host else f"http://{host}")
