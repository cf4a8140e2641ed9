"""One corpus of values and ids through every store: what each of them answers is the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

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
from agentic_kernel_conformance.values import ACCEPTED, IDS, REFUSED, TOO_LONG
from agentic_kernel_engine import Host, MemoryStore, Record, Store
from agentic_kernel_engine.stored import encode_record
from agentic_kernel_file import FileStore
from agentic_kernel_postgres import PostgresStore

from .postgres_server import schema as schema
from .postgres_server import server as server
from .sqlite_store import SQLiteStore

pytestmark = pytest.mark.slow

AT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
KEY = "corpus/value"
DEEPEST = "100,000 levels"
"""The contract refuses it on each store, too; a value of 5,000 levels is among the others."""

Answers = dict[str, list[object]]
"""For each case of the corpus what the store said, in order."""


async def kept(store: Store) -> Answers:
    """Every accepted value in every place of a record, read back after each write."""
    said: Answers = {}
    for name, value in ACCEPTED.items():
        text = json.dumps(value, ensure_ascii=False)
        state = None if value is None else text.encode()
        given = Task.new(
            id=name, summary=text, instructions=text, runtime_kind="corpus",
            metadata={KEY: value}, at=AT,
        )  # fmt: skip
        task = apply(given, Dispatch(notes={"corpus/note": value}), AT)
        first = Record(task, owner="host:1", state=state)
        task = apply(task, Pause(notes={"corpus/more": value}), AT)
        inbox = ({"type": "corpus", "value": value},)
        second = first.changed(task=task, version=2, owner=None, inbox=inbox)
        task = apply(task, Resume(text), AT)
        third = second.changed(task=task, version=3, inbox=())
        failure = Failure("corpus/code", text, {KEY: value})
        last = (Fail(failure), Complete(value))[len(said) % 2]
        fourth = third.changed(task=apply(task, last, AT), version=4)
        await store.insert(first, [text.encode()])
        answers: list[object] = [encode_record(await store.load(name))]
        for before, after in ((first, second), (second, third), (third, fourth)):
            await store.commit(before, after, [text.encode()] * after.version)
            answers.append(encode_record(await store.load(name)))
        answers += [(tuple(place), read) for place, read in await store.events(name)]
        said[name] = answers
    return said


async def refused(store: Store) -> Answers:
    """In which words a Host over the store refuses every other value, and what that leaves."""
    return await _refused(store, {name: REFUSED[name] for name in REFUSED if name != DEEPEST})


async def refused_at_last(store: Store) -> Answers:
    """The same for the value that takes longest to make and to look at."""
    return await _refused(store, {DEEPEST: REFUSED[DEEPEST]})


async def too_long(store: Store) -> Answers:
    """The same for values that are longer than a store keeps."""
    return await _refused(store, TOO_LONG)


async def _refused(store: Store, values: Mapping[str, Any]) -> Answers:
    said: Answers = {}
    async with Host(store=store) as host:
        for name, make in values.items():
            there = f"there {name}"
            await store.insert(Record(apply(_task(there), Dispatch(), AT)))
            said[name] = [await _words(call) for call in _verbs(host, there, make)]
            said[name].append(await _words(partial(store.load, "new")))
            said[name].append(encode_record(await store.load(there)))
    return said


async def told_apart(store: Store) -> Answers:
    """What is found under each id, and in which order all of them are listed."""
    await store.join("host")
    for n, task_id in enumerate(IDS.values()):
        record = Record(apply(_task(task_id), Dispatch(), AT), state=b"%d" % n, parent=task_id)
        await store.insert(record, [b"%d" % n])
    said: Answers = {}
    for name, task_id in IDS.items():
        claimed = await store.claim(task_id, "host", [b"claimed"])
        children = [record.task.id for record in await store.find(parent=task_id)]
        said[name] = [claimed and encode_record(claimed), children, await store.events(task_id)]
    said["in order"] = [record.task.id for record in await store.find(limit=len(IDS) + 1)]
    return said


def _verbs(
    host: Host, there: str, make: Callable[[], object]
) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: host.dispatch(_task("new", {KEY: make()})),
        lambda: host.complete(there, {"in": [make()]}),
        lambda: host.fail(there, Failure("a/b", "c", {KEY: [make()]})),
    ]


def _task(task_id: str, metadata: dict[str, Any] | None = None) -> Task:
    return Task.new(
        id=task_id, summary="", instructions="", runtime_kind="corpus", metadata=metadata, at=AT
    )


async def _words(call: Callable[[], Awaitable[object]]) -> tuple[str, str]:
    try:
        await call()
    except (InvalidValue, TaskNotFound) as refusal:
        return type(refusal).__name__, str(refusal)
    raise AssertionError("what no store takes was taken")


@asynccontextmanager
async def opened(folder: Path, server: str, schema: str) -> AsyncIterator[dict[str, Store]]:
    """An empty store of each kind."""
    sqlite, file = SQLiteStore(folder / "state.db", 60.0), FileStore(folder / "file")
    async with PostgresStore(server, schema=schema) as postgres:
        yield {"sqlite": cast("Store", sqlite), "file": file, "postgres": postgres}
    file.close()
    sqlite.close()


@pytest.mark.parametrize(
    "asked",
    [
        kept,
        refused,
        pytest.param(refused_at_last, marks=pytest.mark.torture),
        pytest.param(too_long, marks=pytest.mark.torture),
        told_apart,
    ],
)
async def test_every_store_answers_as_the_one_in_memory(
    asked: Callable[[Store], Awaitable[Answers]], tmp_path: Path, server: str, schema: str
) -> None:
    expected = await asked(MemoryStore())
    assert expected
    async with opened(tmp_path, server, schema) as stores:
        for name, store in stores.items():
            found = await asked(store)
            assert found.keys() == expected.keys()
            differ = [case for case in found if found[case] != expected[case]]
            assert differ == [], f"{name}: {ascii([(found[c], expected[c]) for c in differ]):.2000}"
