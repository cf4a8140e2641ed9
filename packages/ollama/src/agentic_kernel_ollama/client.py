"""Client: the SDK's client, made when the planner first needs it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from agentic_kernel import CannotStart
from agentic_kernel_engine.providers import (
    Refused,
    SDKClient,
    address_problem,
    http_options,
)

REACH_SECONDS: Final = 5.0
"""The most seconds until a server answers the first request."""


class Client(SDKClient):
    """Holds an ``ollama.AsyncClient``."""

    sdk = "ollama"
    kind = "AsyncClient"
    http = "httpx"
    keywords = ("host", "api_key")
    address = "host"
    address_variable = "OLLAMA_HOST"
    usual = "http://127.0.0.1:11434"
    models = "/api/tags"
    key_variables = ("OLLAMA_API_KEY",)
    needs_key = False
    keys = ()
    headers = "_client.headers"

    reached = False
    """True once a server has answered."""

    def make(self) -> Any:
        """See `SDKClient`."""
        import httpx
        from ollama import AsyncClient

        options = http_options(httpx, self.timeout)
        if self.given["api_key"] is not None:
            options["headers"]["Authorization"] = f"Bearer {self.given['api_key']}"
        return AsyncClient(self.given["host"], **options)

    def address_problem(self, address: Any) -> str:
        """See `SDKClient`; an address may leave out its scheme."""
        if not address:
            return f"is empty; give an address, e.g. {self.usual}"
        bare = isinstance(address, str) and "://" not in address
        return address_problem(f"http://{address}" if bare else address)

    async def close(self) -> None:
        """See `SDKClient`."""
        self.reached = False
        await super().close()

    async def ready(self) -> None:
        """Check that a server answers, with any response; after a success, do nothing.

        Raises:
            CannotStart: No server answers. The error says how to start one.
        """
        client = await self.open()
        if self.reached:
            return
        import httpx

        try:
            async with asyncio.timeout(min(REACH_SECONDS, self.timeout)):
                await client.list()
        except Refused:
            pass
        except (httpx.TransportError, OSError) as error:
            address = self.asked_address() or self.usual
            raise CannotStart(
                "no Ollama server answers at "
                f"{address if self.own is None else 'the address of its client'}; start one with "
                f"`ollama serve`, or give its address by {self.address_variable} or host= "
                f"({type(error).__name__})"
            ) from error
        except Exception:
            # An error response also shows that the server is there. The first call reports it.
            pass
        self.reached = True
