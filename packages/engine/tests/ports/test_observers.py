"""Observers: what is told, in which order, and what never reaches a terminal."""

from __future__ import annotations

import io
from typing import Any

from agentic_kernel_engine import ConsoleObserver, Event, Host, InMemoryObserver, Job

from ..conftest import Acting, NewTask


def test_console_keeps_escapes_and_line_breaks_from_the_terminal() -> None:
    out = io.StringIO()
    console = ConsoleObserver(out)
    console.observe("id\x1b[2J\n", Event("task.failed", {"message": "a\r\nb\x1b]0;x\x07"}))
    console.observe("id", Event("run.delta", {"text": "tab\tline\n\x1b[31mred"}))
    console.observe("id", Event("task.completed", {"by": "x"}))
    text = out.getvalue()
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\x07" not in text
    assert text.splitlines()[0] == (r"[id\x1b[2J\n] task.failed message=a\r\nb\x1b]0;x\x07")
    assert "tab\tline\n" in text
    assert text.endswith("\n[id] task.completed by=x\n")


async def test_each_event_is_told_once_live_or_with_its_id(
    new_task: NewTask, acting: type[Acting]
) -> None:
    async def act(job: Job) -> Any:
        job.emit({"type": "acme.live", "n": 1})
        await job.checkpoint(1, [{"type": "acme.step", "n": 1}])
        job.emit({"type": "acme.live", "n": 2})
        return "done"

    observer = InMemoryObserver()
    async with Host(acting(act), observer=observer) as host:
        done = await host.run(new_task())
        durable = [event async for event in host.stream(done.id)]
    told = [(event.type, event.id) for _, event in observer.events]
    assert told == [
        ("task.dispatched", (1, 0)),
        ("acme.live", None),
        ("acme.step", (2, 1)),
        ("acme.live", None),
        ("task.completed", (3, 1)),
    ]
    assert [event.id for event in durable] == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1)]
