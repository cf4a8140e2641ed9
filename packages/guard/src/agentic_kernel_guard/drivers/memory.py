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
        source: Where the data is from; taint names it.

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
        self._operations: dict[str, tuple[Callable[..., Any], inspect.Signature, bool]] = {}
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
            self._operations[operation] = function, signature, waits

    async def call(self, call: DriverCall) -> RawResult:
        """Call the operation's function.

        Raises:
            NoEffect: There is no such operation, or it does not take these arguments.
        """
        known = self._operations.get(call.operation)
        if known is None:
            raise NoEffect(f"{self.name} has no operation {call.operation!a:.200}")
        function, signature, waits = known
        arguments = {
            name: value if type(value) in _UNCHANGING else deepcopy(value)
            for name, value in call.arguments.items()
        }
        if CALL in signature.parameters:
            if CALL in arguments:
                raise NoEffect(f"{call.operation!a:.200} takes no argument named {CALL!r}")
            arguments[CALL] = call
        try:
            signature.bind(**arguments)
        except TypeError as error:
            raise NoEffect(f"{call.operation!a:.200} does not take these arguments") from error
        if waits:
            result = await function(**arguments)
        else:
            result = await in_thread(function, **arguments)
            if inspect.isawaitable(result):
                result = await result
        return RawResult(result, self.name, self.source)
