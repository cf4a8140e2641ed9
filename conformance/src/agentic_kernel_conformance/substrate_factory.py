"""SubstrateFactory: how each worker process makes the substrate under test."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from inspect import isawaitable
from typing import Any

Argument = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class SubstrateFactory:
    """The factory that each worker process calls once.

    The module is imported once, by a process that runs no event loop and starts the workers by
    `os.fork`. So the import must start no thread, no process and no connection.

    Args:
        path: ``package.module:name`` of a callable, plain or async, that returns a Substrate.
        arguments: The arguments of the call; plain values, because they cross a process boundary.
    """

    path: str
    arguments: tuple[Argument, ...] = ()

    def __post_init__(self) -> None:
        module, colon, name = self.path.partition(":")
        if not (module and colon and name):
            raise ValueError(
                f"the factory is {ascii(self.path)}; it must be 'package.module:name', the place "
                "of a callable that returns a Substrate"
            )

    @classmethod
    def of(cls, given: str | SubstrateFactory) -> SubstrateFactory:
        """Return a factory for what a ``factory`` fixture supplied."""
        return given if isinstance(given, SubstrateFactory) else cls(given)

    def load(self) -> Any:
        """Import the callable."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)

    async def make(self) -> Any:
        """Make a substrate."""
        made = self.load()(*self.arguments)
        return await made if isawaitable(made) else made
