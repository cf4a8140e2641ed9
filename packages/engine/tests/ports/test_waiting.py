"""The note of a paused Task that says what it waits for: its content, and if the wait can end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import Dispatch, InvalidValue, Kill, Pause, Resume, TaskStatus, apply
from agentic_kernel_engine import Record, waiting_for
from agentic_kernel_engine.plans.action import AskUser, Schedule
from agentic_kernel_engine.waiting import waits_in_vain

from ..approving import AskForWrites, write
from ..conftest import NewTask
from ..scripting import Runner, new_task


@pytest.mark.rule("R13")
def test_a_parent_waits_in_vain_for_a_child_that_asks_no_longer_not_for_an_unknown_one(
    new_task: NewTask,
) -> None:
    now = datetime.now(UTC)
    waits = {"kind": "question", "digest": "d", "children": ["elsewhere"]}
    running = apply(new_task(), Dispatch(), now)
    asking = apply(running, Pause(notes={"engine/waiting_for": waits}), now)
    assert not waits_in_vain(Record(asking), {})
    assert not waits_in_vain(Record(asking), {"elsewhere": asking})
    assert waits_in_vain(Record(asking), {"elsewhere": running})


@pytest.mark.parametrize(
    ("asks", "shown"),
    [
        (AskUser("Which one?"), {"kind": "question", "question": "Which one?"}),
        (
            Schedule("2999-01-01T00:00:00+00:00", "the market opens"),
            {"kind": "schedule", "at": "2999-01-01T00:00:00+00:00", "reason": "the market opens"},
        ),
        (write("a"), {"kind": "approval"}),
    ],
    ids=["question", "schedule", "approval"],
)
async def test_a_paused_task_says_what_it_waits_for_until_it_goes_on(
    runner: Runner, asks: Any, shown: dict[str, Any]
) -> None:
    async with runner.host(asks, policy=AskForWrites()) as host:
        await host.dispatch(task := new_task())
        paused = await host.wait(task.id, TaskStatus.PAUSED)
        waiting = waiting_for(paused)
        assert waiting is not None
        assert shown.items() <= waiting.items()
        if waiting["kind"] == "approval":
            (request,) = waiting["requests"]
            assert request["action"]["arguments"] == {"text": "a"}
            assert (request["type"], request["reason"]) == ("tool_call", "it writes")
        if waiting["kind"] != "schedule":
            given = waiting if waiting["kind"] == "question" else waiting["requests"][0]
            assert len(given["digest"]) == 64
        assert waiting_for((await host.kill(task.id)).snapshot) is None
    assert waiting_for(apply(paused, Resume(), datetime.now(UTC))) is None


@pytest.mark.parametrize(
    "note",
    [
        "approval", {"kind": "rain"}, {"kind": "schedule"}, {"kind": "schedule", "at": 1},
        {"kind": "approval"}, {"kind": "approval", "requests": [{}]},
    ],
)  # fmt: skip
def test_a_note_of_another_form_is_no_request(new_task: NewTask, note: Any) -> None:
    now = datetime.now(UTC)
    running = apply(new_task(), Dispatch(), now)
    assert waiting_for(apply(running, Pause(notes={"engine/waiting_for": note}), now)) is None


def test_a_task_that_was_paused_without_a_request_waits_for_nothing(new_task: NewTask) -> None:
    now = datetime.now(UTC)
    asked = {"engine/waiting_for": {"kind": "question", "question": "?", "digest": "d"}}
    paused = apply(apply(new_task(), Dispatch(), now), Pause(), now)
    claimed = apply(apply(new_task(metadata=asked), Dispatch(), now), Pause(), now)
    for task in (paused, claimed, new_task(), apply(paused, Kill(), now)):
        assert waiting_for(task) is None
    with pytest.raises(InvalidValue, match="give a Task"):
        waiting_for("t-1")  # type: ignore[arg-type]
