"""Composition: the server with its credentials, policy, bounds and figures, as one application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Store

from ..executions import KIND
from ..observing.metrics import Metrics
from ..observing.metrics import routes as metric_routes
from ..observing.requests import Observed
from ..policy import Gate, Policy, Rates
from ..security import (
    KeyCredentials,
    Keys,
    LoopbackCredentials,
    Revocable,
    Sized,
    TenantBounds,
)
from ..server import Server
from .options import Options


@dataclass(frozen=True, slots=True)
class Composition:
    """The parts of a server of its own."""

    server: Server
    app: ASGIApp
    gate: Gate
    rates: Rates
    metrics: Metrics
    revocable: Revocable | None
    """None for a server without keys."""


class Files:
    """The policy and the keys of a process, from its start to its end.

    A new beginning after a lost lease takes them as they are: it is no reload, and a file that was
    damaged meanwhile is no reason to end.

    Args:
        options: They name the files.
        policy: The policy in use; None reads the one that the options name.

    Raises:
        PolicyError: The policy cannot be used.
        KeyFileError: The key file cannot be used.
    """

    def __init__(self, options: Options, policy: Policy | None = None) -> None:
        self.policy: Final = policy or Policy(options.policy)
        self.keys: Final = None if options.keys is None else Keys(options.keys)


def composed(store: Store, options: Options, files: Files | None = None) -> Composition:
    """Put a server together.

    Args:
        files: The policy and the keys; None reads those that the options name.

    Raises:
        PolicyError: The policy cannot be used.
        KeyFileError: The key file cannot be used.
    """
    files = files or Files(options)
    metrics = Metrics()
    rates = Rates(store)
    gate = Gate(files.policy, rates)
    keys = files.keys
    authenticate = LoopbackCredentials() if keys is None else KeyCredentials(keys)
    server = Server(
        store,
        settings=options.settings,
        authenticate=authenticate,
        decide=gate,
        bounds=TenantBounds(options.most, unfinished(store)),
        measure=metrics,
        routes=metric_routes(metrics, authenticate),
    )
    revocable = None if keys is None else Revocable(server.app, keys)
    app = Observed(Sized(revocable or server.app, options.sizes), metrics)
    return Composition(server, app, gate, rates, metrics, revocable)


def unfinished(store: Store) -> Callable[[str, int], Awaitable[int]]:
    """A function that counts the unfinished executions of a tenant, up to a number."""

    async def count(tenant: str, most: int) -> int:
        found = 0
        for status in (TaskStatus.RUNNING, TaskStatus.PAUSED):
            if found < most:
                page = await store.find(
                    kinds=[KIND], realms=[tenant], status=status, limit=most - found
                )
                found += len(page)
        return found

    return count
