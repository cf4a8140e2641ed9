"""A server's question to the user is a question of the Task."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agentic_kernel_engine import Principal
from agentic_kernel_engine.seams import ToolContext, ToolError
from agentic_kernel_mcp import MCPTools

from .conftest import Acting, call, hosted, new_task, question


@pytest.fixture(params=["plain", "by_http"])
def asking(request: pytest.FixtureRequest) -> Acting:
    """A server that asks in the middle of a call, and one that ends the call to ask."""
    found: Any = request.getfixturevalue(request.param)
    acting: Acting = found() if request.param == "plain" else found
    return acting


async def test_the_answer_of_a_person_reaches_the_server(asking: Acting) -> None:
    async with (
        MCPTools({"it": asking.server}) as tools,
        hosted(tools, call("pay", amount=5)) as host,
    ):
        id = (await host.dispatch(new_task())).snapshot.id
        asked = await question(host, id, "Which account pays 5?")
        assert "MCP server it" in asked
        assert "account: string" in asked
        assert not any("paid" in each for each in asking.done())
        await host.answer(id, "savings")
        ended = await host.wait(id)
    assert "paid from savings" in json.dumps(ended.result)
    assert [each for each in asking.done() if "paid" in each] == ["paid 5 from savings"]


async def test_a_person_declines(asking: Acting) -> None:
    async with (
        MCPTools({"it": asking.server}) as tools,
        hosted(tools, call("pay", amount=5)) as host,
    ):
        id = (await host.dispatch(new_task())).snapshot.id
        await question(host, id, "Which account pays 5?")
        await host.answer(id, "decline")
        assert "decline" in json.dumps((await host.wait(id)).result)
    assert not any("paid" in each for each in asking.done())


async def test_two_calls_that_ask_at_once_each_get_their_own_answer(asking: Acting) -> None:
    calls = [call("pay", amount=1), call("pay", amount=2)]
    async with MCPTools({"it": asking.server}) as tools, hosted(tools, calls) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        left = {1, 2}
        while left:
            asked = await question(host, id, *(f"pays {each}?" for each in left))
            amount = 1 if "pays 1?" in asked else 2
            left.remove(amount)
            await host.answer(id, f"account {amount}")
        await host.wait(id)
    paid = sorted(each for each in asking.done() if each.startswith("paid"))
    assert paid == ["paid 1 from account 1", "paid 2 from account 2"]


async def test_calls_that_only_read_and_ask_at_once(plain: Callable[..., Acting]) -> None:
    calls = [call("choose", what=each) for each in ("colour", "size", "shape")]
    async with MCPTools({"it": plain().server}) as tools, hosted(tools, calls) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        left = {"colour", "size", "shape"}
        while left:
            asked = await question(host, id, *(f"Which {each}?" for each in left))
            what = next(each for each in left if each in asked)
            left.remove(what)
            await host.answer(id, f"my {what}")
        found = (await host.wait(id)).result
    assert found == ["my colour", "my size", "my shape"]


async def test_a_person_is_told_that_the_call_is_made_again_and_may_stop_it(
    plain: Callable[..., Acting],
) -> None:
    acting = plain()
    async with (
        MCPTools({"it": acting.server}) as tools,
        hosted(tools, call("pay", amount=5)) as host,
    ):
        id = (await host.dispatch(new_task())).snapshot.id
        asked = await question(host, id, "Which account")
        assert "'not done: cancel'" in asked
        assert "takes effect twice" in asked
        await host.answer(id, "stop")
        assert (await host.wait(id)).result == ["indeterminate"]
    assert acting.done() == ["asks for 5", "input closed"], "it was not called again"


async def test_an_answer_that_does_not_fit_is_asked_for_again(by_http: Acting) -> None:
    async with MCPTools({"it": by_http.server}) as tools, hosted(tools, call("book")) as host:
        id = (await host.dispatch(new_task())).snapshot.id
        await question(host, id, "Where to?")
        await host.answer(id, "Rome")
        await question(host, id, "must be a JSON object")
        await host.answer(id, '{"city": "Rome", "nights": "two"}')
        await question(host, id, "nights")
        await host.answer(id, json.dumps({"city": "Rome", "nights": 2}))
        assert (await host.wait(id)).result == [{"result": "Rome"}]
    assert by_http.done() == ["booked Rome 3"]


async def test_where_nobody_can_be_asked_the_question_is_dismissed(asking: Acting) -> None:
    async with MCPTools({"it": asking.server}) as tools:
        tool = tools.find("it__pay")
        assert tool is not None
        async with asyncio.timeout(60):
            result = await tool.handler({"amount": 1}, alone())
    assert "cancel" in json.dumps(result)


def alone() -> ToolContext:
    return ToolContext("t", 0, 0, "k", Principal("ann", "acme"), lambda report: None)


async def test_a_call_that_fails_without_an_answer_says_that_the_server_asked(
    plain: Callable[..., Acting], caplog: pytest.LogCaptureFixture
) -> None:
    async with MCPTools({"it": plain().server}) as tools:
        tool = tools.find("it__insist")
        assert tool is not None
        with pytest.raises(ToolError, match=r"no account was named .*nobody can be asked here"):
            await tool.handler({}, alone())
    assert "asked its user a question" in caplog.text
