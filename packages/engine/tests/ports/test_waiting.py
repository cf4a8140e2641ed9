"""The note of a paused Task that says what it waits for: whether the wait can still end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentic_kernel import Dispatch, Pause, apply
from agentic_kernel_engine import Record
from agentic_kernel_engine.waiting import waits_in_vain

from ..conftest import NewTask


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
