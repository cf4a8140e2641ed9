"""The stream of an SDK that hides its response is closed at once, also with generators in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentic_kernel_engine.providers import Events


class Hidden:
    """An SDK's response: a generator that refers to its owner, so that only a collector frees it.

    Args:
        pieces: The events; after them the server says nothing more.
    """

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces
        self.closed = False
        self.silent = asyncio.Event()

    async def inner(self) -> AsyncIterator[Any]:
        try:
            for piece in self.pieces:
                yield piece
            await self.silent.wait()
        finally:
            self.closed = True

    async def outer(self) -> AsyncIterator[Any]:
        self.generator = self.inner()
        async for piece in self.generator:
            yield piece


async def test_leaving_the_stream_between_two_events_closes_it() -> None:
    hidden = Hidden("a", "b", "c")
    events = Events(hidden.outer())
    assert [await anext(events), await anext(events)] == ["a", "b"]
    assert not hidden.closed
    await events.aclose()
    assert hidden.closed
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_stream_is_read_to_its_end() -> None:
    hidden = Hidden(1, 2)
    hidden.silent.set()
    events = Events(hidden.outer())
    assert [each async for each in events] == [1, 2]
    await events.aclose()
    assert hidden.closed


async def test_a_stream_without_an_event_ends() -> None:
    hidden = Hidden()
    hidden.silent.set()
    events = Events(hidden.outer())
    assert [each async for each in events] == []
    await events.aclose()


async def test_an_error_of_the_stream_is_passed_on_and_one_at_its_end_is_not() -> None:
    async def broken() -> AsyncIterator[Any]:
        yield 1
        raise ValueError("broken")

    events = Events(broken())
    assert await anext(events) == 1
    with pytest.raises(ValueError, match="broken"):
        await anext(events)
    events = Events(broken())
    await events.aclose()
