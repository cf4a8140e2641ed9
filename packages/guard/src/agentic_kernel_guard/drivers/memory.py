"""InMemoryDriver: operations that are functions of this process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import entries, text

from ..firewall.raw import RawResult
from ..threads import in_thread
from .port import DriverCall, NoEffect

CALL: Final = "call"
"""The parameter by which a function gets the whole `DriverCall`, e.g. for its key."""

_UNCHANGING: Final = frozenset({str, int, float, bool, type(None)})


class _Operation:
    """A function, and the arguments that it takes by name."""

    __slots__ = ("_needed", "_signature", "_usual", "function", "waits", "wants_call")

    def __init__(
        self, function: Callable[..., Any], signature: inspect.Signature, waits: bool
    ) -> None:
        self.function = function
        self.waits = waits
        self.wants_call = CALL in signature.parameters
        self._signature = signature
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = signature.parameters
        plain = all(each.kind in by_name for each in parameters.values())
        self._usual = frozenset(parameters) if plain else frozenset()
        self._needed = frozenset(
            name for name, each in parameters.items() if each.default is inspect.Parameter.empty
        )

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        """True if the function can be called with these arguments."""
        if self._needed <= arguments.keys() <= self._usual:
            return True  # As `bind`, in a fifth of the time.
        try:
            self._signature.bind(**arguments)
        except TypeError:
            return False
        return True


class InMemoryDriver:
    """Calls a function for each operation.

    A function gets the arguments by name, as copies of its own, and the `DriverCall` if it has a
    parameter named ``call``. A coroutine function runs on the event loop, any other function in a
    thread. A thread cannot be ended: after a timeout it goes on until it returns.

    A function raises `NoEffect` if it certainly did nothing; any other exception may come after an
    effect.

    Args:
        operations: The functions by operation.
        name: Name of the driver.
        source: The source of the data; taint names it.

    Raises:
        InvalidValue: An operation is no function.
    """

    def __init__(
        self,
        operations: Mapping[str, Callable[..., Any]],
        *,
        name: str = "memory",
        source: str = "",
    ) -> None:
        self.name: Final = text(name, "name", empty=False)
        self.source: Final = text(source, "source") or name
        self._operations: dict[str, _Operation] = {}
        for operation, function in entries(operations, "operations"):
            text(operation, "operations")
            if not callable(function):
                raise InvalidValue(f"operations[{operation!a:.200}]", "must be a function")
            waits = inspect.iscoroutinefunction(function)
            try:
                signature = inspect.signature(function)
            except (TypeError, ValueError) as error:
                raise InvalidValue(
                    f"operations[{operation!a:.200}]", f"has no signature: {error}"
                ) from None
            self._operations[operation] = _Operation(function, signature, waits)

    async def call(self, call: DriverCall) -> RawResult:
        """Call the operation's function.

        Raises:
            NoEffect: There is no such operation, or it does not take these arguments.
        """
        known = self._operations.get(call.operation)
        if known is None:
            raise NoEffect(f"{self.name} has no operation {call.operation!a:.200}")
        arguments = {
            name: value if type(value) in _UNCHANGING else deepcopy(value)
            for name, value in call.arguments.items()
        }
        if known.wants_call:
            if CALL in arguments:
                raise NoEffect(f"{call.operation!a:.200} takes no argument named {CALL!r}")
            arguments[CALL] = call
        if not known.takes(arguments):
            raise NoEffect(f"{call.operation!a:.200} does not take these arguments")
        if known.waits:
            result = await known.function(**arguments)
        else:
            result = await in_thread(known.function, **arguments)
            if inspect.isawaitable(result):
                result = await result
        return RawResult(result, self.name, self.source)
