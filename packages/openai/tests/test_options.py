"""The options of a planner and a runtime, and the refusals of bad ones."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.shared import ReasoningEffort

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine.loop import FinalAnswer
from agentic_kernel_engine.providers import IMAGES
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner, OpenAIRuntime, PlannerOptions
from agentic_kernel_openai.options import EFFORTS

from .asking import KEY, PLANNERS, ask, failure, planning, seen, without_tools

GIVEN: dict[str, Any] = {
    "timeout": 1.0,
    "max_tokens": 5,
    "tool_choice": "none",
    "stream": False,
    "offers": ["think"],
    "hosted": [],
    "parallel_tool_calls": False,
}
"""A value of each option that None is no value of."""


def task(**metadata: Any) -> Task:
    return Task.new(summary="", instructions="Hi", runtime_kind="openai", metadata=metadata)


@pytest.mark.parametrize("planner", PLANNERS.values())
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", ""),
        ("model", None),
        ("api_key", ""),
        ("api_key", "sk-123\n"),
        ("base_url", "localhost:8080"),
        ("base_url", "file:///etc/passwd"),
        ("client", OpenAI(api_key=KEY)),
        ("timeout", 0),
        ("timeout", float("inf")),
        ("timeout", "10"),
        ("max_tokens", 0),
        ("temperature", 3),
        ("system", 5),
        ("tool_choice", ""),
        ("offers", "ask_user"),
        ("offers", ["no_such_offer"]),
        ("context_tokens", 0),
        ("extra_body", [1]),
        ("extra_body", {"a": object()}),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(planner: Any, name: str, value: Any) -> None:
    given = {"model": "gpt-4o", "api_key": KEY, name: value}
    if name == "client":
        del given["api_key"]
    with pytest.raises(InvalidValue, match=name):
        planner(given.pop("model"), **given)


def test_what_belongs_to_one_api_is_refused_by_the_other() -> None:
    with pytest.raises(InvalidValue, match="reasoning"):
        OpenAIPlanner("gpt-5", reasoning="low")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="reasoning_effort"):
        OpenAIChatPlanner("gpt-5", reasoning_effort=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="reasoning_effort"):
        OpenAIRuntime("gpt-5", reasoning_effort="low")
    with pytest.raises(InvalidValue, match="reasoning"):
        OpenAIRuntime("gpt-5", api="chat", reasoning={"effort": "low"})
    with pytest.raises(InvalidValue, match="api"):
        OpenAIRuntime("gpt-5", api="assistants")  # type: ignore[arg-type]


def test_the_options_of_an_answer_are_those_of_each_api() -> None:
    assert get_args(get_args(ReasoningEffort)[0]) == EFFORTS
    for name, value in (("seed", 7), ("stop", "END")):
        given: dict[str, Any] = {name: value}
        OpenAIChatPlanner("gpt-5", **given)
        OpenAIRuntime("gpt-5", api="chat", **given)
        for make in (OpenAIPlanner, OpenAIRuntime):
            with pytest.raises(InvalidValue, match=rf'{name}: .*Responses.*api="chat"'):
                make("gpt-5", **given)
    assert "seed" in OpenAIRuntime("gpt-5", api="chat").inputs.options
    assert "seed" not in OpenAIRuntime("gpt-5").inputs.options


def test_an_effort_is_given_once() -> None:
    with pytest.raises(InvalidValue, match="effort: is also in reasoning="):
        OpenAIPlanner("gpt-5", effort="low", reasoning={"effort": "high"})
    with pytest.raises(InvalidValue, match="effort: is also in reasoning_effort="):
        OpenAIChatPlanner("gpt-5", effort="low", reasoning_effort="high")
    planner = OpenAIPlanner("gpt-4o", reasoning={"effort": "high", "summary": "auto"})
    context = seen(metadata={"openai/effort": "low"})
    request, _ = planner._request(context, planner._options(context), ())
    assert request["reasoning"] == {"effort": "low", "summary": "auto"}
    assert request["include"] == ["reasoning.encrypted_content"]


def test_a_client_and_a_key_exclude_each_other() -> None:
    with pytest.raises(InvalidValue, match="client"):
        OpenAIPlanner("gpt-4o", client=AsyncOpenAI(api_key=KEY), api_key=KEY)


@pytest.mark.parametrize("name", sorted(PlannerOptions.__annotations__))
def test_the_options_that_are_documented_are_those_that_are_taken(name: str) -> None:
    OpenAIPlanner("gpt-4o", **{name: GIVEN.get(name)})  # type: ignore[arg-type]


def test_an_option_that_is_not_documented_is_refused() -> None:
    with pytest.raises(TypeError, match="max_tokenz"):
        OpenAIPlanner("gpt-4o", max_tokenz=5)  # type: ignore[call-arg]


async def test_a_missing_key_is_told_when_a_task_is_dispatched_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with OpenAIRuntime("gpt-4o") as runtime:
        with pytest.raises(CannotStart, match=r"OPENAI_API_KEY.*api_key="):
            await runtime.run(task())
        assert await runtime.find() == []
    error = await failure(OpenAIPlanner("gpt-4o"), without_tools())
    assert error.code == "openai/authentication"


async def test_a_key_of_the_environment_that_cannot_be_sent_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789\r\nX-Injected: yes")
    with pytest.raises(CannotStart, match="OPENAI_API_KEY") as caught:
        await OpenAIPlanner("gpt-4o").accept(task())
    assert "0123456789" not in str(caught.value)


@pytest.mark.parametrize(
    "metadata",
    [
        {"openai/max_tokens": "many"},
        {"openai/temperature": -1},
        {IMAGES: "a picture"},
    ],
)
async def test_a_task_that_asks_for_nonsense_is_refused(metadata: dict[str, Any]) -> None:
    planner = OpenAIPlanner("gpt-4o", api_key=KEY)
    with pytest.raises(CannotStart, match=next(iter(metadata))):
        await planner.accept(task(**metadata))
    error = await failure(planner, seen(metadata=metadata))
    assert error.code == "openai/bad_options"
    await planner.close()


@pytest.mark.parametrize("api", PLANNERS)
async def test_the_users_client_is_used_and_left_open(aimock: Any, api: str) -> None:
    aimock.script({"content": "Hello."})
    mine = AsyncOpenAI(api_key=KEY, base_url=f"{aimock.url}/v1", default_headers={"x-mine": "1"})
    async with planning(api, aimock.url, client=mine, api_key=None, base_url=None) as planner:
        await planner.accept(task())
        _, plan = await ask(planner, without_tools())
    assert plan.actions == (FinalAnswer("Hello."),)
    assert aimock.requests()[0].headers["x-mine"] == "1"
    assert not mine.is_closed()
    await mine.close()


async def test_a_planner_that_was_closed_opens_another_client(aimock: Any) -> None:
    aimock.script({"content": "One."}, {"content": "Two."})
    async with planning("responses", aimock.url) as planner:
        assert (await ask(planner, without_tools()))[1].actions == (FinalAnswer("One."),)
        await planner.close()
        assert (await ask(planner, without_tools()))[1].actions == (FinalAnswer("Two."),)
