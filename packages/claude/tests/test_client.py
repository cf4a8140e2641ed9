"""The SDK's client: whose key it has, whose it is, and when there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from anthropic import Anthropic, AsyncAnthropic

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_claude import ClaudePlanner
from agentic_kernel_conformance.planner_answers import ask
from agentic_kernel_conformance.planner_contexts import QUESTION, context
from agentic_kernel_engine.loop import FinalAnswer, PlannerError
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer
from integration.peers.lapsing import LapsingServer

TASK = Task.new(summary="", instructions="Hi", runtime_kind="claude")


@pytest_asyncio.fixture
async def keyless() -> AsyncIterator[ClaudePlanner]:
    planner = ClaudePlanner("m")
    yield planner
    await planner.close()


async def test_without_a_key_a_task_is_refused_and_told_what_to_set(
    keyless: ClaudePlanner,
) -> None:
    with pytest.raises(CannotStart, match=r"ANTHROPIC_API_KEY.*api_key="):
        await keyless.accept(TASK)


async def test_without_a_key_a_call_fails_by_its_code(keyless: ClaudePlanner) -> None:
    with pytest.raises(PlannerError, match="ANTHROPIC_API_KEY") as caught:
        await ask(keyless, context(QUESTION, ()))
    assert caught.value.code == "claude/authentication"


async def test_key_and_address_come_from_the_environment(
    keyless: ClaudePlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer("secret_echoed", times=0) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-environment")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        await keyless.accept(TASK)
        answer = await ask(keyless, context(QUESTION, ()))
        await keyless.close()
        [request] = server.requests
    assert answer.plan.actions == (FinalAnswer("All is well."),)
    assert request.headers["authorization"] == "Bearer sk-ant-of-the-environment"
    assert request.headers["accept-encoding"] == "identity"
    assert request.path == "/v1/messages"


async def test_a_secret_of_the_environment_is_not_told(
    keyless: ClaudePlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it does not look like a key."""
    with FaultyServer("secret_echoed") as server:
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "horse.battery.staple")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with pytest.raises(PlannerError) as caught:
            await ask(keyless, context(QUESTION, ()))
    assert "horse" not in str(caught.value)
    assert "[redacted]" in caught.value.message


async def test_what_is_no_key_is_refused(
    keyless: ClaudePlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-1\r\nX-Injected: yes")
    with pytest.raises(CannotStart, match="ANTHROPIC_API_KEY"):
        await keyless.accept(TASK)
    for key in ("", "a\nb", "a b"):
        with pytest.raises(InvalidValue, match="api_key"):
            ClaudePlanner("m", api_key=key)


async def test_a_request_that_the_server_has_read_is_not_sent_again() -> None:
    """It may be a whole generation, and only the Loop reserves the cost of another."""
    with LapsingServer() as server:
        given: Any = {"api_key": "none", "base_url": server.url}
        planner = ClaudePlanner("m", max_tokens=100, **given)
        assert (await ask(planner, context(QUESTION, []))).text == "All is well."
        with pytest.raises(PlannerError) as caught:
            await ask(planner, context(QUESTION, []))
        assert (caught.value.code, caught.value.usage) == ("claude/connection", None)
        assert (await ask(planner, context(QUESTION, []))).text == "All is well."
        await planner.close()
    assert (server.accepted, len(server.requests)) == (2, 3)


async def test_a_request_on_a_new_connection_is_sent_once() -> None:
    with LapsingServer(answers=0) as server:
        given: Any = {"api_key": "none", "base_url": server.url}
        planner = ClaudePlanner("m", max_tokens=100, **given)
        with pytest.raises(PlannerError) as caught:
            await ask(planner, context(QUESTION, []))
        await planner.close()
    assert caught.value.code == "claude/connection"
    assert (server.accepted, len(server.requests)) == (1, 1)


async def test_a_closed_planner_makes_another_client_when_it_is_asked(aimock: Aimock) -> None:
    aimock.script({"content": "one"}, {"content": "two"})
    planner = ClaudePlanner("claude-opus-5", api_key="none", base_url=aimock.url)
    for said in ("one", "two"):
        answer = await ask(planner, context(QUESTION, ()))
        assert answer.text == said
        await planner.close()
        await planner.close()


class TestTheUsersOwn:
    async def test_it_is_used_and_stays_open(self, aimock: Aimock) -> None:
        aimock.script({"content": "one"}, {"content": "two"})
        async with AsyncAnthropic(api_key="own", base_url=aimock.url) as client:
            for said in ("one", "two"):
                planner = ClaudePlanner("claude-opus-5", client=client)
                await planner.accept(TASK)
                assert (await ask(planner, context(QUESTION, ()))).text == said
                await planner.close()
                assert not client.is_closed()

    async def test_it_makes_no_call_twice(self) -> None:
        with FaultyServer("status_503") as server:
            async with AsyncAnthropic(api_key="own", base_url=server.url) as client:
                with pytest.raises(PlannerError):
                    await ask(ClaudePlanner("m", client=client), context(QUESTION, ()))
            assert len(server.requests) == 1

    async def test_one_that_cannot_be_awaited_is_refused(self) -> None:
        client: Any = Anthropic(api_key="own")
        with pytest.raises(InvalidValue, match="AsyncAnthropic"):
            ClaudePlanner("m", client=client)
        client.close()

    async def test_a_key_beside_it_is_refused(self) -> None:
        async with AsyncAnthropic(api_key="own") as client:
            with pytest.raises(InvalidValue, match="client"):
                ClaudePlanner("m", client=client, api_key="another")
