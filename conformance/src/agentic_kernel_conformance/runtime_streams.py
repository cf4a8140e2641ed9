"""RuntimeStreams: the text that a Task says, as another process reads and keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from .reading import CANCELLED, RUNNING, show
from .rules import expect, in_time
from .system import SystemSuite
from .work import OutputWork
from .workbench import Workbench


class RuntimeStreams(SystemSuite):
    """The tests of the feature ``streams``; deltas have a ``text`` and its place, ``at``."""

    @pytest.mark.feature("streams")
    @pytest.mark.rule("R20")
    async def test_text_is_read_elsewhere_while_a_task_says_it(
        self, bench: Workbench, elsewhere: Any
    ) -> None:
        """A stream from there gives text while the Task is running, and then more of it."""
        task_id = await _speaking(bench)
        first = await _read(bench, elsewhere, task_id, 1)
        read = await bench.reader.get(task_id)
        expect(read.status is RUNNING, "R20", f"the Task ended before it was read: {show(read)}")
        more = await _read(bench, elsewhere, task_id, len(first) + 1)
        goes_on = more.startswith(first) and len(more) > len(first)
        expect(goes_on, "R20", f"it read {first[:100]!a}, and then {more[:100]!a}")

    @pytest.mark.feature("streams")
    @pytest.mark.rule("R20", "notes")
    async def test_a_kill_from_elsewhere_keeps_what_was_read_there(
        self, bench: Workbench, elsewhere: Any
    ) -> None:
        """The note ``<impl>/partial_output`` begins with the text that a stream has given."""
        task_id = await _speaking(bench)
        seen = await _read(bench, elsewhere, task_id, 1)
        await bench.within(elsewhere.kill(task_id))
        read = await bench.reader.until(task_id, CANCELLED, rule="R20")
        kept = [read.metadata[key] for key in read.noted if key.endswith("/partial_output")]
        keeps = len(kept) == 1 and str(kept[0]).startswith(seen)
        expect(keeps, "R20", f"a stream gave {seen[:100]!a}, and the notes keep {kept!a:.200}")


async def _speaking(bench: Workbench) -> str:
    """Dispatch a Task, wait until it says something, and return its id."""
    assert isinstance(bench.work, OutputWork)
    task = bench.work.run_until_stopped()
    await bench.dispatch(task)
    await bench.within(bench.work.until_output(task))
    return task.id


async def _read(bench: Workbench, elsewhere: Any, task_id: str, least: int) -> str:
    """The text of a Task as a stream from elsewhere gives it, once it has so many characters."""
    text = ""
    async with in_time("R20", bench.patience, f"a stream from elsewhere with {least} characters"):
        async for event in elsewhere.stream(task_id):
            if event.type == "run.delta" and "channel" not in event.data:
                text = text[: event.data.get("at", len(text))] + event.data["text"]
            if len(text) >= least:
                break
    return text
