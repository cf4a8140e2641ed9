"""JSON for Tasks, Agents and Records: what goes in comes out, and what is wrong is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from agentic_kernel import (
    Agent,
    Capability,
    Complete,
    Dispatch,
    Fail,
    Failure,
    InvalidTask,
    InvalidValue,
    Kill,
    Pause,
    Resume,
    Task,
    annotate,
    apply,
)
from agentic_kernel_engine import (
    Record,
    agent_from_json,
    agent_to_json,
    task_from_json,
    task_to_json,
)
from agentic_kernel_engine.codec import (
    decode_change,
    decode_record,
    encode_change,
    encode_record,
)

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def path() -> list[Task]:
    """One Task in every status it can have, with notes, supplements and each kind of end."""
    first = Task.new(
        summary="s", instructions="i" * 500, runtime_kind="k", agent_name="a/b",
        metadata={"given": {"deep": [1, None, "é"]}}, id="t", at=AT,
    )  # fmt: skip
    running = apply(first, Dispatch(), AT + timedelta(seconds=1))
    noted = annotate(running, {"k/heard": [1]})
    paused = apply(noted, Pause(notes={"k/why": "asked"}), AT)
    resumed = apply(paused, Resume("more"), AT)
    return [
        first, running, noted, paused, resumed,
        apply(resumed, Complete(None), AT + timedelta(days=1)),
        apply(resumed, Fail(Failure("k/bad", "no", {"retry_after_ms": 3})), AT),
        apply(paused, Kill(notes={"k/partial_output": "half"}), AT),
        apply(first, Kill(), AT),
    ]  # fmt: skip


@pytest.mark.parametrize("task", path(), ids=map(str, range(len(path()))))
def test_a_task_survives_json(task: Task) -> None:
    assert task_from_json(task_to_json(task)) == task


def test_an_agent_survives_json() -> None:
    agent = Agent("acme/writer", (Capability("a/b"), Capability("a/b")), {"x": [1]})
    assert agent_from_json(agent_to_json(agent)) == agent


def records() -> list[Record]:
    _, running, noted, paused, resumed, success, failure, cancelled, _ = path()
    return [
        Record(running, owner="h:1"),
        Record(noted, 2, b'{"n":1}', ({"type": "pause", "id": 2},), "h:1", 1, 2),
        Record(paused, 3, b'{"n":1}', due_at=AT, step=2, parent="p"),
        Record(resumed, 4, None, owner="g:4", step=2),
        Record(success, 5, b"[1,2]", step=3),
        Record(failure, 5, step=3),
        Record(cancelled, 4, step=2),
    ]


@pytest.mark.parametrize("record", records(), ids=map(str, range(len(records()))))
def test_a_record_survives_its_stored_form(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (2, 6)])
def test_a_change_leads_from_one_record_to_the_next(before: int, after: int) -> None:
    one, two = records()[before], records()[after]
    two = two.changed(version=one.version + 1, parent=one.parent)
    assert decode_change(one, encode_change(one, two)) == two


def test_a_record_of_a_newer_schema_is_refused() -> None:
    newer = encode_record(records()[0]).replace(b'"schema":1', b'"schema":99')
    with pytest.raises(InvalidValue, match="upgrade"):
        decode_record(newer)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"v":"x"}', b'{"v":1}', b"\xff"], ids=ascii)
def test_a_damaged_record_is_refused(text: Any) -> None:
    with pytest.raises(InvalidValue, match="record"):
        decode_record(text)
    with pytest.raises(InvalidValue, match="change"):
        decode_change(records()[2], text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "running"}, "started_at"),
        ({"status": "done"}, "not one of"),
        ({"result": 1}, "result"),
        ({"created_at": "yesterday"}, "ISO 8601"),
        ({"unknown": 1}, "unknown fields"),
        ({"failure": {"code": "", "message": "m"}}, "code"),
        ({"failure": 1}, "object of code"),
        ({"supplements": "text"}, "supplements"),
        ({"id": ""}, "id"),
        ({"noted": ["a/b"]}, "noted"),
    ],
)
def test_a_document_that_is_no_task_is_refused(change: Any, reason: str) -> None:
    document = json.loads(task_to_json(path()[0])) | change
    with pytest.raises(InvalidTask, match=reason):
        task_from_json(json.dumps(document))


def test_a_document_that_lacks_a_field_is_refused() -> None:
    document = json.loads(task_to_json(path()[0]))
    del document["instructions"]
    with pytest.raises(InvalidTask, match="instructions"):
        task_from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"id":"a","id":"b"}', "twice"),
        ('{"metadata":{"a":NaN}}', "NaN"),
        ('{"metadata":1e999}', "1e999"),
        ('{"id":"\\ud800"}', "surrogate"),
        ('{"id":"\\u0000"}', "NUL"),
        ("[" * 100_000, "nested|JSON"),
        ('{"n":' + "9" * 5_000 + "}", "JSON"),
        ("no", "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_json_that_a_lenient_parser_would_change_is_refused(text: Any, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        task_from_json(text)


def test_stamps_of_other_zones_come_back_in_utc() -> None:
    document = json.loads(task_to_json(path()[0]))
    there = AT.astimezone(timezone(timedelta(hours=9)))
    document["created_at"] = there.isoformat()
    assert task_from_json(json.dumps(document)).created_at == AT
