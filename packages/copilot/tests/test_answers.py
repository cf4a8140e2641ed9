"""The final answer of a session fits the schema or the type that the Task asks for."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine.inputs import OUTPUT_SCHEMA
from integration.peers.aimock import Aimock
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

from .conftest import asked
from .scripts import after, says
from .test_images import at


@dataclass
class Colour:
    """A colour."""

    name: str
    warm: bool


LOOSE = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def saying(*texts: str) -> Fault:
    """Answers with these texts, one after the other."""
    left = list(texts)

    def act(exchange: Exchange) -> None:
        exchange.answer(exchange.wire.text(exchange.model, [left.pop(0)]))

    return Fault("says", act)


async def test_a_typed_answer_comes_back_after_one_that_did_not_fit(
    scripted: Mapping[str, Any],
) -> None:
    red = json.dumps({"name": "red", "warm": True})
    with FaultyServer(saying("It is red.", '{"name": "red"}', red)) as server:
        async with CopilotRuntime(**at(server, scripted)) as runtime:
            done = await runtime.run("Name a colour.", output_type=Colour)
        bodies = [request.json for request in server.requests]
    assert done.unwrap() == Colour("red", True)
    assert done.task.result == {"name": "red", "warm": True}
    form = bodies[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"]["required"] == ["name", "warm"]
    told = [json.dumps(body["messages"][-1]) for body in bodies]
    assert "The final answer was refused: is not valid JSON" in told[1]
    assert "The final answer was refused" in told[2]
    assert "warm" in told[2]


@pytest.mark.slow
async def test_a_schema_that_cannot_be_enforced_is_told_in_words(
    scripted: Mapping[str, Any],
) -> None:
    with FaultyServer(saying('{"name": "red"}')) as server:
        async with CopilotRuntime(**at(server, scripted), output_schema=LOOSE) as runtime:
            done = await runtime.run("Name a colour.")
        [body] = [request.json for request in server.requests]
    assert done.unwrap() == {"name": "red"}
    assert "response_format" not in body
    assert "fits this JSON Schema" in json.dumps(body["messages"])


async def test_a_bug_that_ends_the_run_is_logged_once(
    scripted: Mapping[str, Any], aimock: Aimock, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(schema: Any) -> Any:
        def check(answer: Any) -> str | None:
            raise ZeroDivisionError("a bug")

        return check

    aimock.load([after(0, says('{"name": "red"}'))])
    given: Any = {"output_schema": LOOSE, "validator": broken}
    with caplog.at_level(logging.ERROR, "agentic_kernel_engine"):
        async with CopilotRuntime(**scripted, **given) as runtime:
            task = await runtime.run(asked("Name a colour."))
    assert task.failure is not None
    assert task.failure.code == "engine/unhandled_error"
    (record,) = caplog.records
    assert record.getMessage() == f"task {task.id!r}, step 0: the run failed"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.slow
async def test_a_model_that_never_fits_ends_the_task(
    scripted: Mapping[str, Any], aimock: Aimock
) -> None:
    aimock.load([after(turn, says("No.")) for turn in range(9)])
    async with CopilotRuntime(**scripted) as runtime:
        done = await runtime.run("Name a colour.", output_type=Colour)
    failure = done.task.failure
    assert failure is not None
    assert failure.code == "engine/no_progress"
    assert "refused 5 times in a row: is not valid JSON" in failure.message
    assert len(aimock.requests()) == 5


async def test_a_schema_that_is_not_accepted_is_refused_at_dispatch(
    scripted: Mapping[str, Any],
) -> None:
    async with CopilotRuntime(**scripted) as runtime:
        for schema in ("object", {"type": "nonsense"}):
            with pytest.raises(CannotStart):
                await runtime.dispatch(asked("Hi.", **{OUTPUT_SCHEMA: schema}))
        assert runtime.substrate.cli.starts == 0
    with pytest.raises(InvalidValue, match="output_type: stands beside output_schema"):
        CopilotRuntime(**scripted, output_schema=LOOSE, output_type=Colour)
    with pytest.raises(InvalidValue):
        CopilotRuntime(**scripted, output_schema={"type": "nonsense"})
