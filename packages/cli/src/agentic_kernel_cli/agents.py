"""The Host of this command: it runs each granted Task on the substrate of its runtime kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import (
    CompositeObserver,
    Event,
    Host,
    Job,
    Limits,
    Observer,
    Store,
)
from agentic_kernel_engine.discovery import Unusable

from . import telemetry
from .grants import Grants, Options, Wish
from .kinds import LOCAL, LOCAL_TOOLS, entry_of
from .local import LocalWork, find_model
from .mcp_servers import with_servers
from .observers import Named
from .place import Place
from .toolbox import Toolbox
from .user import acts_for
from .works import Work as AnyWork
from .works import work_of


@asynccontextmanager
async def open_runtime(
    place: Place,
    grants: Grants,
    observer: Observer,
    kinds: Collection[str] = (LOCAL,),
    named: Sequence[str] = (),
) -> AsyncIterator[Host]:
    """Open a Host that runs the Tasks in ``grants`` and no others.

    Args:
        named: Further observers, as ``--observer`` names them.

    Raises:
        CannotStart: One of ``kinds`` needs the local model, and its package or its file is
            missing; the message says what to install. Or an MCP server cannot be used.
        NotAccepted: A tool of an MCP server is new or changed.
        StoreError: The place cannot be opened.
    """
    if not {LOCAL, LOCAL_TOOLS}.isdisjoint(kinds):
        for model in {each.model for each in grants.values() if each.runtime == LOCAL} or {None}:
            find_model(model)
    further = Named(named)
    exported = telemetry.opened()
    try:
        async with (
            with_servers(grants) as served,
            place.opened() as store,
            AgentHost(store, served, _all(observer, further), exported) as host,
        ):
            yield host
    finally:
        try:
            await further.close()
        finally:
            if exported is not None:
                exported.close()


def _all(observer: Observer, further: Named) -> Observer:
    return CompositeObserver(observer, *further.observers) if further.observers else observer


class Work:
    """The substrate that passes each Task to the substrate of its runtime kind.

    It does not run a Task without a grant, for example a child Task that a stored record names.

    Args:
        middleware: The last middlewares of each Loop.
    """

    def __init__(self, grants: Grants, middleware: Sequence[Any] = ()) -> None:
        self._grants = grants
        self._middleware = middleware
        self._reads = _forms(grants)
        self._works: dict[tuple[str, str | None, Options], AnyWork | LocalWork] = {}

    @property
    def reads(self) -> Collection[str]:
        """See `Reading`."""
        return self._reads

    @property
    def limit_names(self) -> Collection[str]:
        """See `Limiting`; `check_limits` refuses those that the Task's runtime does not keep."""
        return Limits.__struct_fields__

    async def accept(self, task: Task) -> None:
        work, box = self._granted(task)
        await work.accept(task, box)

    async def execute(self, job: Job) -> Any:
        try:
            work, box = self._granted(job.task)
            _check_consent(job, box)
        except CannotStart as error:
            # Pause and do not fail: a command with the right flags can resume it.
            await job.pause(job.state, reason=str(error))
        return await work.execute(job, box)

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """See `Cleaning`; a Task without a grant did not run here."""
        try:
            work, box = self._granted(task)
        except CannotStart:
            return
        if not isinstance(work, LocalWork):
            await work.on_killed(task, box, state, events)

    async def close(self) -> None:
        """Close all substrates that were opened."""
        for work in self._works.values():
            await work.close()

    def _granted(self, task: Task) -> tuple[AnyWork | LocalWork, Toolbox | None]:
        """Return the substrate for a Task, and its tools if it asks for any.

        Raises:
            CannotStart: The Task has no grant, asks for more than its grant, or is malformed.
        """
        grant = self._grants.get(task.id)
        if grant is None:
            raise CannotStart("this command was not told to run it", task.id)
        box, wish = grant.box_of(task), Wish.of(task)
        key = wish.runtime, grant.model_of(wish), grant.options_of(wish)
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _new(*key, self._middleware)
        return work, box


class AgentHost(Host):
    """Runs the Tasks that this command is told to run, and no others.


    Args:
        exported: The telemetry of the command; None if it exports none.
    """

    def __init__(
        self,
        store: Store,
        grants: Grants,
        observer: Observer,
        exported: telemetry.Telemetry | None = None,
    ) -> None:
        self._work = Work(grants, () if exported is None else exported.middleware)
        super().__init__(
            self._work if exported is None else exported.traced(self._work),
            store,
            observer=observer
            if exported is None
            else CompositeObserver(observer, exported.observer),
            claims=False,
            acts_for=acts_for,
        )

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._work.close()


def _new(
    runtime: str, model: str | None, options: Options, middleware: Sequence[Any]
) -> AnyWork | LocalWork:
    if runtime == LOCAL:
        return LocalWork(model, middleware)
    return work_of(runtime, model, options, middleware)


def _forms(grants: Grants) -> Collection[str]:
    """The forms of state that the granted runtimes read."""
    found: set[str] = set()
    for runtime in {grant.runtime for grant in grants.values()} - {LOCAL}:
        try:
            found.update(getattr(entry_of(runtime), "reads", ()))
        except (CannotStart, Unusable):
            continue  # Its Tasks are refused with the reason.
    return frozenset(found)


def _check_consent(job: Job, box: Toolbox | None) -> None:
    """Refuse a write that an earlier command allowed with ``--yes``, if this one has no ``--yes``.

    The Loop asks its policy once about each action and stores the verdict with the plan. So the
    policy of this command is not asked again.

    Raises:
        CannotStart: The stored plan has such a write.
    """
    if box is None or box.yes:
        return
    state = job.state if isinstance(job.state, Mapping) else {}
    at_hand = state.get("at_hand")
    if not isinstance(at_hand, Mapping):
        return
    try:
        actions, verdicts = at_hand["plan"]["actions"], at_hand["verdicts"]
        allowed = [
            action["tool"]
            for action, each in zip(actions, verdicts, strict=False)
            if action["type"] == "tool_call" and each["decision"]["verdict"] == "allow"
        ]
    except (KeyError, TypeError):
        return  # Not the state of a Loop; the substrate reports it.
    if not set(allowed).isdisjoint(box.writing()):
        raise CannotStart(
            "an earlier command allowed its next write with --yes, and this one does not; resume "
            "it with --yes, or kill it",
            job.task.id,
        )
