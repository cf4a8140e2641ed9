"""Application: the Host of a person's own code, which ``--app MODULE:OBJECT`` names."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from agentic_kernel import CannotStart, InvalidValue, KernelError
from agentic_kernel_engine import Host, Store

from .naming import STATE_VARIABLE
from .place import Place
from .plain_runtime import PlainRuntime, is_runtime
from .text import command_line, label

WHERE: Final = "--app"
STORE: Final = "store"
"""The parameter by which a function takes the store that ``--state`` names."""


@dataclass
class Application:
    """The Host that an object of a module is or makes.

    The object is a `Host`, or a function that makes one: plain, async, or an async context manager.
    The function takes no argument, or only ``store``. Otherwise the Host brings its own store. A
    function with ``store`` may also make a Runtime that is no Host.
    """

    name: str
    """``MODULE:OBJECT``."""
    named: bool = True
    """True if the command line names it, so that proposed commands name it too."""
    kinds: frozenset[str] | None = None
    """The kinds that it serves, after it was opened; None for every kind."""
    known: bool = False
    """True after it was opened."""
    _object: Any = field(default=None, repr=False)

    def load(self) -> Any:
        """Import the object; the module may lie in the current folder.

        Raises:
            InvalidValue: There is no such module or object, or it cannot be imported.
        """
        if self._object is not None:
            return self._object
        module, mark, attribute = self.name.partition(":")
        if not module or not mark or not attribute:
            raise InvalidValue(
                WHERE, f"is {label(self.name, 80)}; use MODULE:OBJECT, e.g. my_agents:make"
            )
        if module.endswith(".py"):
            given = f"{module.removesuffix('.py').replace('/', '.')}:{attribute}"
            raise InvalidValue(
                WHERE, f"is {label(self.name, 80)}, with a file; use the module, {label(given, 80)}"
            )
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            found: Any = import_module(module)
        except (Exception, SystemExit) as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == module.split(".")[0]
            remedy = "; go to the folder that has it, or install it" if missing else ""
            raise InvalidValue(
                WHERE, f"{label(self.name, 80)} cannot be imported: {_told(error)}{remedy}"
            ) from error
        for part in attribute.split("."):
            try:
                found = getattr(found, part)
            except Exception as error:
                raise InvalidValue(
                    WHERE,
                    f"is {label(self.name, 80)}, and the module was imported, but has no "
                    f"{label(attribute, 80)}: {_told(error)}",
                ) from error
        self._object = found
        return found

    @property
    def takes_store(self) -> bool:
        """True if it is a function that takes the store of the command.

        Raises:
            InvalidValue: It is neither a Host nor a function that can be called here.
        """
        found = self.load()
        if isinstance(found, Host):
            return False
        if is_runtime(found) and not isinstance(found, type):
            self._plain(found, None)
        if not callable(found):
            raise self._wrong(found)
        if isinstance(found, type) and not _makes_host(found):
            raise InvalidValue(
                WHERE,
                f"{label(self.name, 80)} is a class, {found.__name__}, and no Host; name a "
                f"function that makes one, e.g. def make(store): return Host({found.__name__}(), "
                f"store, runtime_kinds=['{found.__name__.lower()}'])",
            )
        try:
            parameters = inspect.signature(found).parameters
        except (TypeError, ValueError):
            return False
        needed = [
            name
            for name, each in parameters.items()
            if name != STORE
            and each.default is each.empty
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        if needed:
            raise InvalidValue(
                WHERE,
                f"{label(self.name, 80)} needs the arguments {', '.join(needed)}; name a function "
                f"that takes none, or only {STORE}",
            )
        return STORE in parameters

    @asynccontextmanager
    async def opened(self, store: Store | None, *, last: bool) -> AsyncIterator[Host]:
        """Make the Host; it is closed at the end of the block.

        Args:
            store: For a function that takes it.
            last: True if nothing of this process uses the app after the block. A Host that is a
                module's object is closed only then.

        Raises:
            InvalidValue: It is no Host, or a Host without a substrate.
            CannotStart: The function raised.
        """
        found = self.load()
        if isinstance(found, Host):
            self._check(found)
            try:
                yield found
            finally:
                if last:
                    await found.close()
            return
        given = {STORE: store} if self.takes_store else {}
        try:
            made = found(**given)
            if inspect.isawaitable(made):
                made = await made
        except KernelError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        if is_runtime(made) and not isinstance(made, Host):
            made = self._plain(made, store)
        if isinstance(made, Host):
            self._check(made)
            try:
                yield made
            finally:
                await made.close()
        elif isinstance(made, AbstractAsyncContextManager):
            async with made as entered:
                if is_runtime(entered) and not isinstance(entered, Host):
                    entered = self._plain(entered, store)
                self._check(entered)
                yield entered
        else:
            raise self._wrong(made)

    def __str__(self) -> str:
        return f"the app {label(self.name, 80)}"

    def serves(self, kind: str) -> bool:
        """True if it serves this kind; only after it was opened."""
        return self.known and (self.kinds is None or kind in self.kinds)

    def _plain(self, runtime: Any, store: Store | None) -> Host:
        if store is None:
            raise InvalidValue(
                WHERE,
                f"{label(self.name, 80)} is a Runtime, whose store the command cannot see; name a "
                f"function with the parameter {STORE}, or a Host",
            )
        return PlainRuntime(runtime, store)

    def _check(self, host: object) -> None:
        if not isinstance(host, Host):
            raise self._wrong(host)
        if not host.runs_tasks:
            raise InvalidValue(
                WHERE,
                f"{label(self.name, 80)} is a Host without a substrate, which runs no Task; leave "
                "--app out, or give it a substrate",
            )
        self.kinds, self.known = host.runtime_kinds, True

    def _wrong(self, found: object) -> InvalidValue:
        return InvalidValue(
            WHERE,
            f"{label(self.name, 80)} is or makes an object of the type {type(found).__name__}; it "
            "must be a Host, such as OpenAIRuntime, or a function that makes one",
        )

    def _failed(self, error: Exception) -> CannotStart:
        return CannotStart(f"the app {label(self.name, 80)} cannot be made: {_told(error)}")


@dataclass(frozen=True)
class AppPlace:
    """A `Place` that the app chooses: its own store, or else the default folder."""

    lease: ClassVar[float] = 0.0

    app: Application
    default: Place

    def __str__(self) -> str:
        own = self.app.known and not self.app.takes_store
        return f"the store of {self.app.name}" if own else str(self.default)

    def command(self, *words: str) -> str:
        """See `Place`."""
        return self.default.command(*words)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """Open the store; nothing runs meanwhile."""
        if self.app.takes_store:
            async with self.default.opened() as store:
                yield store
            return
        async with self.app.opened(None, last=False) as host:
            yield host.store


def check_place(app: Application, place: Place) -> None:
    """Refuse a place beside the app's own store.

    Raises:
        InvalidValue: The app has a store of its own and a place is named, or the app cannot be
            used.
    """
    if not isinstance(place, AppPlace) and not app.takes_store:
        raise InvalidValue(
            WHERE,
            f"{label(app.name, 80)} has a store of its own, so it cannot use "
            f"{label(str(place))}; leave --state out (and {STATE_VARIABLE}, and state in the "
            "settings), or let the function take the parameter store",
        )


@dataclass(frozen=True)
class Ways:
    """Proposes commands that find the app: they name it if the command line named it.

    Args:
        folder: The folder of the settings, if they name the app.
    """

    place: Place
    app: Application
    folder: Path

    def command(self, *words: str) -> str:
        """The command line with these words, ready to paste into a shell."""
        named = [WHERE, self.app.name] if self.app.named else []
        return self.place.command(*named, *words)

    def app_command(self, *words: str) -> str:
        """The same for a Task that the app runs.

        It goes to the folder of the settings first, because in another one the command has no app.
        """
        line = self.command(*words)
        return line if self.app.named else f"{command_line(['cd', str(self.folder)])} && {line}"


def _makes_host(found: type) -> bool:
    """True if an object of this class is a Host or a Runtime, or may hand one out."""
    return issubclass(found, (Host, AbstractAsyncContextManager)) or is_runtime(found)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
