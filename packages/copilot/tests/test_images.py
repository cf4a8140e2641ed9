"""Images of a Task and of a tool reach the model, through the real CLI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_copilot.translation import result_of
from agentic_kernel_engine.loop import Observation
from agentic_kernel_engine.providers import IMAGES
from agentic_kernel_engine.seams import tool
from integration.peers.exchange import Exchange
from integration.peers.faults import Fault
from integration.peers.faulty import FaultyServer

from .conftest import asked

PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
IMAGE = {"type": "image", "media_type": "image/gif", "data": PIXEL}
ADDRESS = {"type": "image", "url": "https://example.org/a.png"}


@tool(effect="none", inline=True)
def picture() -> Any:
    """Show a picture."""
    return [IMAGE, "a pixel"]


def at(server: FaultyServer, scripted: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords for a runtime whose provider is this server, which shows what it gets as it is."""
    provider = {**scripted["provider"], "base_url": f"{server.url}/v1"}
    return {**scripted, "provider": provider}


@pytest.mark.slow
async def test_the_images_of_a_task_reach_the_model(scripted: Mapping[str, Any]) -> None:
    with FaultyServer("closed", times=0) as server:
        async with CopilotRuntime(**at(server, scripted)) as runtime:
            done = await runtime.run(asked("What is this?", **{IMAGES: [IMAGE]}))
        [request] = server.requests
    assert done.result == "All is well."
    [said] = [each for each in json.loads(request.body)["messages"] if each["role"] == "user"]
    shown = [each for each in said["content"] if each["type"] == "image_url"]
    assert [each["image_url"]["url"] for each in shown] == [f"data:image/gif;base64,{PIXEL}"]


@pytest.mark.slow
async def test_the_images_of_a_tool_reach_the_model(scripted: Mapping[str, Any]) -> None:
    def act(exchange: Exchange) -> None:
        if b'"role":"tool"' in exchange.request.body.replace(b" ", b""):
            exchange.answer(exchange.good())
        else:
            exchange.answer(exchange.wire.call(exchange.model, "picture", ["{}"]))

    with FaultyServer(Fault("a picture", act)) as server:
        async with CopilotRuntime(**at(server, scripted), tools=[picture]) as runtime:
            done = await runtime.run(asked("Show it."))
        last = server.requests[-1].body
    assert done.result == "All is well."
    assert PIXEL.encode() in last
    assert b"a pixel" in last


@pytest.mark.parametrize(
    ("output", "text", "images"),
    [
        ("plain", "plain", 0),
        ({"a": 1}, '{"a":1}', 0),
        (None, "null", 0),
        (IMAGE, "an image", 1),
        ([IMAGE, IMAGE], "2 images", 2),
        ([IMAGE, "a pixel"], '["a pixel"]', 1),
        (ADDRESS, "an image (not here: https://example.org/a.png)", 0),
    ],
    ids=str,
)
def test_the_text_of_a_result_with_images(output: Any, text: str, images: int) -> None:
    said, binary = result_of(Observation(output))
    assert said == text
    assert [(each.data, each.mime_type) for each in binary] == [(PIXEL, "image/gif")] * images
