"""ProviderPlanner: the port of a planner that holds a client of a provider."""

from __future__ import annotations

from typing import Protocol

from ..seams.planner import Planner


class ProviderPlanner(Planner, Protocol):
    """A Planner that holds a client."""

    impl: str
    """The first part of its failure codes."""

    async def close(self) -> None:
        """Close the client, unless it is the user's own."""
        ...
