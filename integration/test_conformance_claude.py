"""ClaudeRuntime passes the contracts of a Runtime and a Query, on an independent server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from agentic_kernel_claude import RUNTIME_KIND, ClaudeRuntime
from agentic_kernel_conformance import QueryContract, RuntimeContract

from .peers.aimock import Aimock
from .scripted_work import FEATURES, SCRIPT, ScriptedWork, step
from .watched import Watched

# The gate has one runtime that is a Loop, OpenAI's: the contract is about what they share.
pytestmark = pytest.mark.torture


@pytest.fixture(scope="module")
def scripted() -> Iterator[Aimock]:
    """An independent server that follows `SCRIPT`."""
    with Aimock(SCRIPT) as peer:
        yield peer


class _Claude(Watched):
    patience = 60.0

    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork(RUNTIME_KIND)

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork, scripted: Aimock) -> AsyncIterator[ClaudeRuntime]:
        async with ClaudeRuntime(
            "claude-opus-5-5",
            tools=[step],
            api_key="none",
            base_url=scripted.url,
            observer=work,
        ) as runtime:
            yield runtime


class TestClaudeRuntime(_Claude, RuntimeContract):
    features = FEATURES


class TestClaudeRuntimeAsQuery(_Claude, QueryContract):
    features = FEATURES
