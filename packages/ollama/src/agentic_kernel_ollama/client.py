"""Client: the vendor's SDK, imported and made when it is first needed."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine.providers import Secrets
from agentic_kernel_engine.providers.edges import address_problem, check_key, key_problem
from agentic_kernel_engine.providers.logs import mask
from agentic_kernel_engine.providers.secrets import keys_in, secrets_of

if TYPE_CHECKING:
    from ollama import AsyncClient

HOST_VARIABLE: Final = "OLLAMA_HOST"
"""The environment variable of the server's address."""
KEY_VARIABLE: Final = "OLLAMA_API_KEY"
"""The environment variable of the key; a server of one's own needs none."""
USUAL: Final = "http://127.0.0.1:11434"
"""Where the server is if nobody says."""
REACH_SECONDS: Final = 5.0
"""How long a server may take to show that it is there."""


class Client:
    """Where a planner gets the SDK's client from: the user's own, or one that it makes.

    Args:
        own: The user's; it is never closed.
        host: Where the server is; None for `HOST_VARIABLE`, or else `USUAL`.
        api_key: None for `KEY_VARIABLE`, or else none.
        timeout: Seconds; see `transport.http_options`.

    Raises:
        InvalidValue: One of them makes no sense; it is named.
    """

    def __init__(
        self, own: AsyncClient | None, host: str | None, api_key: str | None, timeout: float
    ) -> None:
        if own is not None and (host, api_key) != (None, None):
            raise InvalidValue("client", "has its own address and key; give those, or a client")
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
        """The client, which is made at the first call.

        Raises:
            CannotStart: The environment has an address or a key that cannot be used.
        """
        if self._client is None:
            if self._own is None:
                _check_environment()
            if "ollama" not in sys.modules:
                # It takes a second or more, in which other Tasks go on.
                await asyncio.to_thread(import_module, "ollama")
            if self._client is None:
                self._client = self._make()
                mask("httpx", "httpcore")
        return self._client

    async def reach(self) -> None:
        """Make sure, once, that there is a server: any answer will do.

        Raises:
            CannotStart: There is none. It says how to start one.
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
                f"say where it is by {HOST_VARIABLE} or host= ({type(error).__name__})"
            ) from error
        except Exception:
            # Whatever it said, it is there; what is wrong with it shows later.
            pass
        self._reached = True

    def secrets(self) -> Secrets:
        """What the client sends that nobody may see."""
        keys = {self._api_key or "", os.environ.get(KEY_VARIABLE) or ""}
        client = self._client or self._own
        if client is not None:
            keys.update(keys_in(getattr(client._client, "headers", {})))
        return secrets_of(*sorted(filter(None, keys)))

    async def close(self) -> None:
        """Let go of the connections; idempotent. The user's own client is left as it is."""
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
    """Refuse what the SDK would stumble over: it reads both as soon as it is imported."""
    problem = _problem(os.environ.get(HOST_VARIABLE) or USUAL)
    if problem:
        raise CannotStart(f"the environment variable {HOST_VARIABLE} {problem}")
    problem = key_problem(os.environ.get(KEY_VARIABLE) or "none")
    if problem:
        raise CannotStart(f"the environment variable {KEY_VARIABLE} {problem}")


def _problem(host: Any) -> str:
    """The fault of an address, which may leave out its scheme; empty if it has none."""
    if not isinstance(host, str):
        return f"must be a string, not {type(host).__name__}"
    if not host:
        return "is empty; give an address, e.g. http://127.0.0.1:11434"
    return address_problem(host if "://" in host else f"http://{host}")
