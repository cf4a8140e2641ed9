"""A conversation of three Tasks on files: the third answer needs what was said in the first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentic_kernel import Task, TaskNotFound
from agentic_kernel_engine import Host, Loop, tool
from agentic_kernel_engine.loop import (
    Action,
    Context,
    FinalAnswer,
    Observation,
    ToolCall,
    Turn,
    UserMessage,
    continued,
)
from agentic_kernel_file import FileStore

Next = Callable[[Task, str], Task]
PRICES = {"shoes": 80, "socks": 5}


@tool(effect="read")
def price(item: str) -> int:
    """Look up what one of an item costs."""
    return PRICES[item]


class Assistant:
    """Looks up what it is told to buy, and adds up what it finds in its transcript."""

    async def plan(self, context: Context) -> Action:
        last = context.transcript[-1]
        if isinstance(last, UserMessage) and last.text.startswith("buy "):
            return ToolCall("price", {"item": last.text.removeprefix("buy ")})
        found = [each.output for each in observations(context) if each.tool == "price"]
        if isinstance(last, Turn):
            return FinalAnswer(f"that is {found[-1]}")
        return FinalAnswer(f"{' and '.join(map(str, found))} is {sum(found)}")


def observations(context: Context) -> list[Observation]:
    turns = (entry for entry in context.transcript if isinstance(entry, Turn))
    return [each for turn in turns for each in turn.observations]


async def talk(folder: Path, next_task: Next) -> list[object]:
    """The three answers. Each Task runs in a Host of its own, and what is over is pruned."""
    answers: list[object] = []
    ended = None
    for said in ("buy shoes", "buy socks", "what is it together?"):
        task = Task.new(summary="Shopping", instructions=said, runtime_kind="loop")
        async with Host(Loop(Assistant(), [price]), FileStore(folder)) as host:
            before, ended = ended, await host.run(task if ended is None else next_task(ended, said))
            answers.append(ended.result)
            assert ended.ended_at is not None
            if before is not None:
                await host.store.prune(ended.ended_at)
                with pytest.raises(TaskNotFound):
                    await host.get(before.id)
    return answers


async def test_the_third_answer_knows_what_was_said_in_the_first(tmp_path: Path) -> None:
    assert await talk(tmp_path, continued) == ["that is 80", "that is 5", "80 and 5 is 85"]


async def test_left_alone_the_third_answer_knows_nothing(tmp_path: Path) -> None:
    def alone(task: Task, said: str) -> Task:
        return Task.new(summary="Shopping", instructions=said, runtime_kind="loop")

    answers = await talk(tmp_path, alone)
    assert answers == ["that is 80", "that is 5", " is 0"]


async def test_what_was_pruned_too_early_is_missed(tmp_path: Path) -> None:
    async with Host(Loop(Assistant(), [price]), FileStore(tmp_path)) as host:
        first = await host.run(
            Task.new(summary="Shopping", instructions="buy shoes", runtime_kind="loop")
        )
        assert await host.store.prune(datetime.now(UTC) + timedelta(days=1)) == 1
        done = await host.run(continued(first, "what is it together?"))
    assert done.failure is not None
    assert done.failure.code == "engine/session_not_found"
