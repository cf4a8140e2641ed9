"""Ids: unique, time-ordered, strictly increasing in one process; threads and forks included."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
import uuid
from multiprocessing.connection import Connection

import pytest

from agentic_kernel import Task, ids


def test_ids_strictly_increase() -> None:
    issued = [ids.new_id() for _ in range(20_000)]
    assert all(one < other for one, other in itertools.pairwise(issued))


def test_an_id_is_a_uuid_of_version_seven() -> None:
    before = time.time_ns() // 1_000_000
    parsed = uuid.UUID(ids.new_id())
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 >= before
    assert str(parsed) == str(uuid.UUID(int=parsed.int))


def test_tasks_get_ids_of_their_own() -> None:
    first, second = (Task.new(summary="", instructions="", runtime_kind="k") for _ in range(2))
    assert first.id < second.id


@pytest.mark.parametrize("now", [0, 1, 10**18, 5 * 10**18])
def test_a_clock_that_stands_still_or_steps_back_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    last = ids.new_id()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    # The ids of a far future must not be what later tests have to exceed.
    monkeypatch.setattr(ids, "_last", ids._last)
    for _ in range(5_000):
        following = ids.new_id()
        assert following > last
        assert uuid.UUID(following).version == 7
        assert uuid.UUID(following).variant == uuid.RFC_4122
        last = following


def test_threads_never_share_an_id_and_each_sees_them_increase() -> None:
    issued: list[list[str]] = [[] for _ in range(8)]
    barrier = threading.Barrier(len(issued))

    def issue(mine: list[str]) -> None:
        barrier.wait(timeout=30)
        mine.extend(ids.new_id() for _ in range(2_000))

    threads = [threading.Thread(target=issue, args=(mine,)) for mine in issued]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in issued)
    assert len({id for mine in issued for id in mine}) == 8 * 2_000


def test_an_id_asked_for_after_another_was_issued_is_greater_whatever_the_thread() -> None:
    found: list[str] = []
    for _ in range(50):
        thread = threading.Thread(target=lambda: found.append(ids.new_id()))
        thread.start()
        thread.join()
        found.append(ids.new_id())
    assert found == sorted(set(found))


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@needs_fork
def test_processes_forked_from_one_do_not_issue_the_same_ids() -> None:
    fork = multiprocessing.get_context("fork")
    children, receivers = [], []
    ids.new_id()
    for _ in range(4):
        sender, receiver = _pipe()  # One for each child: long messages in one pipe may mix.
        child = fork.Process(target=_issue, args=(sender, 500))
        child.start()
        children.append(child)
        receivers.append(receiver)
    issued = [each.recv() for each in receivers] + [[ids.new_id() for _ in range(500)]]
    for child in children:
        child.join(timeout=30)
        assert child.exitcode == 0
    assert len({id for batch in issued for id in batch}) == 5 * 500
    assert all(batch == sorted(batch) for batch in issued)


@needs_fork
def test_a_fork_while_another_thread_issues_an_id_leaves_the_child_able_to() -> None:
    sender, receiver = _pipe()
    child = multiprocessing.get_context("fork").Process(target=_issue, args=(sender, 1))
    with ids._lock:  # as another thread would hold it at that moment
        child.start()
    try:
        assert receiver.poll(timeout=10), "the child waits for a lock that nobody will release"
        assert receiver.recv() != [ids.new_id()]
    finally:
        child.kill()
        child.join(timeout=30)


def _pipe() -> tuple[Connection, Connection]:
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    return sender, receiver


def _issue(sender: Connection, count: int) -> None:
    sender.send([ids.new_id() for _ in range(count)])
