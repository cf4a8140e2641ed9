"""Providers of one's own: by option and by environment, over every wire that the CLI speaks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue, TaskNotFound, TaskStatus
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_copilot.provider import provider_of
from agentic_kernel_engine import MemoryStore, tool
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer

from .conftest import KEY, asked
from .scripts import after, calls, says


@tool(effect="none", inline=True)
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


@pytest.mark.torture
@pytest.mark.parametrize(
    ("wire", "prefix", "path"),
    [
        ({"type": "openai", "wire_api": "completions"}, "/v1", "/v1/chat/completions"),
        ({"type": "openai", "wire_api": "responses"}, "/v1", "/v1/responses"),
        ({"type": "anthropic"}, "", "/v1/messages"),
    ],
    ids=["completions", "responses", "messages"],
)
async def test_a_tool_is_called_and_answered_with_over_every_wire(
    scripted: Mapping[str, Any], aimock: Aimock, wire: Any, prefix: str, path: str
) -> None:
    aimock.load(
        [after(0, calls(("weather", {"city": "Oslo"}))), after(1, says("It is sunny in Oslo."))]
    )
    provider = {**wire, "base_url": f"{aimock.url}{prefix}", "api_key": KEY}
    given = {**scripted, "provider": provider}
    async with CopilotRuntime(**given, tools=[weather]) as runtime:
        task = await runtime.run(asked("How is it in Oslo?"))
        events = (await runtime.outcome(task.id)).events
    assert task.result == "It is sunny in Oslo."
    step = next(event for event in events if event.type == "step.observed")
    assert step.data["observations"][0]["output"] == "sunny in Oslo"
    told = aimock.requests()
    assert [each.path for each in told] == [path, path]
    assert told[1].body["messages"][-1]["content"] == "sunny in Oslo"


@pytest.mark.slow
async def test_the_clis_own_variables_name_the_provider(place: Mapping[str, Any]) -> None:
    """The CLI itself does not apply_decisions them in a session that a program begins."""
    with FaultyServer("status_503", times=0) as server:
        named = {
            "COPILOT_PROVIDER_BASE_URL": f"{server.url}/v1",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_PROVIDER_HEADERS": "X-Tenant: ours",
            "COPILOT_MODEL": "theirs",
        }
        env = {**place["env"], **named}
        async with CopilotRuntime(**{**place, "env": env}, offline=True) as runtime:
            task = await runtime.run(asked("Hello."))
    assert task.result == "All is well."
    (request,) = server.requests
    assert request.json["model"] == "theirs"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-tenant"] == "ours"


@pytest.mark.parametrize(
    ("offline", "base_url", "wanted"),
    [
        (True, "", "set COPILOT_PROVIDER_BASE_URL and COPILOT_MODEL"),
        (False, "http://127.0.0.1:1/v1", "set COPILOT_MODEL, or give a model"),
    ],
    ids=["no provider", "no model"],
)
async def test_what_a_session_lacks_is_told_before_the_first_task(
    tmp_path: Path, offline: bool, base_url: str, wanted: str
) -> None:
    env = {"COPILOT_PROVIDER_BASE_URL": base_url, "COPILOT_PROVIDER_MODEL_ID": ""}
    env["COPILOT_MODEL"] = ""
    async with CopilotRuntime(offline=offline, env=env, home=tmp_path) as runtime:
        task = asked("Hello.")
        with pytest.raises(CannotStart, match=wanted):
            await runtime.dispatch(task)
        with pytest.raises(TaskNotFound):
            await runtime.get(task.id)
        assert runtime.substrate.cli.starts == 0


@pytest.mark.torture
async def test_a_task_that_is_taken_over_without_a_provider_is_paused(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    """It can go on where there is one."""
    store = MemoryStore()
    aimock.load([after(0, says("done"))])
    async with CopilotRuntime(store, **scripted, claims=False) as runtime:
        task = (await runtime.dispatch(asked("Hello."))).snapshot
        await runtime.pause(task.id)
        await runtime.wait(task.id, TaskStatus.PAUSED)
    lacking = {**scripted, "provider": None, "model": None}
    lacking["env"] = {**scripted["env"], "COPILOT_PROVIDER_BASE_URL": ""}
    async with CopilotRuntime(store, **lacking) as runtime:
        await runtime.resume(task.id)
        paused = await runtime.wait(task.id, TaskStatus.PAUSED)
        events = (await runtime.outcome(task.id)).events
    assert paused.status is TaskStatus.PAUSED
    assert "COPILOT_PROVIDER_BASE_URL" in events[-1].data["reason"]


def test_an_environment_without_a_base_url_names_no_provider() -> None:
    assert provider_of({"COPILOT_PROVIDER_API_KEY": KEY}) is None


def test_every_variable_of_a_provider_is_heeded() -> None:
    found = provider_of(
        {
            "COPILOT_PROVIDER_BASE_URL": "https://example.invalid",
            "COPILOT_PROVIDER_TYPE": "azure",
            "COPILOT_PROVIDER_WIRE_API": "responses",
            "COPILOT_PROVIDER_TRANSPORT": "websockets",
            "COPILOT_PROVIDER_API_KEY_COMMAND": "print-key",
            "COPILOT_PROVIDER_BEARER_TOKEN": "token",
            "COPILOT_PROVIDER_AZURE_API_VERSION": "2026-01-01",
            "COPILOT_PROVIDER_MODEL_ID": "gpt-5",
            "COPILOT_PROVIDER_WIRE_MODEL": "ours",
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "1000",
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "100",
            "COPILOT_PROVIDER_HEADERS": "X-A: 1\\nX-B: 2: 3\nX-C:",
        }
    )
    assert found == {
        "type": "azure",
        "base_url": "https://example.invalid",
        "wire_api": "responses",
        "transport": "websockets",
        "api_key_command": "print-key",
        "bearer_token": "token",
        "azure": {"api_version": "2026-01-01"},
        "model_id": "gpt-5",
        "wire_model": "ours",
        "max_prompt_tokens": 1000,
        "max_output_tokens": 100,
        "headers": {"X-A": "1", "X-B": "2: 3", "X-C": ""},
    }


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "many"),
        ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "-1"),
        ("COPILOT_PROVIDER_HEADERS", "no colon"),
    ],
)
def test_a_variable_that_is_not_valid_is_named(variable: str, value: str) -> None:
    env = {"COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1/v1", variable: value}
    with pytest.raises(InvalidValue) as refused:
        CopilotRuntime(env=env)
    assert refused.value.path == variable
