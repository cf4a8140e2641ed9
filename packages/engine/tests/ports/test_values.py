"""Values that may be stored, and the place that a refusal names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from agentic_kernel import Failure, InvalidValue, TaskNotFound
from agentic_kernel_engine import Host, Job
from agentic_kernel_engine.values import MAX_BYTES, MAX_DEPTH, decode, encode

from ..conftest import Acting, NewTask, TappedStore


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def shared(levels: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(levels):
        value = [value, value]
    return value


ACCEPTED = [
    None,
    True,
    0,
    -(2**63),
    2**63 - 1,
    0.1,
    -0.0,
    1e308,
    5e-324,
    "",
    "ünïcode 🜁 \u202e \u2028",
    "\x1b[31m\r\n\t\x7f",
    [],
    {},
    {"": [None, {"b": 1, "a": 2}]},
    nested(MAX_DEPTH),
    "x" * 1_000_000,
]


@pytest.mark.parametrize("value", ACCEPTED, ids=map(str, range(len(ACCEPTED))))
def test_what_is_accepted_comes_back_equal(value: Any) -> None:
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(value)
    if value == 0.0 and isinstance(value, float):
        assert math.copysign(1, back) == math.copysign(1, value)


REFUSED = [
    (math.nan, "value", "not a finite number"),
    ({"a": [0, math.inf]}, "value['a'][1]", "not a finite number"),
    ({"a": {"b": -math.inf}}, "value['a']['b']", "not a finite number"),
    (["\ud800"], "value[0]", "lone surrogate"),
    ({"\udfff": 1}, "a key of value", "lone surrogate"),
    ("nul\0", "value", "NUL"),
    ({"nul\0": 1}, "a key of value", "NUL"),
    (10**5000, "value", "outside 64 bits"),
    ([2**63], "value[0]", "outside 64 bits"),
    ({1: "one", "1": "other"}, "value", "key of type int"),
    ({None: 1}, "value", "key of type NoneType"),
    ([{1, 2}], "value[0]", "is a set"),
    ({"b": b"bytes"}, "value['b']", "is a bytes"),
    (object(), "value", "is a object"),
    (nested(MAX_DEPTH + 1), "value[0]", "nested deeper"),
    (nested(5_000), "value[0]", "nested deeper"),
    (nested(100_000), "value[0]", "nested deeper"),
    ("x" * (MAX_BYTES + 1), "value", "over the limit"),
    (shared(60), "value", "parts"),
]


@pytest.mark.parametrize(("value", "path", "reason"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_what_is_refused_is_named(value: Any, path: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason) as refused:
        encode(value)
    assert refused.value.path.startswith(path)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(InvalidValue, match="nested deeper"):
        encode(loop)


BAD = [math.nan, "\ud800", "\0", 10**30, {1: 2}, {"deep": nested(200)}, {"set": {1}}]


@pytest.mark.parametrize("bad", BAD, ids=map(str, range(len(BAD))))
async def test_the_edge_refuses_before_anything_is_written(
    new_task: NewTask, acting: type[Acting], tapped: TappedStore, bad: Any
) -> None:
    reasons = []

    async def act(job: Job) -> Any:
        for call in (
            job.commit(bad),
            job.checkpoint({"x": bad}),
            job.commit(1, [{"type": "a", "data": bad}]),
            job.pause([bad]),
        ):
            with pytest.raises(InvalidValue) as refused:
                await call
            reasons.append(refused.value.path)
        says: list[Callable[[], None]] = [
            lambda: job.emit({"type": "a", "data": bad}),
            lambda: job.note("acme/note", bad),
        ]
        for say in says:
            with pytest.raises(InvalidValue):
                say()
        return bad

    async with Host(acting(act), tapped) as host:
        done = await host.run(new_task())
        assert done.failure is not None
        assert done.failure.code == "engine/bad_result"
        assert tapped.count("commit") == 1
        assert reasons[1].startswith("state['x']")
        assert reasons[2].startswith(("events[0].data['data']", "a key of events[0]"))
        for refused in (
            lambda: host.dispatch(new_task(metadata={"m": bad})),
            lambda: host.complete(done.id, bad),
            lambda: host.post(done.id, {"type": "a", "value": bad}),
            lambda: host.fail(done.id, Failure("a/b", "c", {"value": bad})),
        ):
            with pytest.raises(InvalidValue):
                await refused()
        assert tapped.count("commit") == 1
        assert tapped.count("insert") == 1


@pytest.mark.parametrize("task_id", ["\ud800", "nul\0", "x" * 513], ids=map(str, range(3)))
async def test_an_id_that_no_store_can_hold_is_refused_and_never_found(
    new_task: NewTask, acting: type[Acting], task_id: str
) -> None:
    async with Host(acting(cast(Any, None))) as host:
        with pytest.raises(InvalidValue, match=r"task\.id"):
            await host.dispatch(new_task(id=task_id))
        with pytest.raises(TaskNotFound):
            await host.get(task_id)
        with pytest.raises(TaskNotFound):
            await host.kill(task_id)
        assert await host.get_many([task_id]) == {}


async def test_ids_are_opaque(new_task: NewTask, acting: type[Acting]) -> None:
    ids = ["../../etc/passwd", "/abs", ".", "..", "Aa", "aA", "é", "e\u0301", "x" * 300, "a\nb"]
    ids += ["-rf", "trailing.", "blank ", "'; DROP TABLE tasks; --", "\u202etxt", "\u200b"]

    async def act(job: Job) -> Any:
        return job.task.id

    async with Host(acting(act)) as host:
        for task_id in ids:
            assert (await host.run(new_task(id=task_id))).result == task_id
        assert [task.id for task in await host.find(limit=100)] == sorted(ids)
