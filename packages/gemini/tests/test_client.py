"""The SDK's client: its key, its address, its retries, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from google import genai

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context
from agentic_kernel_engine.loop import FinalAnswer, PlannerError
from agentic_kernel_gemini import GeminiPlanner
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer
from integration.peers.lapsing import LapsingServer

TASK = Task.new(summary="", instructions="Hi", runtime_kind="gemini")


@pytest_asyncio.fixture
async def keyless() -> AsyncIterator[GeminiPlanner]:
    planner = GeminiPlanner("m")
    yield planner
    await planner.close()


async def test_without_a_key_a_task_is_refused_and_told_what_to_set(
    keyless: GeminiPlanner,
) -> None:
    with pytest.raises(CannotStart, match=r"GEMINI_API_KEY.*api_key="):
        await keyless.accept(TASK)
    with pytest.raises(PlannerError, match="GEMINI_API_KEY") as caught:
        await ask(keyless, context(QUESTION, ()))
    assert caught.value.code == "gemini/authentication"


@pytest.mark.parametrize("name", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
async def test_key_and_address_come_from_the_environment(
    keyless: GeminiPlanner, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with FaultyServer("secret_echoed", times=0) as server:
        monkeypatch.setenv(name, "AIza-of-the-environment")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        # A planner without a client of the user's asks the Gemini API in any case.
        monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
        await keyless.accept(TASK)
        answer = await ask(keyless, context(QUESTION, ()))
        await keyless.close()
        [request] = server.requests
    assert answer.plan.actions == (FinalAnswer("All is well."),)
    assert request.headers["x-goog-api-key"] == "AIza-of-the-environment"
    assert request.headers["accept-encoding"] == "identity"
    # The vendor's server would end a stream after these seconds.
    assert "x-server-timeout" not in request.headers
    assert request.path == "/v1/models/m:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("end", "path"),
    [
        ("", "/v1/models/m:generateContent"),
        ("/", "/v1/models/m:generateContent"),
        ("/v1beta", "/v1beta/models/m:generateContent"),
        ("/v1beta/", "/v1beta/models/m:generateContent"),
        ("/proxy/v1alpha", "/proxy/v1alpha/models/m:generateContent"),
        ("/proxy", "/proxy/v1/models/m:generateContent"),
    ],
)
async def test_a_version_at_the_end_of_the_address_is_that_of_the_api(end: str, path: str) -> None:
    with FaultyServer("closed", times=0) as server:
        planner = GeminiPlanner("m", api_key="none", base_url=server.url + end, stream=False)
        await ask(planner, context(QUESTION, ()))
        await planner.close()
        assert [each.path for each in server.requests] == [path]


async def test_a_secret_of_the_environment_is_not_told(
    keyless: GeminiPlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not look like a key."""
    with FaultyServer("secret_echoed") as server:
        monkeypatch.setenv("GOOGLE_API_KEY", "horse.battery.staple")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        with pytest.raises(PlannerError) as caught:
            await ask(keyless, context(QUESTION, ()))
    assert "horse" not in str(caught.value)
    assert "[redacted]" in caught.value.message


async def test_what_is_not_a_key_is_refused(
    keyless: GeminiPlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "AIza\r\nX-Injected: yes")
    with pytest.raises(CannotStart, match="GEMINI_API_KEY"):
        await keyless.accept(TASK)
    for key in ("", "a\nb", "a b"):
        with pytest.raises(InvalidValue, match="api_key"):
            GeminiPlanner("m", api_key=key)


async def test_a_request_that_the_server_has_read_is_not_sent_again() -> None:
    """It may be a whole generation, and only the Loop reserves the cost of another."""
    with LapsingServer() as server:
        planner = GeminiPlanner("m", api_key="none", base_url=server.url)
        assert (await ask(planner, context(QUESTION, []))).text == "All is well."
        with pytest.raises(PlannerError) as caught:
            await ask(planner, context(QUESTION, []))
        assert (caught.value.code, caught.value.usage) == ("gemini/connection", None)
        await planner.close()
    assert (server.accepted, len(server.requests)) == (1, 2)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_closed_planner_makes_another_client_when_it_is_asked(
    aimock: Aimock, stream: bool
) -> None:
    aimock.script({"content": "one"}, {"content": "two"})
    planner = GeminiPlanner("m", api_key="none", base_url=f"{aimock.url}/v1beta", stream=stream)
    for said in ("one", "two"):
        assert (await ask(planner, context(QUESTION, ()))).text == said
        await planner.close()
        await planner.close()
    assert aimock.connections() == 0


class TestTheUsersOwn:
    def made(self, url: str, **options: Any) -> genai.Client:
        given: Any = {"base_url": url, **options}
        return genai.Client(api_key="AIza-of-the-user", http_options=given)

    async def test_it_is_used_and_stays_open(self, aimock: Aimock) -> None:
        aimock.script({"content": "one"}, {"content": "two"})
        client = self.made(aimock.url, api_version="v1beta")
        for said in ("one", "two"):
            planner = GeminiPlanner("m", client=client)
            await planner.accept(TASK)
            assert (await ask(planner, context(QUESTION, ()))).text == said
            await planner.close()
        await client.aio.aclose()

    @pytest.mark.parametrize("fault", ["status_503", "closed"])
    async def test_it_makes_no_call_twice(self, fault: str) -> None:
        with FaultyServer(fault) as server:
            client = self.made(server.url, retry_options={"attempts": 5, "initial_delay": 0.01})
            with pytest.raises(PlannerError):
                await ask(GeminiPlanner("m", client=client), context(QUESTION, ()))
            await client.aio.aclose()
            assert len(server.requests) == 1

    async def test_its_key_and_its_headers_are_not_told(self) -> None:
        with FaultyServer("secret_echoed") as server:
            client = self.made(server.url, headers={"Authorization": "Bearer battery.staple"})
            planner = GeminiPlanner("m", client=client)
            with pytest.raises(PlannerError) as caught:
                await ask(planner, context(QUESTION, ()))
            await client.aio.aclose()
            assert server.requests[0].headers["authorization"] == "Bearer battery.staple"
        assert caught.value.message == "Incorrect API key provided: [redacted]."
        assert planner._client.secrets.clean("battery.staple") == "[redacted]"

    async def test_leaving_its_stream_closes_the_connection(self) -> None:
        with FaultyServer("stall") as server:
            client = self.made(server.url)
            stream: Any = GeminiPlanner("m", client=client).plan(context(QUESTION, ()))
            async for _ in stream:
                break
            await stream.aclose()
            await asyncio.to_thread(server.wait_closed)
            await client.aio.aclose()

    async def test_another_object_or_a_key_beside_it_is_refused(self) -> None:
        other: Any = "https://example.org"
        with pytest.raises(InvalidValue, match=r"google\.genai\.Client"):
            GeminiPlanner("m", client=other)
        with pytest.raises(InvalidValue, match="client"):
            GeminiPlanner("m", client=self.made("http://127.0.0.1:9"), api_key="another")
