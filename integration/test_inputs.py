"""Each ready runtime takes the inputs that it names, and refuses all others at dispatch."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import pytest

from agentic_kernel import Agent, CannotStart, Capability, Task, TaskNotFound
from agentic_kernel_claude import ClaudeRuntime
from agentic_kernel_engine import Host, Limits, tool
from agentic_kernel_engine.inputs import CONTINUES, DOCUMENTS, IMAGES, SESSION, Inputs
from agentic_kernel_engine.providers import ProviderRuntime
from agentic_kernel_engine.seams import InMemoryCapabilities, Repertoire, SessionMemoryGovernor
from agentic_kernel_engine.seams.memories import InMemoryMemory
from agentic_kernel_gemini import GeminiRuntime
from agentic_kernel_local import LocalPlanner, LocalRuntime
from agentic_kernel_local.engine import Engine, Request
from agentic_kernel_ollama import OllamaRuntime
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIRuntime
from integration.peers.faulty import FaultyServer

PIXEL: Final = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
IMAGE: Final = {"type": "image", "media_type": "image/gif", "data": PIXEL}
PDF: Final = "JVBERi0xLjQKJSVFT0YK"
DOCUMENT: Final = {
    "type": "document", "media_type": "application/pdf", "data": PDF, "name": "bill.pdf",
}  # fmt: skip
AGENT: Final = "acme/clerk"
OPTIONS: Final[dict[str, Any]] = {
    "max_tokens": 77, "temperature": 0.25, "system": "Speak like a sailor.", "tool_choice": "none",
    "seed": 5, "top_p": 0.875, "stop": ["THE END"], "effort": "low",
}  # fmt: skip


@tool(effect="none", inline=True)
def fetch_invoice(number: int) -> str:
    """Fetch an invoice."""
    return "paid"


def everything(options: Any = None) -> dict[str, Any]:
    """Keywords of a Loop that uses each part of a Task; its Agent has these options."""
    clerk = Repertoire(instructions=["You are the clerk of a bank."], options=options)
    return {
        "tools": [fetch_invoice],
        "capabilities": InMemoryCapabilities(
            [Agent(AGENT, (Capability("acme/bank"),))], {"acme/bank": clerk}
        ),
        "memory": InMemoryMemory(),
        "governor": SessionMemoryGovernor(),
        "output_schema": {"type": "string", "description": "The answer of the clerk."},
        "limits": Limits(max_total_tokens=10**9),
    }


@asynccontextmanager
async def served(name: str, url: str, agents: Any = None) -> AsyncIterator[Host]:
    """A runtime at this peer, whose Agent has these options."""
    runtime: Host
    loop = everything(agents)
    match name:
        case "claude":
            runtime = ClaudeRuntime("m", api_key="key-1", base_url=url, **loop)
        case "gemini":
            runtime = GeminiRuntime("m", api_key="key-1", base_url=url, **loop)
        case "ollama":
            runtime = OllamaRuntime("m", host=url, **loop)
        case _:
            api: Any = name.removeprefix("openai-")
            given = {"api": api, "api_key": "key-1", "base_url": f"{url}/v1"}
            runtime = OpenAIRuntime("gpt-4o", **given, **loop)
    async with runtime:
        yield runtime


VENDORS: Final = {
    "openai-responses": OpenAIRuntime.inputs,
    "openai-chat": OpenAIChatPlanner.inputs,
    "claude": ClaudeRuntime.inputs,
    "ollama": OllamaRuntime.inputs,
    "gemini": GeminiRuntime.inputs,
}


def asked(inputs: Inputs, instructions: str, **fields: Any) -> Task:
    return Task.new(
        summary="", instructions=instructions, runtime_kind=inputs.scope,
        **{"metadata": {SESSION: "monday"}, **fields},
    )  # fmt: skip


@pytest.mark.parametrize("name", VENDORS)
async def test_each_part_that_a_vendors_runtime_takes_reaches_the_model(name: str) -> None:
    inputs = VENDORS[name]
    assert inputs.agent
    assert inputs.session
    assert inputs.continues
    assert inputs.tools
    assert inputs.schema
    assert set(inputs.limits) == set(Limits.__struct_fields__)
    options = {f"{inputs.scope}/{each}": OPTIONS[each] for each in inputs.options}
    with FaultyServer("closed", times=0) as peer:
        async with served(name, peer.url) as runtime:
            first = await runtime.run(asked(inputs, "Remember the number 0417."))
            metadata = {SESSION: "monday", CONTINUES: first.id, IMAGES: [IMAGE], **options}
            if inputs.documents:
                metadata[DOCUMENTS] = [DOCUMENT]
            second = asked(inputs, "Which number?", agent_name=AGENT, metadata=metadata)
            done = await runtime.run(second)
            assert (done.status, done.result) == ("success", "All is well.")
            events = [event.type for event in (await runtime.outcome(done.id)).events]
        assert b"fetch_invoice" in peer.requests[0].body
        sent = json.dumps(json.loads(peer.requests[-1].body))
    assert "run.continued" in events
    assert "memory.recalled" in events
    for part in (
        "Remember the number 0417.", "Which number?", PIXEL, "You are the clerk of a bank.",
        "The answer of the clerk.", *map(str, OPTIONS_ON_THE_WIRE[name]),
        *([PDF] if inputs.documents else ()),
    ):  # fmt: skip
        assert part in sent, part
    assert sent.index("Remember the number 0417.") < sent.index(PIXEL)


OPTIONS_ON_THE_WIRE: Final[dict[str, tuple[Any, ...]]] = {
    "openai-responses": (
        77, 0.25, "Speak like a sailor.", '"tool_choice": "none"', '"top_p": 0.875',
        '"reasoning": {"effort": "low"}',
    ),
    "openai-chat": (
        77, 0.25, "Speak like a sailor.", '"tool_choice": "none"', '"top_p": 0.875', '"seed": 5',
        '"stop": ["THE END"]', '"reasoning_effort": "low"',
    ),
    "claude": (
        77, 0.25, "Speak like a sailor.", '{"type": "none"}', '"top_p": 0.875',
        '"stop_sequences": ["THE END"]', '"output_config": {"effort": "low"',
    ),
    "ollama": (
        77, 0.25, "Speak like a sailor.", '"top_p": 0.875', '"seed": 5', '"stop": ["THE END"]',
        '"think": "low"',
    ),
    "gemini": (
        77, 0.25, "Speak like a sailor.", '{"mode": "NONE"}', '"topP": 0.875', '"seed": 5',
        '"stopSequences": ["THE END"]', '"thinkingConfig": {"thinkingLevel": "low"}',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VENDORS)
async def test_the_options_of_an_agent_reach_the_model_unless_its_task_has_its_own(
    name: str,
) -> None:
    inputs = VENDORS[name]
    agents = {each: OPTIONS[each] for each in inputs.options} | {"temperature": 1.5}
    with FaultyServer("closed", times=0) as peer:
        async with served(name, peer.url, agents) as runtime:
            metadata = {SESSION: "monday", f"{inputs.scope}/temperature": 0.25}
            asking = asked(inputs, "Hi", agent_name=AGENT, metadata=metadata)
            assert (await runtime.run(asking)).status == "success"
            await runtime.run(asked(inputs, "Hi"))
        first, second = (json.dumps(json.loads(each.body)) for each in peer.requests)
    for part in map(str, OPTIONS_ON_THE_WIRE[name]):
        assert part in first, part
        assert part not in second, "a Task without the Agent"
    assert "1.5" not in first


@pytest.mark.parametrize("name", VENDORS)
async def test_an_agents_option_that_a_runtime_does_not_have_is_refused(name: str) -> None:
    inputs = VENDORS[name]
    lacking = sorted({*OPTIONS, "max_token"} - set(inputs.options))
    with FaultyServer("closed", times=0) as peer:
        for option in lacking:
            agents = {option: OPTIONS.get(option, 5)}
            async with served(name, peer.url, agents) as runtime:
                with pytest.raises(CannotStart, match=option):
                    await runtime.dispatch(asked(inputs, "Hi", agent_name=AGENT))
                assert not await runtime.find()
        assert not peer.requests


def refused(inputs: Inputs) -> dict[str, Task]:
    """By the name of the input: a Task with one input that is not taken, or not known."""
    scope = inputs.scope
    tasks = {
        f"{scope}/max_token": asked(inputs, "Hi", metadata={f"{scope}/max_token": 5}),
        "input/image": asked(inputs, "Hi", metadata={"input/image": [IMAGE]}),
        f"{scope}/x-y": asked(inputs, "Hi", metadata={f"{scope}/x-y": None}),
    }
    if not inputs.agent:
        tasks["agent_name"] = asked(inputs, "Hi", metadata={}, agent_name=AGENT)
    for key, taken, value in (
        (SESSION, inputs.session, "monday"),
        (CONTINUES, inputs.continues, "another"),
        (IMAGES, inputs.images, [IMAGE]),
        (DOCUMENTS, inputs.documents, [DOCUMENT]),
    ):
        if not taken:
            tasks[key] = asked(inputs, "Hi", metadata={key: value})
    for name in OPTIONS:
        key = f"{scope}/{name}"
        tasks[key] = asked(inputs, "Hi", metadata={key: {"no": 1}})
    return tasks


async def refuses(runtime: Host, inputs: Inputs) -> None:
    """Each Task is refused, the message names the input, and nothing is stored."""
    for name, task in refused(inputs).items():
        with pytest.raises(CannotStart) as caught:
            await runtime.dispatch(task)
        assert name in str(caught.value), str(caught.value)
        with pytest.raises(TaskNotFound):
            await runtime.get(task.id)
    assert not await runtime.find()


@pytest.mark.parametrize("name", VENDORS)
async def test_a_vendors_runtime_refuses_what_it_does_not_take(name: str) -> None:
    with FaultyServer("closed", times=0) as peer:
        async with served(name, peer.url) as runtime:
            await refuses(runtime, VENDORS[name])
        assert not peer.requests


async def test_the_local_runtime_refuses_what_it_does_not_take() -> None:
    inputs = LocalRuntime.inputs
    assert inputs == LocalPlanner.inputs
    assert not inputs.images
    assert all((inputs.agent, inputs.session, inputs.continues))
    assert all((inputs.tools, inputs.agents, inputs.schema))
    assert set(inputs.limits) == set(Limits.__struct_fields__)
    async with LocalRuntime() as runtime:
        await refuses(runtime, inputs)


class Spying(LocalPlanner):
    """A LocalPlanner whose requests a test reads."""

    async def open(self) -> Engine:
        engine = await super().open()
        return cast("Engine", Spy(engine, self))


class Spy:
    """An Engine that keeps each request."""

    def __init__(self, engine: Engine, planner: Spying) -> None:
        self.options = engine.options
        self._engine = engine
        self._planner = planner

    def generate(self, request: Request) -> Any:
        REQUESTS.append(request)
        return self._engine.generate(request)


REQUESTS: list[Request] = []


@pytest.mark.slow
async def test_each_part_that_the_local_runtime_takes_reaches_the_model() -> None:
    inputs = LocalRuntime.inputs
    assert set(OPTIONS) == {*inputs.options, "effort"}
    metadata = {f"local/{name}": OPTIONS[name] for name in inputs.options}
    REQUESTS.clear()
    options: Any = everything()
    tools = options.pop("tools")
    async with ProviderRuntime(Spying(), "local", tools, None, options) as runtime:
        first = await runtime.run(asked(inputs, "Remember the number 0417."))
        shown = REQUESTS[0]
        second = asked(
            inputs, "Which number?", agent_name=AGENT,
            metadata={SESSION: "monday", CONTINUES: first.id, **metadata},
        )  # fmt: skip
        await runtime.run(second)
        events = [event.type for event in (await runtime.outcome(second.id)).events]
    assert "fetch_invoice" in str(shown)
    request = REQUESTS[-1]
    assert (request.max_tokens, request.temperature, request.seed) == (77, 0.25, 5)
    assert (request.top_p, request.stop) == (0.875, ("THE END",))
    assert "tool" not in (request.schema or {}), "tool_choice is none"
    assert "run.continued" in events
    assert "memory.recalled" in events
    for part in (
        "Remember the number 0417.", "Which number?", "You are the clerk of a bank.",
        "The answer of the clerk.", "Speak like a sailor.",
    ):  # fmt: skip
        assert part in str(request.messages), part


@pytest.mark.slow
async def test_a_seed_makes_an_answer_the_same_each_time() -> None:
    metadata = {"local/max_tokens": 2, "local/temperature": 1.9, "local/seed": 5}
    said = []
    async with LocalRuntime() as runtime:
        for changed in ({}, {}, {"local/seed": 6}):
            task = asked(LocalRuntime.inputs, "Hello!", metadata={**metadata, **changed})
            failure = (await runtime.run(task)).failure
            assert failure is not None
            assert failure.code == "local/max_tokens"
            said.append(failure.metadata["text"])
    assert said[0] == said[1]
    assert said[0] != said[2]


@pytest.mark.slow
async def test_a_local_answer_ends_at_a_stop() -> None:
    async with LocalRuntime(temperature=0) as runtime:
        whole = await runtime.run("Count from one to ten in words.")
        said = whole.unwrap()
        stop = said.split()[3]
        done = await runtime.run("Count from one to ten in words.", metadata={"local/stop": [stop]})
    assert done.unwrap().rstrip() == said[: said.index(stop)].rstrip()


async def test_ollama_takes_images_by_their_content_only() -> None:
    assert OllamaRuntime.inputs.images == "by content"
    address = {"type": "image", "url": "https://example.com/a.png"}
    with FaultyServer("closed", times=0) as peer:
        async with served("ollama", peer.url) as runtime:
            task = asked(OllamaRuntime.inputs, "Hi", metadata={IMAGES: [address]})
            with pytest.raises(CannotStart, match="takes no addresses"):
                await runtime.dispatch(task)
