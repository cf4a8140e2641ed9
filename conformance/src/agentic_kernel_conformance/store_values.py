"""Tests of values and ids: one corpus for every store; the Host refuses bad values at its edge."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from agentic_kernel import (
    Complete,
    Dispatch,
    Fail,
    Failure,
    InvalidValue,
    Pause,
    Resume,
    Task,
    TaskNotFound,
    apply,
)
from agentic_kernel_engine import Host, Record, Store

from .records import AT, after, expect_same, ids_of, owned, paused, running
from .rules import expect, refused
from .storage import StoreSuite
from .values import ACCEPTED, IDS, REFUSED, TOO_LONG, same

_KEY = "corpus/value"
_EXTRAS = ["yes", "yes", "no", "yes"]


class StoreValues(StoreSuite):
    """An accepted value comes back equal; a refused value leaves no trace."""

    @pytest.mark.rule("values")
    @pytest.mark.parametrize("value", ACCEPTED.values(), ids=ACCEPTED)
    async def test_an_accepted_value_comes_back_equal(self, store: Store, value: Any) -> None:
        """The value is written to, and read from, every field of a record that carries values."""
        text = json.dumps(value, ensure_ascii=False).encode()
        state = None if value is None else text  # the state None means that there is no state
        supplement = value if isinstance(value, str) else text.decode()
        given = Task.new(
            id="first",
            summary=supplement,
            instructions=supplement,
            runtime_kind="corpus",
            metadata={_KEY: value},
            at=AT,
        )
        first = Record(apply(given, Dispatch(notes={"corpus/note": value}), AT), owner="host-a:1")
        await store.insert(first, [text])
        second = paused(after(first, state=state, inbox=({"type": "corpus", "value": value},)))
        await store.commit(first, _next(first, second), [text, text])
        third = after(_next(first, second), Resume(supplement), owner="host-b:3")
        await store.commit(_next(first, second), third)
        done = after(third, Complete(value))
        await store.commit(third, done)
        loaded = await store.load("first")
        expect_same("values", loaded, done)
        metadata, inbox = loaded.task.metadata, loaded.inbox[0]["value"]
        for found in (metadata[_KEY], metadata["corpus/note"], inbox, loaded.task.result):
            expect(same(found, value), "values", f"{found!a:.200} and not {value!a:.200}")
        expect(list(loaded.task.supplements) == [supplement], "values", "another supplement")
        texts = [read for _, read in await store.events("first")]
        expect(texts == [text] * 3, "values", f"events {texts!a:.200}")

        failed = owned("second")
        await store.insert(failed)
        failure = Failure("corpus/code", supplement or "-", {_KEY: value})
        await store.commit(failed, after(failed, Fail(failure)))
        read = (await store.load("second")).task.failure
        expect(read == failure, "values", f"{read!a:.200} and not {failure!a:.200}")

    @pytest.mark.rule("values")
    async def test_equal_extras_are_kept_each(self, store: Store) -> None:
        """Two people may say the same; the second "yes" is another extra than the first."""
        before = running("extras")
        await store.insert(before)
        for count in range(1, 5):
            rest = after(before, Pause())
            await store.commit(before, rest)
            moved = after(rest, Resume(_EXTRAS[count - 1]))
            await store.commit(rest, moved)
            found = list((await store.load("extras")).task.supplements)
            expect(
                found == _EXTRAS[:count],
                "values",
                f"extras {_EXTRAS[:count]} came back as {found!a}",
            )
            (listed,) = await store.find()
            expect_same("values", listed, moved)
            before = moved

    @pytest.mark.rule("values")
    @pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
    async def test_a_refused_value_is_named_by_its_path_and_leaves_nothing(
        self, store: Store, make: Callable[[], Any]
    ) -> None:
        """Every verb with a value is tried, through a Host over this store."""
        await _refused_everywhere(store, make, _KEY)

    @pytest.mark.rule("values")
    @pytest.mark.parametrize("make", TOO_LONG.values(), ids=TOO_LONG)
    async def test_a_value_that_is_too_long_is_named_by_its_field_and_leaves_nothing(
        self, store: Store, make: Callable[[], Any]
    ) -> None:
        """Every verb with a value is tried, through a Host over this store."""
        await _refused_everywhere(store, make, "metadata")

    @pytest.mark.rule("ids")
    async def test_an_id_is_opaque(self, store: Store) -> None:
        """The store interprets no id, and takes no id for another that only looks the same."""
        await store.join("host-b")
        for n, task_id in enumerate(IDS.values()):
            await store.insert(owned(task_id, state=b"%d" % n, parent=task_id), [b"%d" % n])
        for n, task_id in enumerate(IDS.values()):
            record = await store.load(task_id)
            right = record.task.id == task_id and record.state == b"%d" % n
            expect(right, "ids", f"under {task_id!a}: {record.task.id!a}, {record.state!a}")
            await store.commit(record, after(record, step=n))
            children = ids_of(await store.find(parent=task_id))
            expect(children == [task_id], "ids", f"children of {task_id!a}: {children!a}")
            claimed = await store.claim(task_id, "host-b", [b"claimed"])
            expect(claimed is not None and claimed.step == n, "ids", f"claimed: {claimed!a}")
            texts = [text for _, text in await store.events(task_id)]
            expect(texts == [b"%d" % n, b"claimed"], "ids", f"events of {task_id!a}: {texts!a}")
        everything = ids_of(await store.find(limit=1000))
        expect(
            everything == sorted(IDS.values()),
            "ids",
            f"not all, or not by code point: {everything!a}",
        )
        moved = dict(await store.changed(dict.fromkeys(IDS.values(), 3)))
        expect(not moved, "ids", f"changed, though at the version asked: {moved!a}")
        found = await store.load_many(list(IDS.values()))
        expect(set(found) == set(IDS.values()), "ids", f"load_many found {len(found)}")


def _next(before: Record, after: Record) -> Record:
    """Return a direct successor of ``before`` with the task, state and inbox of ``after``."""
    return Record(task=after.task, version=before.version + 1, state=after.state, inbox=after.inbox)


async def _refused_everywhere(store: Store, make: Callable[[], Any], where: str) -> None:
    host, is_text = Host(store=store), isinstance(make(), str)
    try:
        await _refused_input(host, store, make, where)
        record = running("stored")
        await store.insert(record)
        calls: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            ("result", lambda: host.complete("stored", {"in": [make()]})),
            ("metadata", lambda: host.fail("stored", Failure("a/b", "c", {_KEY: make()}))),
        ]
        if is_text:
            calls.append(("message", lambda: host.fail("stored", Failure("a/b", make()))))
        for part, call in calls:
            await _refused(call, part)
        expect_same("edges", await store.load("stored"), record)
        resting = paused(record)
        await store.commit(record, resting)
        if is_text:
            await _refused(lambda: host.resume("stored", make()), "extra")
        expect_same("edges", await store.load("stored"), resting)
        expect(not await store.events("stored"), "edges", "a refused verb left an event")
    finally:
        await host.close()


async def _refused_input(host: Host, store: Store, make: Callable[[], Any], where: str) -> None:
    given: dict[str, dict[str, Any]] = {where: {"metadata": {_KEY: ["x", make()]}}}
    if isinstance(make(), str):
        given |= {name: {name: make()} for name in ("summary", "instructions")}
    for path, field in given.items():
        whole = {"summary": "s", "instructions": "i", "runtime_kind": "corpus", **field}
        await _refused(partial(_dispatch, host, whole), path)
        with refused("edges", TaskNotFound, "loading a Task that was refused"):
            await store.load("new")


async def _dispatch(host: Host, fields: dict[str, Any]) -> None:
    await host.dispatch(Task.new(id="new", **fields))


async def _refused(call: Callable[[], Awaitable[object]], path: str) -> None:
    """Expect that the call raises `InvalidValue`, and that the error names the path."""
    with refused("values", InvalidValue, f"a bad {path}") as refusal:
        await call()
    error = refusal.error
    expect(path in error.path, "values", f"{path} refused as {error.path!a}: {error}")
