"""GeminiRuntime passes the contracts of a Runtime and a Query, on an independent server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from agentic_kernel_conformance import QueryContract, RuntimeContract
from agentic_kernel_gemini import RUNTIME_KIND, GeminiRuntime

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


class _Gemini(Watched):
    patience = 60.0

    @pytest.fixture
    def work(self) -> ScriptedWork:
        return ScriptedWork(RUNTIME_KIND)

    @pytest_asyncio.fixture
    async def runtime(self, work: ScriptedWork, scripted: Aimock) -> AsyncIterator[GeminiRuntime]:
        async with GeminiRuntime(
            "gemini-3.8-flash",
            tools=[step],
            api_key="none",
            base_url=f"{scripted.url}/v1beta",
            observer=work,
        ) as runtime:
            yield runtime


class TestGeminiRuntime(_Gemini, RuntimeContract):
    features = FEATURES


class TestGeminiRuntimeAsQuery(_Gemini, QueryContract):
    features = FEATURES
