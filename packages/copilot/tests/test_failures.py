"""Faults of the provider, as the CLI reports them, and their codes."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Mapping
from typing import Any

import pytest
from copilot.session_events import ModelCallFailureData, ModelCallFailureSource, SessionErrorData

from agentic_kernel_copilot import CopilotRuntime, failures
from agentic_kernel_engine import tool
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer

from .conftest import asked
from .scripts import after, calls, says

HOLDING = ("hang", "hang_after_head")


@pytest.mark.parametrize(
    ("said", "failed", "code"),
    [
        ({"status_code": 400}, {"error_code": "context_length_exceeded"}, "context_length"),
        ({}, {"status_code": 413}, "request_too_large"),
        ({"message": "The provider rejected the prompt as too long."}, {}, "context_length"),
        ({"status_code": 404}, {"error_code": "model_not_found"}, "model_not_found"),
        ({"status_code": 404}, {}, "not_found"),
        ({"status_code": 429}, {"error_type": "insufficient_quota"}, "quota"),
        ({"status_code": 429, "error_type": "rate_limit"}, {}, "rate_limit"),
        ({"status_code": 403, "error_type": "authentication"}, {}, "permission"),
        ({"status_code": 503}, {}, "overloaded"),
        ({"message": "fetch failed"}, {}, "connection"),
        ({"message": "error sending request for url"}, {}, "connection"),
        ({}, {"error_type": "server_error"}, "server_error"),
        ({"status_code": 503}, {"error_type": "server_error"}, "overloaded"),
        ({"status_code": 529}, {"error_type": "overloaded_error"}, "overloaded"),
        ({"message": "something else"}, {}, "bad_response"),
    ],
)
def test_the_most_exact_of_what_was_said_is_the_code(
    said: dict[str, Any], failed: dict[str, Any], code: str
) -> None:
    error = SessionErrorData(**{"error_type": "query", "message": "It failed.", **said})
    cause = ModelCallFailureData(ModelCallFailureSource.TOP_LEVEL, **failed) if failed else None
    assert failures.answered(error, cause).code == f"copilot/{code}"


def test_a_missing_login_is_told_with_what_to_set() -> None:
    said = "Execution failed: InvalidArg, No GitHub OAuth token or Copilot HMAC key provided"
    fault = failures.answered(SessionErrorData("query", said))
    assert fault.code == "copilot/authentication"
    assert "COPILOT_GITHUB_TOKEN" in fault.message


def test_no_message_steers_a_terminal_or_has_a_key_in_it() -> None:
    said = "bad \x1b[31m\x07request\u202e sk-0123456789abcdef"
    found = [
        failures.answered(SessionErrorData("query", said)).message,
        failures.failure(failures.CLI_REFUSED, said).message,
        failures.clean(said),
    ]
    for text in found:
        assert not any(unicodedata.category(each) in ("Cc", "Cf") for each in text)
        assert "sk-0123" not in text


@pytest.mark.torture
async def test_without_a_login_a_task_fails_with_what_to_set(place: Mapping[str, Any]) -> None:
    nowhere = {**place["env"], "HTTPS_PROXY": "http://127.0.0.1:9"}
    async with CopilotRuntime(model="gpt-5", **{**place, "env": nowhere}) as runtime:
        task = await runtime.run(asked("Hello."))
    assert task.failure is not None
    assert task.failure.code == "copilot/authentication"
    assert "COPILOT_GITHUB_TOKEN" in task.failure.message


@pytest.mark.torture
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("status_413", "request_too_large"),
        ("context_length", "context_length"),
        ("model_not_found", "model_not_found"),
        ("refused", "refusal"),
        ("filtered", "content_filter"),
        ("empty_answer", "bad_response"),
        ("message_escapes", "invalid_request"),
        ("secret_echoed", "authentication"),
    ],
)
async def test_what_the_provider_does_wrong_is_told_by_the_real_cli(
    scripted: Mapping[str, Any], fault: str, code: str
) -> None:
    with FaultyServer(fault) as server:
        provider = {**scripted["provider"], "base_url": f"{server.url}/v1"}
        async with CopilotRuntime(**{**scripted, "provider": provider}) as runtime:
            failure = (await runtime.run(asked("Hello."))).failure
    assert failure is not None
    assert failure.code == f"copilot/{code}"
    said = failure.message.replace("\n", "")
    assert not any(unicodedata.category(each) == "Cc" for each in said)
    assert provider["api_key"] not in said


@pytest.mark.torture
@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "authentication"), (403, "permission"), (400, "invalid_request"), (404, "not_found")],
)
async def test_what_the_provider_refuses_is_a_failure_with_a_code(
    scripted: Mapping[str, Any], aimock: Aimock, status: int, code: str
) -> None:
    error = {"message": "refused", "type": "refused"}
    aimock.load([{"match": {}, "response": {"error": error, "status": status}}])
    async with CopilotRuntime(**scripted) as runtime:
        task = await runtime.run(asked("Hello."))
    assert task.failure is not None
    assert task.failure.code == f"copilot/{code}"
    assert scripted["provider"]["api_key"] not in task.failure.message


@pytest.mark.torture
async def test_an_answer_that_was_cut_is_a_failure(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    aimock.load([{"match": {}, "response": {"content": "Once upon", "finishReason": "length"}}])
    async with CopilotRuntime(**scripted) as runtime:
        task = await runtime.run(asked("Tell a story."))
    assert task.failure is not None
    assert task.failure.code == "copilot/max_tokens"
    assert task.failure.metadata["text"] == "Once upon"


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["stall", *(pytest.param(each, marks=pytest.mark.torture) for each in HOLDING)]
)
async def test_a_provider_that_is_silent_is_given_up(
    scripted: Mapping[str, Any], fault: str
) -> None:
    """The CLI would wait for ever."""
    with FaultyServer(fault) as server:
        provider = {**scripted["provider"], "base_url": f"{server.url}/v1"}
        given = {**scripted, "provider": provider, "timeout": 1.0}
        async with CopilotRuntime(**given) as runtime:
            task = await runtime.run(asked("Hello."))
            await asyncio.to_thread(server.wait_closed)
        assert len(server.requests) == 1
    assert task.failure is not None
    assert task.failure.code == "copilot/timeout"
    assert "nothing for 1 seconds" in task.failure.message


@pytest.mark.torture
async def test_time_that_a_tool_takes_is_no_silence_of_the_provider(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    @tool(effect="none")
    async def ponder() -> str:
        """Take twice as long as the provider may."""
        await asyncio.sleep(2.0)
        return "pondered"

    aimock.load([after(0, calls(("ponder", {}))), after(1, says("done"))])
    async with CopilotRuntime(**scripted, tools=[ponder], timeout=1.0) as runtime:
        task = await runtime.run(asked("Ponder."))
    assert task.result == "done"


@pytest.mark.torture
async def test_an_answer_without_an_end_is_cut_off(scripted: Mapping[str, Any]) -> None:
    with FaultyServer("endless_text") as server:
        provider = {**scripted["provider"], "base_url": f"{server.url}/v1"}
        async with CopilotRuntime(**{**scripted, "provider": provider}) as runtime:
            task = await runtime.run(asked("Hello."))
            await asyncio.to_thread(server.wait_closed)
            assert runtime.substrate.cli.starts == 1
    assert task.failure is not None
    assert task.failure.code == "engine/endless_answer"


@pytest.mark.torture
async def test_what_passes_by_itself_the_cli_asks_again(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    """The CLI repeats a request by itself; what it says in the end is the answer."""
    with FaultyServer("status_503", times=1) as server:
        provider = {**scripted["provider"], "base_url": f"{server.url}/v1"}
        async with CopilotRuntime(**{**scripted, "provider": provider}) as runtime:
            task = await runtime.run(asked("Hello."))
        assert len(server.requests) == 2
    assert task.result == "All is well."
