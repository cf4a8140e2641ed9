"""The schema of version 0.1.0, and the records that it wrote there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from agentic_kernel import Complete, Dispatch, Pause, Resume, Task, annotate, apply
from agentic_kernel_engine import Record
from agentic_kernel_engine.moments import LATEST

RELEASED = Path(__file__).with_name("released_0_1_0.sql")
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
STARTED = AT + timedelta(hours=1)
_STATE = b'{"cursor":[1,0]}'


def fill(server: str, schema: str) -> None:
    """Make the schema as 0.1.0 left it, one of its hosts alive."""
    text = RELEASED.read_text(encoding="utf-8").replace("@schema@", schema)
    with psycopg.connect(server) as connection:
        connection.execute(text.encode())
        connection.execute(f"UPDATE {schema}.hosts SET until = 'infinity'")


def released_records() -> Sequence[Record]:
    """The seven records, written down by hand and not read from the schema."""
    rest = apply(_task("paused", 3, note=1), Pause(), STARTED)
    edge = apply(_task("edge", 2, agent="acme/ann", note=1), Pause(), STARTED)
    resumed = apply(_task("resumed", 1, note=1), Pause(), STARTED)
    resumed = apply(resumed, Resume("go on"), STARTED)
    ended = _task("ended", 0, note=True, labels={"label/team": "blue"})
    ended = apply(ended, Complete({"is": 1.0}), AT + timedelta(hours=4))
    labels = {"label/team": "red", "label/tier": 5}
    running = _task("running", 5, agent="acme/ann", note=True, labels=labels)
    orphan = _task("orphan", 4, kind="other", note=True, labels={"label/team": "red"})
    child = _task("child", 6, note=True)
    return [
        Record(child, version=2, parent="running", state=_STATE, step=1),
        Record(edge, version=2, due_at=LATEST),
        Record(ended, version=2),
        Record(orphan, version=2, owner="gone:1", state=_STATE, step=1),
        Record(rest, version=2, due_at=AT + timedelta(days=1)),
        Record(resumed, version=3),
        Record(running, version=3, owner="host:1", state=_STATE, step=2),
    ]


def _task(
    task_id: str, minute: int, *, note: Any, kind: str = "loop", agent: str | None = None,
    labels: dict[str, Any] | None = None,
) -> Task:  # fmt: skip
    task = Task.new(
        id=task_id, summary="s", instructions="i", runtime_kind=kind, agent_name=agent,
        metadata=labels or {}, at=AT + timedelta(minutes=minute),
    )  # fmt: skip
    return annotate(apply(task, Dispatch(), STARTED), {"k/x": note})
