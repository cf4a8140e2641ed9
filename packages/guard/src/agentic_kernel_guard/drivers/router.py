"""StaticRouter: which drivers carry a capability's calls out, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import entries, flag, instance, part, several, text

from ..firewall.raw import RawResult
from .isolation import in_time
from .port import Driver, DriverCall, Indeterminate, NoEffect

MOST: Final = 100_000
"""The most capabilities of a router."""


class StaticRouter:
    """Tries the drivers of a capability in their order.

    The next driver is tried only where the failed call certainly had no effect, or where the spec
    says that the operation is idempotent. Otherwise the outcome is indeterminate, and the call is
    not repeated.

    Args:
        routes: The drivers of each capability, the first choice first.

    Raises:
        InvalidValue: A capability has no driver, two of its drivers have one name, or an argument
            is of another type.
    """

    def __init__(self, routes: Mapping[str, Sequence[Driver]]) -> None:
        self._routes = {
            text(name, "routes"): tuple(several(drivers, f"routes[{name!a:.200}]", "drivers"))
            for name, drivers in entries(routes, "routes", MOST)
        }
        for capability, drivers in self._routes.items():
            names = [
                text(part(driver, f"routes[{capability!a:.200}]", Driver).name, "driver.name")
                for driver in drivers
            ]
            if not names:
                raise InvalidValue(f"routes[{capability!a:.200}]", "has no driver; name at least 1")
            if len(set(names)) < len(names):
                raise InvalidValue(
                    f"routes[{capability!a:.200}]", "has two drivers of one name; rename one"
                )

    async def run(self, call: DriverCall, idempotent: bool) -> RawResult:
        """Carry a call out. All drivers together have ``call.timeout`` seconds.

        A cancellation is passed on; what the call did until then is not known.

        Raises:
            NoEffect: Each driver says that its call had no effect, or there is no driver.
            Indeterminate: A call failed, took too long or gave no result, and may have had an
                effect.
        """
        drivers = self._routes.get(instance(call, "call", DriverCall).capability, ())
        flag(idempotent, "idempotent")
        until = asyncio.get_running_loop().time() + call.timeout
        refused: NoEffect | None = None
        failed: BaseException | None = None
        for driver in drivers:
            try:
                return await in_time(_result(driver, call), until)
            except NoEffect as error:
                error.source = str(getattr(driver, "source", "") or driver.name)
                refused = error
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:
                # An exception of a driver is not an order to stop; a cancellation of this task is.
                task = asyncio.current_task()
                cancelled = task is None or task.cancelling()
                if isinstance(error, asyncio.CancelledError) and cancelled:
                    raise
                failed = error
                if not idempotent:
                    break
        if failed is not None:
            kind = type(failed).__name__
            late = isinstance(failed, TimeoutError)
            why = f"did not end within {call.timeout:g} seconds" if late else f"failed ({kind})"
            raise Indeterminate(
                f"{call.capability[:200]} {why} and may have had an effect; look at the target "
                "before it is called again"
            ) from failed
        if refused is None:
            raise NoEffect(f"no driver is known for {call.capability[:200]}", "guard/no_driver")
        raise refused


async def _result(driver: Driver, call: DriverCall) -> RawResult:
    return instance(await driver.call(call), "the result", RawResult)
