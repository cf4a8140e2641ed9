"""Optional methods of a port: found by their names, and a misspelled name is not missed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Event, Host, HostClosed, Job, Loop
from agentic_kernel_engine.edges import optional
from agentic_kernel_engine.providers import APIPlanner
from agentic_kernel_engine.seams.child_tasks import ChildTasks
from agentic_kernel_engine.seams.delegation import EndsChildren, Metering
from agentic_kernel_engine.seams.middleware import Middleware
from agentic_kernel_engine.seams.middlewares.recording import Recorder, Replayer
from agentic_kernel_engine.seams.on_runtime import OnRuntime
from agentic_kernel_engine.seams.planner import AsksModel, Counting, Forecast, TakesOptions
from agentic_kernel_engine.seams.planners import ScriptedPlanner
from agentic_kernel_engine.seams.policies import PermissionPolicy, PolicyPipeline
from agentic_kernel_engine.seams.policy import Hiding
from agentic_kernel_engine.substrate import (
    Accepting,
    Acting,
    Cleaning,
    Limiting,
    Metered,
    Reading,
    Substrate,
)


class Plain:
    async def execute(self, job: Job) -> Any:
        return None


class Slotted:
    __slots__ = ()

    async def execute(self, job: Job) -> Any:
        return None


class Refusing(Plain, Accepting):
    async def accept(self, task: Task) -> None:
        raise CannotStart("not today", task.id)


@pytest.mark.parametrize(
    "name", ["acept", "accpet", "accepts", "akcept", "on_kiled", "onkilled", "on_kill"]
)
def test_a_method_that_is_almost_an_optional_one_is_logged(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def method(self: object, *_: object) -> None: ...

    kind = type("Misspelled", (Plain,), {name: method})
    with caplog.at_level(logging.WARNING):
        Host(kind())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"Misspelled.{name} is never called" in caplog.text


@pytest.mark.parametrize("where", ["class", "instance", "property", "slot"])
@pytest.mark.parametrize(("name", "meant"), [("limits_names", "limit_names"), ("raeds", "reads")])
def test_a_property_that_is_almost_an_optional_one_is_logged(
    name: str, meant: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    members: dict[str, dict[str, Any]] = {
        "class": {name: ("a",)},
        "property": {name: property(lambda self: ("a",))},
        "instance": {"__init__": lambda self: setattr(self, name, ("a",))},
        "slot": {"__slots__": (name,)},
    }
    kind = type("Misspelled", (Slotted,), members[where])
    with caplog.at_level(logging.WARNING):
        Host(kind())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"Misspelled.{name} is never read" in caplog.text
    assert f" reads {meant}" in caplog.text


@pytest.mark.parametrize("where", ["class", "subclass", "instance"])
def test_a_hook_that_is_almost_another_one_is_logged_beside_a_good_one(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def method(self: object, *_: object) -> None: ...

    members = {"before_tool": method} | ({} if where == "instance" else {"after_toll": method})
    kind = type("Misspelled", (Middleware,) if where == "subclass" else (), members)
    middleware = kind()
    if where == "instance":
        middleware.after_toll = middleware.before_tool
    with caplog.at_level(logging.WARNING):
        Loop(ScriptedPlanner(), middleware=[middleware])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "middleware[0]: the method Misspelled.after_toll is never called" in caplog.text


def test_other_methods_and_optional_ones_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Fine(Refusing):
        def __init__(self) -> None:
            self._reads, self._meters = (), False
            self.ready, self.meter, self.principals_by_name = True, None, ()

        async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None: ...
        def excerpt(self) -> None: ...
        def acc(self) -> None: ...
        def accepted_kinds(self) -> None: ...
        def meters_of(self) -> None: ...
        def limit_name(self) -> None: ...

    with caplog.at_level(logging.WARNING):
        Host(Fine())
        Host(Plain())
    assert caplog.records == []


def test_the_search_for_misspelled_members_runs_no_code_of_a_class(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Raises:
        def __get__(self, instance: object, owner: object) -> object:
            raise RuntimeError("code of the class ran")

    class Odd(Plain):
        resource = Raises()

    assert optional(Odd(), "substrate", Accepting) is None
    assert not caplog.records


def test_a_misspelled_member_of_a_class_is_logged_once_for_many_objects(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Varied(Plain):
        def __init__(self, number: int) -> None:
            setattr(self, f"number_{number}", number)

        async def acept(self, task: Task) -> None: ...

    for number in range(4):
        assert optional(Varied(number), "substrate", Accepting) is None
    assert len(caplog.records) == 1


def test_an_optional_port_is_found_by_its_methods() -> None:
    substrate = Refusing()
    assert optional(substrate, "substrate", Accepting) is substrate
    assert optional(substrate, "substrate", Cleaning) is None
    assert optional(None, "substrate", Accepting) is None


async def test_an_accepting_substrate_refuses_before_anything_is_written() -> None:
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    async with Host(Refusing()) as host:
        with pytest.raises(CannotStart, match="not today"):
            await host.dispatch(task)
        assert await host.find() == []


def test_a_method_of_a_port_that_is_named_as_a_base_class_must_be_there() -> None:
    class Forgot(Plain, Accepting): ...

    class Misspelled(Substrate):
        async def execut(self, job: Job) -> Any: ...

    with pytest.raises(TypeError, match="accept"):
        Forgot()  # type: ignore[abstract]  # The type checker says so first.
    with pytest.raises(TypeError, match="execute"):
        Misspelled()  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("part", "ports"),
    [
        (APIPlanner, [Accepting, AsksModel, Counting, Forecast, TakesOptions]),
        (ChildTasks, [Metering]),
        (Loop, [Accepting, Acting, Cleaning, Limiting, Metered, Reading]),
        (OnRuntime, [EndsChildren, Metering]),
        (PermissionPolicy, [Hiding]),
        (PolicyPipeline, [Hiding]),
        (Recorder, [Forecast]),
        (Replayer, [Forecast]),
        (ScriptedPlanner, [Forecast]),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_the_engine_names_the_optional_ports_of_its_own_parts(
    part: type, ports: list[type]
) -> None:
    assert [each for each in ports if each not in part.__mro__] == []


class Hesitating(Plain, Accepting):
    """Accepts no Task before it is told to."""

    def __init__(self) -> None:
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def accept(self, task: Task) -> None:
        self.asked.set()
        await self.answer.wait()


@pytest.mark.parametrize("verb", ["run", "dispatch"])
async def test_a_caller_that_waits_for_the_substrate_hears_that_the_host_closes(verb: str) -> None:
    substrate = Hesitating()
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    async with Host(substrate, grace=0) as host:
        caller = asyncio.create_task(getattr(host, verb)(task))
        await substrate.asked.wait()
    async with asyncio.timeout(5):
        with pytest.raises(HostClosed):
            await caller
    assert not caller.cancelled()


async def test_a_cancelled_caller_that_waits_for_the_substrate_leaves_no_trace() -> None:
    substrate = Hesitating()
    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    async with Host(substrate, max_in_flight=1) as host:
        caller = asyncio.create_task(host.run(task))
        await substrate.asked.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert await host.find() == []
        substrate.answer.set()
        assert (await host.run(task)).status == "success"


async def test_a_method_without_async_is_named() -> None:
    class Plainly:
        def execute(self, job: Job) -> Any:
            return 1

    class Hastily(Plain):
        def accept(self, task: Task) -> None: ...

    task = Task.new(summary="s", instructions="i", runtime_kind="k")
    async with Host(Plainly()) as host:
        ended = await host.run(task)
    assert ended.failure is not None
    assert "execute() of the substrate gave 1" in ended.failure.message
    async with Host(Hastily()) as host:
        with pytest.raises(TypeError, match=r"accept\(\) of the substrate gave None"):
            await host.run(task)
        assert await host.find() == []
