"""ReadyRuntime: a Host of one kind of Tasks, which also takes plain text."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypedDict, TypeVar, Unpack, overload

from agentic_kernel import InvalidValue, Task, TaskStatus

from .. import edges
from ..errors import HostClosed
from ..host.host import Host
from ..inputs import OUTPUT_SCHEMA
from ..plans.limits import Limits
from ..plans.vocabulary import PLAN_MADE
from ..principal import Principal
from ..texts import NewText, summary_of
from ..tools.output_type import OutputType
from ..tools.tool import Tool
from ..tools.tool import tool as make_tool
from .done import Done
from .own_loop import OwnLoop

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any] | Tool)

_making: Final = threading.Lock()
"""Held while a runtime gets or loses the event loop of `run_sync`."""


class RunOptions(TypedDict, total=False):
    """The keyword arguments of `ReadyRuntime.run` for a Task and a text; see there."""

    principal: Principal | None
    limits: Limits | Mapping[str, Any] | None
    should_cancel: Callable[[], bool] | None


class TextOptions(RunOptions, total=False):
    """The keyword arguments of `ReadyRuntime.run` for a text, beside the type; see there."""

    agent_name: str | None
    metadata: Mapping[str, Any] | None


class ReadyRuntime(Host):
    """A Host of one kind of Tasks whose verbs take a text where `Host` takes a Task."""

    _output_type: OutputType[Any] | None = None
    """The type of the results of all Tasks that carry none; None for JSON."""
    _own_loop: OwnLoop | None = None
    """The event loop of `run_sync`; None before its first call, and after `close_sync`."""

    @property
    def runtime_kind(self) -> str:
        """The kind of the Tasks that it serves."""
        kind = self._only_kind()
        assert kind is not None
        return kind

    def task(
        self,
        text: str,
        *,
        output_type: type[Any] | None = None,
        agent_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> Task:
        """A Task of this runtime's kind; its summary is the beginning of the text.

        Args:
            text: The instructions.
            output_type: The type whose JSON Schema the result must fit. The Task carries the
                schema, so it holds in every process that works on the Task.
            agent_name, metadata, id: See `Task.new`.

        Raises:
            InvalidValue: The text is not a string, or the type has no JSON form.
        """
        wanted = None if output_type is None else OutputType(output_type)
        return self._task(text, wanted, agent_name, metadata, id)

    @overload
    async def run(self, task: Task, **options: Unpack[RunOptions]) -> Task: ...
    @overload
    async def run(
        self, task: str, *, output_type: type[T], **options: Unpack[TextOptions]
    ) -> Done[T]: ...
    @overload
    async def run(self, task: str, **options: Unpack[TextOptions]) -> Done[Any]: ...
    async def run(
        self,
        task: Task | str,
        *,
        output_type: type[Any] | None = None,
        agent_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        should_cancel: Callable[[], bool] | None = None,
    ) -> Task | Done[Any]:
        """Run a Task to its end, or a text as a Task; see `Host.run`.

        Args:
            task: A Task, or the instructions of a new one.
            output_type: For a text: the type of the result, a pydantic model, a dataclass, a
                TypedDict or another type with a JSON form. An answer that does not become a value
                of the type goes back to the model, with the reason, within the limits. ``str`` asks
                for text. None for the type of the runtime.
            agent_name, metadata: For a text: see `Task.new`.
            principal, limits, should_cancel: See `Host.run`.

        Returns:
            The terminal snapshot of a Task; for a text, `Done` with the snapshot and the typed
            result.

        Raises:
            InvalidValue: An argument is not valid, or belongs to a text and came with a Task; or
                the result is not of the type, because another process accepted it by its schema
                alone.
            RuntimeError: `run_sync` was called before, which has an event loop of its own.
            TaskExists, IllegalTransition, CannotStart: As `Host.run`.
        """
        self._check_loop()
        if isinstance(task, Task):
            _only_for_texts(output_type=output_type, agent_name=agent_name, metadata=metadata)
            return await super().run(
                task, principal=principal, limits=limits, should_cancel=should_cancel
            )
        wanted = None if output_type is None else OutputType(output_type)
        made = self._task(task, wanted, agent_name, metadata)
        if wanted is not None:
            self._expect(made.id, wanted)
        try:
            ended = await super().run(
                made, principal=principal, limits=limits, should_cancel=should_cancel
            )
        finally:
            if wanted is not None:
                self._expect(made.id, None)
        return self._done(ended, wanted)

    @overload
    def run_sync(self, task: Task, **options: Unpack[RunOptions]) -> Task: ...
    @overload
    def run_sync(
        self, task: str, *, output_type: type[T], **options: Unpack[TextOptions]
    ) -> Done[T]: ...
    @overload
    def run_sync(self, task: str, **options: Unpack[TextOptions]) -> Done[Any]: ...
    def run_sync(self, task: Any, **options: Any) -> Any:
        """`run` for a program without an event loop; the arguments and errors are the same.

        The runtime gets an event loop of its own, which works only during calls. Threads share it:
        calls of several threads run at the same time, in the thread that called first, and then in
        another that still waits. `close_sync`, or the end of the process, closes both. On Ctrl-C a
        Task goes on to its next safe point when the runtime is closed; a durable store keeps it for
        the next process. The same holds for a Task that the runtime took over from a dead process:
        it stays ``running`` and claimable.

        Raises:
            RuntimeError: This thread has a running event loop; await `run` instead.
            HostClosed: Another thread closed the runtime meanwhile.
        """
        _check_no_loop("run")
        with _making:
            if self._own_loop is None:
                self._own_loop = OwnLoop(self)
            own = self._own_loop
        return own.run(self.run(task, **options))

    def _check_loop(self) -> None:
        if self._own_loop is not None and not self._own_loop.runs_here:
            raise RuntimeError(
                "this runtime belongs to the event loop of run_sync(); make another runtime for "
                "this event loop"
            )

    def close_sync(self) -> None:
        """`close` for a program without an event loop. A second call does nothing.

        The calls of other threads end: with the results of the runs that end within the grace, and
        else with `HostClosed`.

        Raises:
            RuntimeError: This thread has a running event loop, so await `close` instead. Or a tool
                of this runtime calls it; the call of that tool could then never end.
        """
        _check_no_loop("close")
        own = self._own_loop
        if own is None:
            return
        with suppress(HostClosed):  # Another thread closed it.
            own.close(self)
        with _making:
            if self._own_loop is own:
                self._own_loop = None

    def __del__(self) -> None:
        """Close the loop of `run_sync`; see `close_sync` for an orderly end."""
        if self._own_loop is not None:
            self._own_loop.drop()

    async def stream_text(
        self,
        text: str,
        *,
        agent_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        principal: Principal | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str]:
        """The text of the model as it comes, and at last the failure if the Task has one.

        If an answer breaks off and the model begins again, the text that repeats is left out; if
        the new text differs, it comes whole, after a line break. A new text that is shorter comes
        when it ends. A text that no piece has told, such as that of a planner which does not
        stream, comes at the end of its turn. Use `run_stream` and `Texts` where text that was shown
        can be replaced. A reader that stops reading leaves the Task running.

        Raises:
            TaskFailed: As `Done.unwrap`, after the last piece.
            InvalidValue, TaskExists, IllegalTransition, CannotStart: As `run`, before the first
                piece.
        """
        self._check_loop()
        made = self._task(text, None, agent_name, metadata)
        new, planned = NewText(), False
        async for event in self.run_stream(made, principal=principal, limits=limits):
            if event.type == PLAN_MADE:
                planned, piece = True, _rest(new, event.data)
            else:
                piece = new.take(event)
            if piece:
                yield piece
        result = self._done(await self.get(made.id), None).unwrap()
        # A substrate without plans tells its texts by their pieces and by the result.
        if not planned and isinstance(result, str) and (piece := new.rest("", result)):
            yield piece

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(self, /, **declared: Any) -> Callable[[Function], Function]: ...
    def tool(self, function: Any = None, /, **declared: Any) -> Any:
        """Let the model call a function; use it as a decorator.

        Runs that are under way do not see it. A Task that another process takes up has the tools of
        that process.

        Args:
            function: A typed function or a `Tool`; left out if the decorator is given options.
            **declared: As for `agentic_kernel_engine.tool`.

        Returns:
            The function itself.

        Raises:
            InvalidValue: The function cannot become a tool, its name is taken, or the runtime has a
                registry of its own or takes tools only when it is made.
        """
        if function is None:
            return lambda given: self.tool(given, **declared)
        if isinstance(function, Tool) and declared:
            raise InvalidValue("tool", "is a Tool, which is declared already; give the function")
        made = function if isinstance(function, Tool) else make_tool(function, **declared)
        self._add_tool(made)
        return function

    def _add_tool(self, made: Tool) -> None:
        raise InvalidValue(
            "tool",
            f"cannot be added to the runtime {self.runtime_kind!r}; give it to the constructor, if "
            "that takes tools",
        )

    def _expect(self, task_id: str, wanted: OutputType[Any] | None) -> None:
        """Hold the answers of a Task to a type beside its schema; None for the schema alone."""

    def _answer(self, task: Task) -> Any:
        """The answer in the result of a Task that succeeded."""
        return task.result

    def _task(
        self,
        text: str,
        wanted: OutputType[Any] | None,
        agent_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> Task:
        if not isinstance(text, str):
            raise InvalidValue("task", f"is {edges.came(text)}; give a Task, or its text")
        edges.text(text, "text")
        if wanted is not None:
            metadata = {**(metadata or {}), OUTPUT_SCHEMA: wanted.schema}
        return Task.new(
            summary=summary_of(text), instructions=text, runtime_kind=self.runtime_kind,
            agent_name=agent_name, metadata=metadata, id=id,
        )  # fmt: skip

    def _done(self, task: Task, wanted: OutputType[Any] | None) -> Done[Any]:
        if task.status is not TaskStatus.SUCCESS:
            return Done(task, None)
        answer, wanted = self._answer(task), wanted or self._output_type
        return Done(task, answer if wanted is None else wanted.of(answer))


def _rest(new: NewText, plan: Mapping[str, Any]) -> str:
    """Return the text of a plan that no piece has told."""
    text = plan.get("text", "")
    actions = plan.get("actions", ())
    answers = [each.get("output") for each in actions if each.get("type") == "final_answer"]
    return new.rest(text, "".join(each for each in answers if isinstance(each, str)))


def _check_no_loop(verb: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"this thread has a running event loop; await {verb}() instead")


def _only_for_texts(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidValue(name, "belongs to a text; a Task has its own, see ReadyRuntime.task")
