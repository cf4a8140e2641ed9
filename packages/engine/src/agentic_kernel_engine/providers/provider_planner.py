"""ProviderPlanner: the port of a planner that holds a client, and optional parts of planners."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from ..seams.planner import Planner


class ProviderPlanner(Planner, Protocol):
    """A Planner that holds a client."""

    impl: str
    """The first part of its failure codes."""

    async def close(self) -> None:
        """Close the client, unless it is the user's own."""
        ...


class Closing(Protocol):
    """A planner with resources that a runtime releases when it is closed."""

    @abstractmethod
    async def close(self) -> None:
        """Release them."""
        ...


class Renaming(Protocol):
    """A planner that can make a planner like it for another model."""

    @abstractmethod
    def with_model(self, model: str) -> Planner:
        """Return a planner that asks another model, with the same options.

        Raises:
            InvalidValue: The name is not valid.
        """
        ...
