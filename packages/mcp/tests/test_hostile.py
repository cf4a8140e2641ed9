"""Servers that die, hang, flood, lie and do not end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_mcp import MCPTools, StdioServer, Unavailable

from .conftest import Acting, call, hosted, messages, new_task, run, until


async def test_a_death_in_a_call_leaves_its_effect_unknown(plain: Callable[..., Acting]) -> None:
    acting = plain()
    async with MCPTools({"it": acting.server}) as tools:
        assert await run(tools, call("die")) == ["indeterminate"]
        assert await run(tools, call("die_reading")) == ["mcp/unavailable"]
        assert await run(tools, call("note", text="again")) == ["noted"]
    assert acting.done() == ["died", "died", "note again", "input closed"], "it was started again"


async def test_a_call_that_waited_is_made_in_the_next_session(plain: Callable[..., Acting]) -> None:
    acting = plain()
    async with MCPTools({"it": acting.server}) as tools:
        both = [call("die"), call("note", text="later")]
        assert await run(tools, both) == ["indeterminate", "noted"]
    assert acting.done() == ["died", "note later", "input closed"]


async def test_an_idle_death_costs_no_call(plain: Callable[..., Acting]) -> None:
    async with MCPTools({"it": plain().server}) as tools:
        await run(tools, call("die_reading"))
        for _ in range(3):
            assert await run(tools, call("note", text="a")) == ["noted"]


async def test_a_call_that_takes_too_long_is_unknown(plain: Callable[..., Acting]) -> None:
    acting = plain()
    async with MCPTools({"it": acting.server}, timeout=0.2) as tools:
        assert await run(tools, call("hang")) == ["indeterminate"]
        await until(lambda: acting.done() == ["hangs", "cancelled"])
        assert await run(tools, call("add", a=1, b=1)) == ["2"]


async def test_a_kill_ends_a_call(plain: Callable[..., Acting]) -> None:
    acting = plain()
    async with MCPTools({"it": acting.server}) as tools, hosted(tools, call("hang")) as host:
        task = new_task()
        await host.dispatch(task)
        await until(lambda: acting.done() == ["hangs"])
        await host.kill(task.id)
        assert (await host.wait(task.id)).status is TaskStatus.CANCELLED
        await until(lambda: acting.done() == ["hangs", "cancelled"])


async def test_a_flood_ends_the_connection_and_not_this_process(
    plain: Callable[..., Acting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_kernel_mcp.incoming.SPAN", 3600.0)  # However slow this machine is.
    async with MCPTools({"it": plain().server}) as tools:
        (message,) = await messages(tools, call("flood"))
        assert "more than 5,000 messages" in message
        assert await run(tools, call("add", a=1, b=1)) == ["2"]


async def test_changes_without_end_are_not_listed_without_end(
    plain: Callable[..., Acting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_kernel_mcp.connection.PAUSE", 3600.0)
    acting = plain("--listing", "counted")
    async with MCPTools({"it": acting.server}) as tools:
        for _ in range(3):
            assert await run(tools, call("stir")) == ["stirred"]
        await until(lambda: acting.done().count("listed") == 2)
        assert await run(tools, call("add", a=1, b=1)) == ["2"]
    assert acting.done().count("listed") == 2


async def test_a_result_that_is_too_long_is_not_read(plain: Callable[..., Acting]) -> None:
    async with MCPTools({"it": plain().server}) as tools:
        (message,) = await messages(tools, call("long", bytes=17 * 1024 * 1024))
        assert "longer than 16,777,216 bytes" in message
        assert await run(tools, call("long", bytes=3)) == ["xxx"]


async def test_a_result_of_too_many_parts_is_not_parsed(plain: Callable[..., Acting]) -> None:
    async with MCPTools({"it": plain().server}) as tools:
        (message,) = await messages(tools, call("crowd"))
        assert "over 100,000 objects and lists" in message
        assert await run(tools, call("add", a=1, b=1)) == ["2"]


async def test_a_tool_whose_name_nobody_could_read_is_withheld(
    plain: Callable[..., Acting],
) -> None:
    async with MCPTools({"it": plain("--listing", "names").server}) as tools:
        assert [tool.name for tool in tools.tools()] == ["it__d"]
        assert {each.reason for each in tools.withheld} == {
            "its name has invisible or control characters",
            "its name has 0 characters; 1 to 200 are accepted",
            "its name has 201 characters; 1 to 200 are accepted",
        }


async def test_what_is_no_answer_changes_nothing(plain: Callable[..., Acting]) -> None:
    async with MCPTools({"it": plain().server}) as tools:
        assert await run(tools, call("twice")) == ["first"]
        assert await run(tools, call("noise")) == ["quiet"]
        assert await run(tools, call("add", a=1, b=1)) == ["2"]


async def test_results_that_are_no_json_are_refused(plain: Callable[..., Acting]) -> None:
    async with MCPTools({"it": plain().server}, timeout=1) as tools:
        for name in ("nan", "deep"):
            (found,) = await run(tools, call(name))
            assert found in ("mcp/unavailable", "output_schema_failed"), name
        assert await run(tools, call("add", a=1, b=1)) == ["2"]


async def test_a_pattern_that_backtracks_does_not_stop_this_process(
    plain: Callable[..., Acting],
) -> None:
    async with MCPTools({"it": plain().server}) as tools:
        assert await run(tools, call("sick")) == ["output_schema_failed"]


@pytest.mark.parametrize(
    ("listing", "says"),
    [
        ("endless", "100 pages"),
        ("many", "2,000 tools"),
        ("crowd", "over 100,000 objects and lists"),
        ("long", "8,388,608 characters"),
        ("twice", "the tool 't' twice"),
    ],
)
async def test_a_listing_without_bounds_is_refused(
    plain: Callable[..., Acting], listing: str, says: str
) -> None:
    with pytest.raises(Unavailable, match=says):
        await MCPTools({"it": plain("--listing", listing).server}).open()


async def test_silence_is_not_waited_for_longer_than_said(plain: Callable[..., Acting]) -> None:
    server = plain("--listing", "hangs").server
    with pytest.raises(Unavailable, match=r"timed out|did not answer"):
        await MCPTools({"it": server}, start_timeout=0.5).open()


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="'no-such-program' was not found"):
        await MCPTools({"it": StdioServer("no-such-program")}).open()


async def test_a_program_that_is_no_server_says_what_it_said() -> None:
    script = "printf 'no \\033[31mlicence found' >&2; exit 1"
    with pytest.raises(Unavailable, match=r"no \\x1b\[31mlicence found"):
        await MCPTools({"it": StdioServer("sh", ("-c", script))}).open()


async def test_one_bad_server_leaves_none_running(plain: Callable[..., Acting]) -> None:
    acting = plain()
    with pytest.raises(Unavailable, match="bad"):
        await MCPTools({"it": acting.server, "bad": StdioServer("no-such-program")}).open()
    assert [each for each in asyncio.all_tasks() if each.get_name().startswith("mcp ")] == []


async def test_no_process_is_left_after_close(plain: Callable[..., Acting]) -> None:
    async with MCPTools({"it": plain().server}) as tools:
        (child,) = await run(tools, call("fork"))
        os.kill(int(child), 0)
    await until(lambda: gone(int(child)))


async def test_a_process_that_does_not_end_is_killed(
    plain: Callable[..., Acting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_kernel_mcp.pipes.GRACE", 0.1)
    async with MCPTools({"it": plain("--listing", "stubborn").server}) as tools:
        (child,) = await run(tools, call("fork"))
    await until(lambda: gone(int(child)))


async def test_a_cancelled_close_kills_at_once(plain: Callable[..., Acting]) -> None:
    acting = plain("--listing", "stubborn")
    tools = MCPTools({"it": acting.server})
    await tools.open()
    (child,) = await run(tools, call("fork"))
    closing = asyncio.create_task(tools.close())
    await until(lambda: "input closed" in acting.done())
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: gone(int(child)))


def gone(process: int) -> bool:
    """True if the process has ended; one that waits to be reaped counts as ended."""
    try:
        with open(f"/proc/{process}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
