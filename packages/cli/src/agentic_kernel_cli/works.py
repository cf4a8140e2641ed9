"""Works: the substrates of discovered runtimes, each made when the first Task needs it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from agentic_kernel import CannotStart, KernelError, Task
from agentic_kernel_engine import Event, Job, Limits, Loop, Substrate
from agentic_kernel_engine.discovery import (
    Allowed,
    ProviderEntry,
    RuntimeEntry,
    Unusable,
    read_options,
)
from agentic_kernel_engine.providers import ProviderPlanner, patient

from .grants import API_KEY, Options
from .kinds import entry_of
from .toolbox import Toolbox

LIMITS: Final = Limits(max_iterations=50)


class Work(Protocol):
    """The substrate of one runtime, with the granted model and options."""

    async def accept(self, task: Task, box: Toolbox | None) -> None:
        """Refuse a Task that cannot run."""
        ...

    async def execute(self, job: Job, box: Toolbox | None) -> Any:
        """See `Substrate`."""
        ...

    async def on_killed(
        self, task: Task, box: Toolbox | None, state: Any, events: Sequence[Event]
    ) -> None:
        """See `Cleaning`."""
        ...

    async def close(self) -> None:
        """Close everything that was opened."""
        ...


def work_of(
    runtime: str, model: str | None, options: Options, middleware: Sequence[Any] = ()
) -> Work:
    """The substrate of a discovered runtime.

    Args:
        model: The name of the model; None if none was granted.
        options: The granted options.
        middleware: The last middlewares of each Loop.

    Raises:
        CannotStart: No installed package offers it, or the one that does cannot be used.
    """
    try:
        entry = entry_of(runtime)
    except Unusable as error:
        raise CannotStart(f"the runtime {error}") from error
    if isinstance(entry, ProviderEntry):
        return ProviderWork(runtime, entry, model, options, middleware)
    return RuntimeWork(runtime, entry, model, options, middleware)


class ProviderWork:
    """Runs Tasks in a Loop that asks a provider's model, with the granted tools."""

    def __init__(
        self,
        name: str,
        entry: ProviderEntry[Any],
        model: str | None,
        options: Options,
        middleware: Sequence[Any],
    ) -> None:
        self._name = name
        self._entry = entry
        self._model = model
        self._options = options
        self._middleware = middleware
        self._planners: dict[str | None, ProviderPlanner] = {}

    async def accept(self, task: Task, box: Toolbox | None) -> None:
        """Refuse a Task without a model or a key, or with options that are not valid."""
        await self._loop(task, box).accept(task)

    async def execute(self, job: Job, box: Toolbox | None) -> Any:
        try:
            loop = self._loop(job.task, box)
        except CannotStart as error:
            # Pause and do not fail: a model or a package may be there later, or elsewhere.
            await job.pause(job.state, reason=str(error))
        return await loop.execute(job)

    async def on_killed(
        self, task: Task, box: Toolbox | None, state: Any, events: Sequence[Event]
    ) -> None:
        """A Loop leaves nothing running."""

    async def close(self) -> None:
        """Close the connections."""
        for planner in self._planners.values():
            await planner.close()

    def _loop(self, task: Task, box: Toolbox | None) -> Loop:
        return Loop(
            self._planner(task),
            () if box is None else box.tools(),
            None if box is None else box.policy(),
            limits=LIMITS,
            middleware=[patient(self._name), *self._middleware],
        )

    def _planner(self, task: Task) -> ProviderPlanner:
        model, api = self._model, task.metadata.get(API_KEY)
        if not model:
            raise CannotStart(f"there is no model for {self._name}; add --model NAME", task.id)
        if api is not None and not isinstance(api, str):
            raise CannotStart(f"Task.metadata[{API_KEY!r}]: must be a string", task.id)
        planner = self._planners.get(api)
        if planner is None:
            planner = self._planners[api] = self._made(task, model, api)
        return planner

    def _made(self, task: Task, model: str, api: str | None) -> ProviderPlanner:
        given = self._options
        if api is not None and not any(name == "api" for name, _ in given):
            given = (*given, ("api", api))
        try:
            planner = self._entry.make(
                model, read_options(self._entry, given, f"--option or --api of {self._name}")
            )
        except Exception as error:
            raise _refused(self._name, task, error) from error
        impl = getattr(planner, "impl", None)
        if impl != self._name:
            raise CannotStart(
                f"the provider {self._name} makes a planner whose impl is {impl!r}; the package "
                "must give both the same name",
                task.id,
            )
        return planner


