"""JSON for Tasks, Agents and Records: what goes in comes out, and what is wrong is named."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import pairwise
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
from agentic_kernel.frozen import freeze, same
from agentic_kernel_engine import (
    Event,
    EventId,
    Record,
    agent_from_json,
    agent_to_json,
    event_from_json,
    event_to_json,
    task_from_json,
    task_to_json,
    values,
)
from agentic_kernel_engine.errors import StoreError, Unreadable
from agentic_kernel_engine.events import from_stored
from agentic_kernel_engine.moments import EARLIEST, LATEST
from agentic_kernel_engine.stored import (
    NewerForm,
    buried,
    decode_change,
    decode_record,
    encode_change,
    encode_record,
    owner_in,
    unreadable,
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


@pytest.mark.parametrize(
    "event",
    [
        Event("task.paused", {"by": "h", "deep": [1, None, "é"]}, AT, EventId(3, 1)),
        Event("run.delta", freeze({"text": "hello"}), AT),
        Event("acme.news"),
    ],
    ids=["durable", "live", "bare"],
)
def test_an_event_survives_json(event: Event) -> None:
    assert event_from_json(event_to_json(event)) == event


def test_the_document_of_an_event_has_these_fields() -> None:
    document = event_to_json(Event("task.paused", {"reason": "r"}, AT, EventId(3, 1)))
    assert json.loads(document) == {
        "id": "3.1", "at": AT.isoformat(), "type": "task.paused", "data": {"reason": "r"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ("[]", "event"),
        ('{"type": "a", "task": "t"}', "event"),
        ('{"data": {}}', "event.type"),
        ('{"type": ""}', "event.type"),
        ('{"type": "a", "data": []}', "event.data"),
        ('{"type": "a", "at": "soon"}', "event.at"),
        ('{"type": "a", "at": "2026-01-01T00:00:00"}', "event.at"),
        ('{"type": "a", "id": [3, 1]}', "event id"),
        ('{"type": "a", "type": "b"}', "document"),
    ],
)
def test_another_document_is_no_event(document: str, path: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        event_from_json(document)
    assert refused.value.path == path


def test_what_is_no_event_has_no_document() -> None:
    for given, path in (
        ({"type": "a"}, "event"),
        (Event("a", {"b": object()}), "event.data"),
        (Event("a", 1), "event.data"),  # type: ignore[arg-type]
        (Event(1), "event.type"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidValue) as refused:
            event_to_json(given)  # type: ignore[arg-type]
        assert refused.value.path.startswith(path)


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


@pytest.mark.parametrize(
    ("old", "new"),
    [(True, 1), (1, True), (1, 1.0), (0, False), ({"a": [1]}, {"a": [True]}), ([0.0], [0])],
)
def test_an_equal_value_of_another_type_is_a_change(old: Any, new: Any) -> None:
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    before = Record(apply(task, Dispatch(notes={"k/x": old}), AT))
    after = before.changed(task=annotate(before.task, {"k/x": new}), version=2)
    found = decode_change(before, encode_change(before, after)).task.metadata["k/x"]
    assert same(found, freeze(new))


def test_an_inbox_entry_of_another_type_is_a_change() -> None:
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    before = Record(apply(task, Dispatch(), AT), inbox=({"id": 1, "granted": True},))
    after = before.changed(inbox=({"id": 1, "granted": 1},), version=2)
    (entry,) = decode_change(before, encode_change(before, after)).inbox
    assert entry["granted"] is not True


def test_terms_realm_and_form_are_carried_and_need_the_second_schema() -> None:
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    plain = Record(apply(task, Dispatch(), AT))
    assert b'"schema":1' in encode_record(plain)
    for more in ({"terms": b'{"a": 1}'}, {"realm": "acme"}, {"form": "loop/3"}):
        record = plain.changed(**more)
        text = encode_record(record)
        assert b'"schema":2' in text
        assert decode_record(text) == record
    later = plain.changed(form="loop/4", version=2)
    assert decode_change(plain, encode_change(plain, later)) == later
    cleared = later.changed(form="", version=3)
    assert decode_change(later, encode_change(later, cleared)) == cleared


def _stored(**changes: Any) -> dict[str, Any]:
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    fields = json.loads(encode_record(Record(apply(task, Dispatch(), AT))))
    return {**fields, **changes}


@pytest.mark.parametrize("name", ["id", "summary", "runtime_kind", "metadata", "created_at"])
def test_a_record_that_lacks_a_field_is_damaged(name: str) -> None:
    fields = _stored()
    del fields["i"][name]
    with pytest.raises(InvalidValue, match=name):
        decode_record(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"st": "asleep"}, {"st": None}, {"start": "yesterday"}, {"start": "2026-01-01T00:00:00"},
        {"due": "never"}, {"notes": {"no scope": 1}}, {"sup": ["a"], "st": "success"}, {"v": "x"},
        {"fail": {"code": 5}}, {"i": None}, {"i": {"schema": 1}}, {"i": {"schema": "1"}},
        {"i": {"schema": True}}, {"i": {"schema": 0}},
    ],
)  # fmt: skip
def test_a_damaged_record_is_told_as_such(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        decode_record(json.dumps(_stored(**changes)).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_record_at_all_is_damaged(text: bytes) -> None:
    with pytest.raises(InvalidValue):
        decode_record(text)
    with pytest.raises(InvalidValue):
        decode_change(decode_record(json.dumps(_stored()).encode()), text)


def test_a_newer_record_is_told_from_a_damaged_one() -> None:
    fields = _stored()
    fields["i"]["schema"] = 99
    text = json.dumps(fields).encode()
    with pytest.raises(NewerForm, match="99"):
        decode_record(text)


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        ("9999-12-31T23:59:59-14:00", LATEST),
        ("0001-01-01T00:00:00+14:00", EARLIEST),
        ("9999-12-31T23:59:59+00:00", LATEST),
    ],
)
def test_a_moment_at_the_edge_of_the_calendar_is_read(stamp: str, moment: datetime) -> None:
    assert decode_record(json.dumps(_stored(due=stamp)).encode()).due_at == moment


def test_what_is_legible_of_an_unreadable_record_is_told() -> None:
    text = json.dumps(_stored(st="paused", owner="h:3", due="never")).encode()
    with pytest.raises(InvalidValue) as fault:
        decode_record(text)
    told = unreadable("t", 7, fault.value, text)
    assert (told.task_id, told.version, told.status, told.newer) == ("t", 7, "paused", False)
    assert owner_in(text) == "h:3"
    assert owner_in(b"{") is None
    again = pickle.loads(pickle.dumps(told))
    assert (again.task_id, again.version, again.status) == ("t", 7, "paused")


def test_a_buried_record_is_one_that_reads() -> None:
    grave = buried("t", 8, AT)
    assert grave.task.status.terminal
    assert decode_record(encode_record(grave)) == grave


def test_a_task_with_the_deepest_and_longest_parts_has_a_document() -> None:
    deep: Any = 1
    for _ in range(values.MAX_DEPTH):
        deep = [deep]
    long = "x" * (values.MAX_BYTES - 2)
    notes = {"acme/deep": deep, "acme/long": long, "acme/more": long}
    task = Task.new(summary="", instructions="", runtime_kind="k", metadata=notes)
    for value in notes.values():
        values.encode(value)
    assert json.loads(task_to_json(task))["metadata"] == notes


def spoiled(text: bytes) -> Iterator[bytes]:
    """A stored text with the high bit of each byte set, with other bits flipped, and cut."""
    for at in range(len(text)):
        for bit in (0x80, 0x01, 0x02, 0x20):
            yield text[:at] + bytes([text[at] ^ bit]) + text[at + 1 :]
        yield text[:at] + b"\xc3" + text[at + 1 :]
        yield text[:at]


def fault_of(decode: Callable[[], object]) -> InvalidValue | None:
    """Why a stored text was refused, if it was; anything else that is raised passes."""
    try:
        assert isinstance(decode(), Record)
    except InvalidValue as fault:
        return fault
    return None


def test_no_damage_to_a_stored_text_raises_anything_but_an_invalid_value() -> None:
    steps = [Record(task, n, owner="h:1", state=b'"x"') for n, task in enumerate(path()[1:4], 1)]
    first = encode_record(steps[0])
    changes = [encode_change(one, other) for one, other in pairwise(steps)]
    cases = [(partial(decode_record, text), text) for text in spoiled(first)]
    for before, change in zip(steps, changes, strict=False):
        cases += [(partial(decode_change, before, text), text) for text in spoiled(change)]
    refused = 0
    for decode, text in cases:
        fault = fault_of(decode)
        if fault is not None:
            refused += 1
            assert isinstance(unreadable("t", 1, fault, first, text), Unreadable)
        assert isinstance(owner_in(first, text), str | None)
    assert refused > 1000


@pytest.mark.parametrize("status", [b"[1]", b"{}", b"7", b"null"])
def test_a_status_that_is_no_text_is_not_legible(status: bytes) -> None:
    fault = InvalidValue("record", "is damaged")
    assert unreadable("t", 1, fault, b'{"st":%b}' % status).status is None


def test_no_damage_to_a_stored_event_raises_anything_but_a_store_error() -> None:
    whole = '{"type":"step.observed","at":1,"data":{"é":["x"]}}'.encode()
    refused = 0
    for text in spoiled(whole):
        try:
            from_stored((1, 0), text)
        except StoreError:
            refused += 1
    assert refused > 100
    with pytest.raises(StoreError, match=r"\(1, 0\)"):
        from_stored((1, 0), whole.replace(b"x", b"\xff"))
