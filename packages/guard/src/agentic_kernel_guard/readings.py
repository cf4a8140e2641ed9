"""Readings: what each run of a guard has seen of which source, for taint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from agentic_kernel_engine import Principal

from .canonical import digest
from .firewall import Frame
from .policy import GuardRules, Request
from .stores import GuardStore, Seen
from .taint import Reading, remembered, told

REMEMBERED: Final = 90 * 24 * 3_600
"""Seconds for which taint is remembered."""
RUNS: Final = 256
"""The most runs whose taint is kept in memory, beside the store."""


class Readings:
    """Remembers what runs have seen, as long as the policy looks at taint.

    A run is a Task, or else a principal.
    """

    def __init__(self, store: GuardStore, policy: GuardRules, now: Callable[[], int]) -> None:
        self._store = store
        self._policy = policy
        self._now = now
        self._known: dict[str, tuple[int, Reading]] = {}

    async def tainted(self, request: Request, task: str) -> Request:
        """The request with the taint of its arguments and of its run."""
        if not self._policy.taints:
            return request
        run = _run_of(task, request.principal)
        last, reading = self._known.get(run, (0, Reading()))
        for number, source, text in await self._store.seen(run, last):
            if number > last:
                reading.add(source, text)
                last = number
        self._known.pop(run, None)
        self._known[run] = last, reading
        if len(self._known) > RUNS:
            del self._known[next(iter(self._known))]
        # The justification reaches a person and the trace, so it is looked at like an argument.
        carries = reading.carried([request.arguments, request.justification])
        return msgspec.structs.replace(request, carries=carries, has_read=reading.sources)

    def saw(self, frame: Frame, task: str, who: Principal) -> Seen | None:
        """The texts to remember of a frame that is about to be shown."""
        if not self._policy.taints or not frame.taint:
            return None
        until = self._now() + REMEMBERED * 1_000
        return Seen(_run_of(task, who), frame.source, remembered(frame), until)

    def heard(self, message: str, source: str, task: str, who: Principal) -> Seen | None:
        """The texts to remember of a driver's message that is about to be shown."""
        if not self._policy.taints:
            return None
        until = self._now() + REMEMBERED * 1_000
        return Seen(_run_of(task, who), source, told(message), until)


def _run_of(task: str, who: Principal) -> str:
    """The owner of taint: a Task, or else the principal."""
    return digest([who.name, who.tenant, task])
