"""Secrets: a key that the provider quotes is in nothing that is told of a session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from copilot.session_events import (
    AssistantMessageData,
    AssistantMessageDeltaData,
    SessionEvent,
    SessionEventType,
)

from agentic_kernel import InvalidValue, Task
from agentic_kernel_copilot import CopilotSubstrate, failures
from agentic_kernel_copilot.provider import keys_of
from agentic_kernel_copilot.reading import SessionReader
from agentic_kernel_copilot.run import SessionRun
from agentic_kernel_copilot.state import VERSION, State
from agentic_kernel_copilot.translation import action_of, cleaned
from agentic_kernel_engine import Limits, Terms
from agentic_kernel_engine.events import RUN_DELTA
from integration.peers.quotes import FORMS, KEY, leaks

PROVIDER: Any = {"type": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key": KEY}


class Heard:
    """A job that keeps what is emitted."""

    def __init__(self) -> None:
        self.task = Task.new(summary="", instructions="", runtime_kind="copilot")
        self.terms = Terms()
        self.told: list[Any] = []

    def emit(self, event: Any) -> None:
        self.told.append(event)


def event(kind: SessionEventType, data: Any) -> SessionEvent:
    return SessionEvent(
        data=data, id=uuid4(), timestamp=datetime.now(UTC), type=kind, ephemeral=True
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_quoted_key_is_told_nobody(form: str) -> None:
    CopilotSubstrate(model="m", provider=PROVIDER)
    said = FORMS[form](KEY)
    job: Any = Heard()
    run = SessionRun(job, State(VERSION, "s"), Limits())
    reading = SessionReader(run)
    whole = f"it is {said}"
    for at in range(0, len(whole), 3):
        delta = AssistantMessageDeltaData(delta_content=whole[at : at + 3], message_id="1")
        reading.take(event(SessionEventType.ASSISTANT_MESSAGE_DELTA, delta))
    message = AssistantMessageData(content=whole, message_id="1", model=said, reasoning_text=said)
    reading.take(event(SessionEventType.ASSISTANT_MESSAGE, message))
    told = "".join(each.data["text"] for each in job.told if each.type == RUN_DELTA)
    action = action_of(said, said, {said: [said]})
    failure = failures.failure("server_error", whole, text=whole)
    kept = [told, repr(job.told), repr(run.state), repr(reading.answer), repr(action)]
    kept += [repr(failure.args), cleaned(whole)]
    assert told == cleaned(whole)
    assert [*leaks("\n".join(kept))] == []


def test_every_key_that_the_cli_is_given_is_kept_to_itself() -> None:
    provider = {**PROVIDER, "bearer_token": "b" * 9, "headers": {"X-Api-Key": "h" * 9, "A": "n"}}
    servers = {"one": {"headers": {"Authorization": "Bearer " + "m" * 9}, "env": {"A_TOKEN": "e"}}}
    env = {"GH_TOKEN": "g" * 9, "PATH": "/bin"}
    assert keys_of(provider, servers, env) == {KEY, *(each * 9 for each in "bhmg"), "e"}


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("provider.base_url", {"provider": {**PROVIDER, "base_url": "http://[::1"}}),
        ("provider.base_url", {"provider": {**PROVIDER, "base_url": "http://a:bcd@localhost"}}),
        ("provider.base_url", {"provider": {**PROVIDER, "base_url": 5}}),
        ("provider.api_key", {"provider": {**PROVIDER, "api_key": 5}}),
        ("provider.api_key", {"provider": {**PROVIDER, "api_key": "a\r\nb"}}),
        ("timeout", {"timeout": float("nan")}),
        ("timeout", {"timeout": -1}),
    ],
)
def test_a_client_that_cannot_be_made_is_refused_by_name(path: str, options: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        CopilotSubstrate(**{"model": "m", "provider": PROVIDER, **options})
    assert refused.value.path == path
