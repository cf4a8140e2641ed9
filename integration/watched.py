"""The fixture of the contracts for text in progress: another Host on the store of a runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from agentic_kernel_engine import Host


class Watched:
    """A part of an adapter whose runtime is a Host."""

    @pytest_asyncio.fixture
    async def elsewhere(self, runtime: Host) -> AsyncIterator[Host]:
        """A Host that runs nothing and shares only the store."""
        async with Host(store=runtime.store) as host:
            yield host
