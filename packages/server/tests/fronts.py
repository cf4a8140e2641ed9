"""A server of its own for the tests: composed as the command does it, in the test's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from agentic_kernel_engine import Store
from agentic_kernel_server.security import KeyFile
from agentic_kernel_server.security.protocol import GuardedProtocol
from agentic_kernel_server.serving import Options, listening
from agentic_kernel_server.serving.composition import Composition, composed
from agentic_kernel_server.serving.options import shown_address
from agentic_kernel_server.serving.process import configured

from .serving import QUICK


class Front(uvicorn.Server):
    """uvicorn, without signal handlers."""

    def capture_signals(self) -> Any:
        """Capture none."""
        from contextlib import nullcontext

        return nullcontext()


@asynccontextmanager
async def fronted(
    store: Store, protocol: type[GuardedProtocol] = GuardedProtocol, **given: Any
) -> AsyncIterator[tuple[str, Composition]]:
    """A composed server on a free port: its address and its parts."""
    options = Options(listen="127.0.0.1:0", settings=QUICK, **given)
    (listener,) = listening(options)
    parts = composed(store, options)
    front = Front(configured(parts.app, options, protocol))
    async with parts.server:
        main = asyncio.ensure_future(front.serve([listener]))
        while not front.started:
            await asyncio.sleep(0.005)
            assert not main.done(), main
        try:
            yield shown_address(listener), parts
        finally:
            await parts.server.drain(timeout=2.0)
            front.should_exit = True
            front.force_exit = True
            await main


class Crowd:
    """Keys of some people in one file."""

    def __init__(self, folder: Path) -> None:
        self.file = KeyFile(folder / "keys.json")
        self.texts: dict[str, str] = {}

    def key(self, name: str, *scopes: str, tenant: str = "red") -> str:
        """The header line with a new key."""
        self.texts[name], _ = self.file.make(name, scopes, tenant=tenant)
        return f"Authorization: Bearer {self.texts[name]}"
