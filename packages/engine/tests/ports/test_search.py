"""A search is checked once, for every store; a page has one order and one place to go on from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from agentic_kernel import Dispatch, InvalidValue, Kill, Task, TaskStatus, apply
from agentic_kernel_engine import HostGone, MemoryStore, Record, StoreTraits
from agentic_kernel_engine.moments import EARLIEST, LATEST
from agentic_kernel_engine.search import MAX_LIMIT, Search, labels_of

AT = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)


def record(task_id: str, minute: int = 0, **given: Any) -> Record:
    fields = {name: given.pop(name) for name in ("agent_name", "metadata") if name in given}
    task = Task.new(
        id=task_id,
        summary="s",
        instructions="i",
        runtime_kind=given.pop("kind", "k"),
        at=AT + timedelta(minutes=minute),
        **fields,
    )
    return Record(apply(task, Dispatch(), AT + timedelta(hours=1)), **given)


async def store_of(*records: Record) -> MemoryStore:
    store = MemoryStore()
    for each in records:
        await store.insert(each)
    return store


async def ids(store: MemoryStore, **options: Any) -> list[str]:
    return [found.task.id for found in await store.find(**options)]


async def test_a_search_finds_by_agent_realm_label_and_time_of_creation() -> None:
    store = await store_of(
        record("a", 1, agent_name="acme/ann", metadata={"label/team": "red", "label/tier": "1"}),
        record("b", 2, agent_name="acme/ann", realm="acme", metadata={"label/team": "red"}),
        record("c", 3, realm="acme", metadata={"label/team": 7, "team": "red"}),
        record("d", 4, realm="other"),
    )
    assert await ids(store, agent="acme/ann") == ["a", "b"]
    assert await ids(store, realms=["acme"]) == ["b", "c"]
    assert await ids(store, realms=["", "other"]) == ["a", "d"]
    assert await ids(store, labels={"team": "red"}) == ["a", "b"]
    assert await ids(store, labels={"label/team": "red", "tier": "1"}) == ["a"]
    assert await ids(store, created_from=AT + timedelta(minutes=2)) == ["b", "c", "d"]
    assert await ids(store, created_before=AT + timedelta(minutes=2)) == ["a"]
    assert await ids(store, agent="acme/ann", realms=["acme"], labels={"team": "red"}) == ["b"]


async def test_the_newest_come_first_and_equal_moments_go_by_id() -> None:
    store = await store_of(*(record(f"{n:02}", n // 3) for n in range(20)))
    seen: list[str] = []
    place: tuple[datetime, str] | None = None
    while page := await store.find(newest=True, after=place, limit=4):
        seen += [each.task.id for each in page]
        place = page[-1].task.created_at, page[-1].task.id
    assert seen == [f"{n:02}" for n in reversed(range(20))]


async def test_a_page_goes_on_although_the_task_it_ended_with_was_pruned() -> None:
    store = await store_of(*(record(f"{n:02}", n) for n in range(6)))
    (last,) = await store.find(newest=True, after=(AT + timedelta(minutes=5), "05"), limit=1)
    dead = last.changed(task=apply(last.task, Kill(), AT), version=2)
    await store.commit(last, dead)
    assert await store.prune(datetime.now(UTC) + timedelta(days=9_999)) == 1
    place = (last.task.created_at, last.task.id)
    assert await ids(store, newest=True, after=place) == ["03", "02", "01", "00"]


async def test_a_note_is_no_label() -> None:
    task = record("a", metadata={"label/team": "red"}).task
    noted = apply(task, Kill(notes={"label/late": "yes"}), AT)
    assert labels_of(noted) == {"label/team": "red"}


async def test_a_page_of_none_is_empty() -> None:
    store = await store_of(record("a"))
    assert await ids(store, limit=0) == []


BAD: Sequence[tuple[str, Any]] = [
    ("status", "asleep"),
    ("status", 5),
    ("kinds", "one string"),
    ("kinds", [1]),
    ("agent", 5),
    ("realms", "acme"),
    ("labels", ["team"]),
    ("labels", {"team": 5}),
    ("labels", {5: "team"}),
    ("parent", 5),
    ("owner", b"host"),
    ("claimable", "yes"),
    ("due", "2026-01-01T00:00:00Z"),
    ("due", datetime(2026, 1, 1)),
    ("created_from", datetime(2026, 1, 1)),
    ("created_before", datetime.max.replace(tzinfo=UTC)),
    ("created_from", datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))),
    ("newest", 1),
    ("after", 5),
    ("after", (AT, "a")),
    ("limit", 10**30),
    ("limit", 10**5000),
    ("limit", -1),
    ("limit", True),
    ("limit", 1.0),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{n}-{i}" for i, (n, _) in enumerate(BAD)])
async def test_an_option_of_the_wrong_type_or_range_is_named(name: str, value: Any) -> None:
    store = MemoryStore()
    with pytest.raises(InvalidValue) as refused:
        await store.find(**{name: value})
    assert refused.value.path.startswith(name)


@pytest.mark.parametrize("place", ["a", (AT,), (AT, 5), ("a", AT), (datetime(2026, 1, 1), "a")])
async def test_newest_goes_on_after_a_moment_and_an_id(place: Any) -> None:
    with pytest.raises(InvalidValue, match="after"):
        await MemoryStore().find(newest=True, after=place)


async def test_a_filter_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="colour"):
        Search.of(colour="red")  # type: ignore[call-arg]


async def test_moments_are_compared_in_utc() -> None:
    zone = timezone(timedelta(hours=-14))
    found = Search.of(created_from=AT.astimezone(zone), due=LATEST.astimezone(zone))
    assert found.created_from == AT
    assert found.due == LATEST
    assert Search.of(due=EARLIEST).due == EARLIEST
    assert Search.of(limit=MAX_LIMIT).limit == MAX_LIMIT


async def test_prune_takes_an_aware_moment_and_a_bounded_page() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidValue, match="naive"):
        await store.prune(datetime(2026, 1, 1))
    with pytest.raises(InvalidValue, match="limit"):
        await store.prune(AT, limit=-1)


async def test_a_host_that_left_does_not_join_again() -> None:
    store = MemoryStore()
    await store.join("h")
    await store.join("h")
    await store.leave("h")
    with pytest.raises(HostGone) as gone:
        await store.join("h")
    assert gone.value.host == "h"
    assert not await store.alive("h:1")


async def test_a_pruned_family_leaves_nothing_behind() -> None:
    store = MemoryStore()
    for n in range(50):
        first = record(f"{n}", parent=f"p{n}")
        await store.insert(first)
        dead = first.changed(task=apply(first.task, Kill(), AT), version=2)
        await store.commit(first, dead)
    assert await store.prune(LATEST) == 50
    assert not store._children


async def test_a_subclass_may_wait_unless_it_says_that_it_does_not() -> None:
    class Slow(MemoryStore):
        pass

    class Quick(MemoryStore):
        traits = StoreTraits(never_waits=True)

    assert MemoryStore().traits.never_waits
    assert not Slow().traits.never_waits
    assert Quick().traits.never_waits


async def test_a_finished_status_with_newest_first() -> None:
    store = await store_of(record("a", 1), record("b", 2))
    for each in await store.find():
        dead = each.changed(task=apply(each.task, Kill(), AT), version=2)
        await store.commit(each, dead)
    assert await ids(store, newest=True, status=TaskStatus.CANCELLED) == ["b", "a"]
