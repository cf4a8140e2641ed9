"""The kit resumes Tasks only with the extras that the author's work names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agentic_kernel_conformance import (
    HearingWork,
    RuntimeContract,
    RuntimeFeatures,
    ScriptedSubstrate,
    ScriptedWork,
)
from agentic_kernel_conformance.work import extra_of
from agentic_kernel_engine import Host, Receipt


class OrderedWork(ScriptedWork):
    """A work whose Tasks are resumed with orders and with no other text."""

    def extra(self, token: str) -> str:
        return f"order:{token}"


class OrdersOnly(Host):
    """A Host that remembers every other text that was given to a resume."""

    others: list[str]

    async def resume(
        self, task_id: str, extra: str | None = None, *, at_version: int | None = None
    ) -> Receipt:
        if isinstance(extra, str) and not extra.startswith("order:"):
            self.others.append(extra)
        return await super().resume(task_id, extra, at_version=at_version)


_UNDELIVERED = {"an extra"}
"""The text that the kit gives to Tasks that are unknown or have ended; no work receives it."""


class TestOrders(RuntimeContract):
    features = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)

    @pytest.fixture
    def work(self) -> ScriptedWork:
        return OrderedWork()

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork) -> AsyncIterator[Host]:
        async with OrdersOnly(ScriptedSubstrate(work), interval=0.01) as host:
            host.others = []
            yield host
            assert set(host.others) <= _UNDELIVERED


def test_a_work_without_extras_is_resumed_with_the_contracts_texts() -> None:
    plain, ordered = ScriptedWork(), OrderedWork()
    assert isinstance(ordered, HearingWork)
    assert not isinstance(plain, HearingWork)
    assert (extra_of(plain, "go on"), extra_of(ordered, "go on")) == ("go on", "order:go on")