class RuntimeWork:
    """Runs Tasks on the substrate that a package makes, with the granted model and tools."""

    def __init__(
        self,
        name: str,
        entry: RuntimeEntry[Any],
        model: str | None,
        options: Options,
        middleware: Sequence[Any],
    ) -> None:
        self._name = name
        self._entry = entry
        self._model = model
        self._options = options
        self._middleware = middleware
        self._substrates: dict[tuple[Any, Toolbox | None], Substrate] = {}

    async def accept(self, task: Task, box: Toolbox | None) -> None:
        """Refuse a Task that the runtime refuses."""
        accepting: Any = self._substrate(task, box)
        if hasattr(accepting, "accept"):
            # The system prompt went into the substrate; the substrate knows no such option.
            kept = {key: value for key, value in task.metadata.items() if key != self._system_key}
            await accepting.accept(
                replace(task, metadata=kept) if "system" in self._takes else task
            )

    async def execute(self, job: Job, box: Toolbox | None) -> Any:
        try:
            substrate = self._substrate(job.task, box)
        except CannotStart as error:
            # Pause and do not fail: a program may be there later, or on another machine.
            await job.pause(job.state, reason=str(error))
        return await substrate.execute(job)

    async def on_killed(
        self, task: Task, box: Toolbox | None, state: Any, events: Sequence[Event]
    ) -> None:
        """Have the substrate end what the Task left running elsewhere, if it is `Cleaning`."""
        cleaning: Any = self._substrate(task, box)
        if hasattr(cleaning, "on_killed"):
            await cleaning.on_killed(task, state, events)

    async def close(self) -> None:
        """Close the substrates."""
        for substrate in self._substrates.values():
            await closed(substrate)

    @property
    def _takes(self) -> Any:
        return self._entry.takes

    @property
    def _system_key(self) -> str:
        return f"{self._name}/system"

    def _substrate(self, task: Task, box: Toolbox | None) -> Substrate:
        system = task.metadata.get(self._system_key) if "system" in self._takes else None
        system = system if isinstance(system, str) else None
        found = self._substrates.get((system, box))
        if found is None:
            if box is not None and "tools" not in self._takes:
                raise CannotStart(f"the runtime {self._name} takes no tools", task.id)
            allowed = Allowed(
                model=self._model,
                system=system,
                tools=() if box is None else box.tools(),
                policy=None if box is None else box.policy(),
                limits=LIMITS,
                middleware=self._middleware,
            )
            try:
                options = read_options(self._entry, self._options, "--option")
                found = self._entry.make(allowed, options)
            except Exception as error:
                raise _refused(self._name, task, error) from error
            if not callable(getattr(found, "execute", None)):
                raise CannotStart(
                    f"the runtime {self._name} makes an object of the type {type(found).__name__}, "
                    "which has no execute; its package must make a Substrate",
                    task.id,
                )
            self._substrates[system, box] = found
        return found


async def closed(part: Any) -> None:
    """Call the method ``close`` of a part, if it has one; it may be plain or async."""
    close = getattr(part, "close", None)
    ended = close() if callable(close) else None
    if inspect.isawaitable(ended):
        await ended


def _refused(name: str, task: Task, error: Exception) -> CannotStart:
    """The refusal for an exception of a package's ``make``."""
    if isinstance(error, CannotStart):
        return CannotStart(error.reason, task.id)
    said = str(error) if isinstance(error, KernelError) else f"{type(error).__name__}: {error}"
    return CannotStart(f"the runtime {name} cannot be made: {said}", task.id)
