"""Invocation: the global options of one command, and the operations that commands share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import Host, Observer

from .codes import READER_GONE
from .database import Database, is_address, is_postgres
from .place import Folder, Place
from .settings import Settings
from .text import label

if TYPE_CHECKING:
    from .application import Application, Ways
    from .grants import Grant, Grants, LeftAlone
    from .running import Foreground
    from .stop import Stop
    from .streaming import Screen

T = TypeVar("T")


def place_of(state: str | None) -> Place:
    """The place that ``--state`` names: a folder or a URL; by default, the user's data folder.

    Raises:
        InvalidValue: ``state`` is empty, or is a URL that is not valid or has no store here.
        Unusable: The package that offers the store for the URL cannot be used.
    """
    if state is None:
        import platformdirs

        return Folder(Path(platformdirs.user_data_dir("agentic-kernel")))
    if not state:
        raise InvalidValue("--state", "is empty; name a folder or a URL, e.g. postgresql://…")
    if is_postgres(state):
        return Database(state)
    if state.lower().startswith("file:"):
        from agentic_kernel_file.entry import folder_of

        return Folder(folder_of(state), named=True)
    if is_address(state):
        from .address import Address

        return Address.of(state)
    return Folder(Path(state), named=True)


@dataclass(frozen=True)
class Invocation:
    """One call of the command, with its global options."""

    place: Place
    as_json: bool
    observers: tuple[str, ...] = ()
    """The observers that ``--observer`` names."""
    app: Application | None = None
    """The Host of the person's own code, by ``--app`` or by the settings."""
    settings: Settings = field(default_factory=Settings)

    @classmethod
    def of(
        cls, state: str | None, app: str | None, observers: Sequence[str], *, as_json: bool
    ) -> Invocation:
        """The invocation with these global options, and the settings of the current folder.

        Raises:
            InvalidValue: An option or a setting is not valid.
            Unusable: The package that offers the store cannot be used.
        """
        settings = Settings.of(Path.cwd())
        named, app = app is not None, settings.app if app is None else app
        given = state if state is not None else settings.state
        place = place_of(given)
        if state is None and isinstance(place, Folder):
            # A proposed command names it, and a person may paste that in another folder.
            place = replace(place, path=place.path.absolute())
        chosen: Application | None = None
        if app:
            from .application import Application, AppPlace

            chosen = Application(app, named=named)
            place = AppPlace(chosen, place) if given is None else place
        return cls(place, as_json, tuple(observers), chosen, settings)

    @property
    def ways(self) -> Place | Ways:
        """Proposes commands for the place and the app."""
        from .application import Ways

        return self.place if self.app is None else Ways(self.place, self.app, Path.cwd())

    def app_serves(self, kind: str) -> bool:
        """True if there is an app that serves Tasks of this kind; the app is opened once for this.

        Raises:
            InvalidValue: The app cannot be used, or has a store of its own beside ``--state``.
            CannotStart: The app cannot be made.
        """
        app = self.app
        if app is None:
            return False
        if not app.known:

            async def looking() -> None:
                async with self._opened(app, last=False):
                    pass

            asyncio.run(looking())
        return app.serves(kind)

    def run_app(self, work: Callable[[Foreground], Coroutine[Any, Any, int]]) -> int:
        """Run Tasks in this process on the app."""
        from .running import Foreground

        app = self.app
        assert app is not None

        def opened(observer: Observer, kinds: Collection[str]) -> AbstractAsyncContextManager[Host]:
            return self._opened(app, last=True)

        here = Foreground(
            self.screen, opened, self._last_words, app=app.name, observers=self.observers
        )
        return asyncio.run(work(here))

    @asynccontextmanager
    async def _opened(self, app: Application, *, last: bool) -> AsyncIterator[Host]:
        from .application import check_place

        check_place(app, self.place)
        if not app.takes_store:
            async with app.opened(None, last=last) as host:
                yield host
            return
        async with self.place.opened() as store, app.opened(store, last=last) as host:
            yield host

    def screen(self, stop: Stop) -> Screen:
        """Return the screen that shows Tasks; it requests a stop if the output is closed."""
        from .streaming import JsonScreen, TextScreen

        closed = partial(stop.wish, READER_GONE)
        return JsonScreen(closed) if self.as_json else TextScreen(self.ways, closed)

    def foreground(self, grants: Grants) -> Foreground:
        """Return the object that runs Tasks in this process, each with its grant."""
        from .agents import open_runtime
        from .running import Foreground

        return Foreground(
            self.screen,
            partial(open_runtime, self.place, grants, named=self.observers),
            self._last_words,
        )

    def _last_words(self, tasks: Sequence[Task]) -> str:
        from .proposals import last_words

        return last_words(self.ways, tasks)

    def run(self, grants: Grants, work: Callable[[Foreground], Coroutine[Any, Any, int]]) -> int:
        """Run Tasks in this process; a person at the terminal may accept tools of MCP servers.

        Raises:
            NotAccepted: There are tools that no person has accepted.
        """
        from .mcp_servers import NotAccepted

        try:
            return asyncio.run(work(self.foreground(grants)))
        except NotAccepted as refused:
            if not sys.stdin.isatty():
                raise
            for line in refused.lines():
                typer.echo(line, err=True)
            if not typer.confirm("Accept these tools?", err=True):
                raise
            refused.accept()
        return asyncio.run(work(self.foreground(grants)))

    def app_runs(self, task: Task) -> bool:
        """True if the app runs this stored Task: it serves the kind, and no other app started it.

        An app that the command line names may go on with the Task of another one.
        """
        from .origin import app_of

        if self.app is None:
            return False
        started = app_of(task)
        if started not in (None, self.app.name) and not self.app.named:
            return False
        return self.app_serves(task.runtime_kind)

    def check_app(self, task: Task) -> None:
        """Refuse a Task that only another app may run, before a person decides about it.

        Raises:
            LeftAlone: The Task names an app, and the app of this command does not run it.
        """
        from .origin import app_of, check_program

        if app_of(task) is not None and not self.app_runs(task):
            check_program(task)

    def permitted(self, task: Task, grant: Grant, *, named: bool = True) -> Grant:
        """Return what a stored Task may use: by the flags, or by a confirmation at the terminal.

        Args:
            named: True if the person named this Task. The command then asks the person about what
                the flags do not grant, and ``--model`` and ``--option`` may differ from those that
                the Task asks for.

        Raises:
            InvalidValue: ``--runtime`` names no runtime of this command.
            NotGranted: The Task asks for more than the flags grant, and no person confirms it.
            LeftAlone: An app has to run the Task, or the program of its Agent.
            CannotStart: The Task's metadata is malformed, or this command does not run its kind.
        """
        from .grants import NotGranted, Wish
        from .kinds import check_runtime
        from .origin import check_program
        from .running import check_served

        check_runtime(grant.runtime)
        check_program(task)  # It names the app, also if this command does not run the kind.
        check_served(task)
        wish = Wish.of(task)
        if grant.covers(wish) and (named or grant.matches(wish)):
            return grant
        if not (named and sys.stdin.isatty()):
            raise NotGranted(task.id, wish)
        for line in wish.lines():
            typer.echo(f"{label(task.id)} asks for {line}", err=True)
        if not typer.confirm("Grant it?", err=True):
            raise NotGranted(task.id, wish)
        return grant.confirmed(wish)

    def granted(self, task: Task, grant: Grant, *, again: Task | None = None) -> dict[str, Grant]:
        """Return what a Task that the person named may use, by its id.

        Args:
            again: The earlier Task if this one is new and does its work again.

        Raises:
            LeftAlone: Another program has to run the Task: an app, or one with other tools.
            As `permitted`.
        """
        from .origin import check_program

        stored = task if again is None else again
        check_program(stored)
        given = self.permitted(task, grant)
        for refusal in self.foreign([stored]):  # Last, because it reads the history.
            raise refusal
        return {task.id: given}

    def foreign(self, tasks: Sequence[Task]) -> list[LeftAlone]:
        """Return a refusal for each Task that another program has to run, as its history tells."""
        from .grants import LeftAlone
        from .origin import check_tools
        from .place import history

        async def checking(host: Host) -> list[LeftAlone]:
            found = []
            for task in tasks:
                try:
                    check_tools(task, await history(host, task.id))
                except LeftAlone as refusal:
                    found.append(refusal)
            return found

        return self.controlled(checking) if tasks else []

    def controlled(self, work: Callable[[Host], Awaitable[T]]) -> T:
        """Run ``work`` with a Host that has no substrate, so that no model is loaded.

        Raises:
            InvalidValue: The command line names an app with a store of its own, and another place.
                An app of the settings is not imported here.
        """
        if self.app is not None and self.app.named:
            from .application import check_place

            check_place(self.app, self.place)

        async def controlling() -> T:
            async with self.place.opened() as store:
                # Without `async with`, the Host joins its store, which is a write, only for a verb
                # that needs it.
                host = Host(store=store)
                try:
                    return await work(host)
                finally:
                    await host.close()

        return asyncio.run(controlling())

    def report(self, task: Task, outcome: str) -> None:
        """Print the outcome of an operation on a Task."""
        if self.as_json:
            from . import rendering

            rendering.task_line(task, outcome=outcome)
        else:
            typer.echo(f"{label(task.id)}: {outcome}")
