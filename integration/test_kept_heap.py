"""While pytest collects, no garbage collection runs; what it collected is frozen after that."""

from __future__ import annotations

import gc

import pytest

from integration import kept_heap


def test_no_garbage_is_collected_until_the_tests_are() -> None:
    collection = kept_heap.pytest_collection()
    next(collection)
    during, kept = gc.isenabled(), gc.get_freeze_count()
    with pytest.raises(StopIteration) as ended:
        collection.send("collected")
    assert (during, gc.isenabled(), ended.value.value) == (False, True, "collected")
    assert gc.get_freeze_count() > kept


def test_a_collection_that_fails_leaves_garbage_collection_on() -> None:
    collection = kept_heap.pytest_collection()
    next(collection)
    with pytest.raises(pytest.UsageError):
        collection.throw(pytest.UsageError("a name that differs"))
    assert gc.isenabled()
