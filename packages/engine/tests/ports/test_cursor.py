"""EventId: made, parsed and printed; a plain tuple to every reader that knows only tuples."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Event, EventId, InMemoryObserver
from agentic_kernel_engine.host.host import Host
from agentic_kernel_engine.plans.action import FinalAnswer, Thought

from ..scripting import Runner, new_task


def test_an_id_is_made_parsed_and_printed() -> None:
    made = EventId(3, 1)
    assert (made.version, made.place) == (3, 1)
    assert str(made) == f"{made}" == "3.1"
    for id in (made, EventId(0, 0), EventId(12, -1), EventId((1 << 63) - 1, 7)):
        assert EventId.parse(str(id)) == id


def test_an_id_equals_sorts_and_is_stored_like_a_tuple() -> None:
    ids: list[Any] = [EventId(3, 1), (2, 9), EventId(3, 0)]
    assert EventId(3, 1) == (3, 1)
    assert hash(EventId(3, 1)) == hash((3, 1))
    assert sorted(ids) == [(2, 9), (3, 0), (3, 1)]
    assert json.dumps(EventId(3, 1)) == "[3, 1]"
    assert type(pickle.loads(pickle.dumps(EventId(3, 1)))) is EventId


@pytest.mark.parametrize(
    "text",
    ["", "3", "3.", ".1", "3.1.2", "03.1", "3.01", "-3.1", "3.-2", " 3.1", "3.1\n", "٣.١", "1e3.1",
     "9" * 20 + ".1", "(3, 1)", None, 3.5, (3, 1), b"3.1"],
    ids=repr,
)  # fmt: skip
def test_another_text_is_refused_with_the_form_to_use(text: Any) -> None:
    with pytest.raises(InvalidValue, match=r"event id: is .*such as 3\.1"):
        EventId.parse(text)


async def test_a_host_tells_ids_and_takes_every_form_of_one_as_a_cursor(runner: Runner) -> None:
    seen = InMemoryObserver()
    loop = (runner.host(Thought("hm"), FinalAnswer("ok")), runner.loop)[1]
    async with Host(loop, runner.store, observer=seen) as host:
        task = await host.run(new_task())
        events = [event async for event in host.stream(task.id)]
        assert {type(event.id) for event in events} == {EventId}
        durable = [event.id for _, event in seen.events if event.id is not None]
        assert {type(id) for id in durable} == {EventId}
        first = events[1].id
        assert first is not None
        after: list[Event] = events[2:]
        given: tuple[Any, ...] = (first, tuple(first), EventId.parse(str(first)))
        for form in given:
            assert [event async for event in host.stream(task.id, form)] == after
