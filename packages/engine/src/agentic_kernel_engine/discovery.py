"""Discovery: installed packages offer runtimes, providers, stores and observers by entry points.

A package names one object for each part that it offers, in its own ``pyproject.toml``:

    [project.entry-points."agentic_kernel.runtimes"]
    shell = "acme_shell.entry:RUNTIME"

The name on the left is the name that people use, e.g. with ``--runtime``. The object on the right
is a `RuntimeEntry`, `ProviderEntry`, `StoreEntry` or `ObserverEntry`.

`found` reads the metadata of the installed packages and imports none of them. `load` imports the
module of one entry. So keep that module, and the ``__init__`` of its package, free of imports that
take long: import a vendor's SDK inside ``make`` or ``open``, or later.

A package that cannot be used hides no other package: `found` returns it with its problem.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from agentic_kernel import InvalidValue, KernelError

from .checks import Check
from .faults import said

if TYPE_CHECKING:
    from .observer import Observer
    from .plans.limits import Limits
    from .providers.provider_planner import ProviderPlanner
    from .seams.policy import Policy
    from .store import Store
    from .substrate import Substrate
    from .tools.tool import Tool

OptionsT = TypeVar("OptionsT")
RUNTIMES: Final = "agentic_kernel.runtimes"
"""The group of `RuntimeEntry` objects."""
PROVIDERS: Final = "agentic_kernel.providers"
"""The group of `ProviderEntry` objects."""
STORES: Final = "agentic_kernel.stores"
"""The group of `StoreEntry` objects; the name is the scheme of the store's URLs."""
OBSERVERS: Final = "agentic_kernel.observers"
"""The group of `ObserverEntry` objects."""
Takes = Literal["model", "tools", "system", "max_tokens", "session"]
"""A thing that a person can give with a Task, beside its text."""
TAKES: Final[frozenset[str]] = frozenset(get_args(Takes))
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{1,39}")
_REASON: Final = 300
"""The most characters of a foreign exception that a message repeats."""


@dataclass(frozen=True)
class NoOptions:
    """The options of an entry that has none."""


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """The things that the person who runs Tasks lets a runtime use.

    They come from a command line or a program, never from a stored Task.
    """

    model: str | None = None
    """The name of the model; None for the runtime's own default."""
    system: str | None = None
    """The system prompt."""
    tools: Sequence[Tool] = ()
    policy: Policy | None = None
    """Decides about each call of a tool."""
    limits: Limits | None = None
    middleware: Sequence[Any] = ()
    """The last middlewares of a Loop."""


Checks = Callable[[], Awaitable[Sequence[Check]]]


@dataclass(frozen=True, kw_only=True)
class _Offered(Generic[OptionsT]):
    """The parts that every entry has."""

    _maker: ClassVar[str] = "make"
    """The name of the field that makes the object."""
    options: type[OptionsT]
    """A dataclass; see `read_options`. `NoOptions` for none."""
    checks: Checks | None = None
    """Checks that this machine has what the entry needs; they must not spend money."""
    summary: str = ""
    """One line for people."""

    def __post_init__(self) -> None:
        if not callable(getattr(self, self._maker)):
            raise InvalidValue(self._maker, "must be a function")
        if self.checks is not None and not callable(self.checks):
            raise InvalidValue("checks", "must be an async function without arguments, or None")
        if not isinstance(self.options, type) or not dataclasses.is_dataclass(self.options):
            raise InvalidValue("options", "must be a dataclass, e.g. NoOptions")
        for name, hint in get_type_hints(self.options).items():
            if not _typed(hint):
                raise InvalidValue(
                    f"options.{name}", f"is a {hint}; use str, int, float, bool or a Literal"
                )


@dataclass(frozen=True, kw_only=True)
class RuntimeEntry(_Offered[OptionsT]):
    """A runtime: makes the `Substrate` that works on Tasks of the kind with the entry's name."""

    make: Callable[[Allowed, OptionsT], Substrate]
    """Makes the substrate. If it has a method ``close``, plain or async, it is called at the end.
    It may raise `CannotStart` with the remedy, for example if a program is missing."""
    takes: Collection[Takes] = frozenset()
    """The things that it takes; the others are refused before a Task is stored."""
    limits: Collection[str] = ()
    """The names of the fields of `Limits` that its substrate keeps; see `Limiting`."""
    reads: Collection[str] = ()
    """The forms of states that its substrate reads; see `Reading`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for each in self.takes:
            if each not in TAKES:
                raise InvalidValue("takes", f"has {each!r}; use {', '.join(sorted(TAKES))}")


@dataclass(frozen=True, kw_only=True)
class ProviderEntry(_Offered[OptionsT]):
    """A provider: makes the planner that asks its models. The Loop around it takes everything."""

    make: Callable[[str, OptionsT], ProviderPlanner]
    """Makes the planner of a model. The planner's ``impl`` is the name of the entry."""


@dataclass(frozen=True, kw_only=True)
class StoreEntry(_Offered[OptionsT]):
    """A store at a URL whose scheme is the name of the entry.

    Its ``options`` are the parameters after the ``?`` of the URL.
    """

    _maker = "open"
    open: Callable[[str, OptionsT], AbstractAsyncContextManager[Store]]
    """Opens the store at a URL; leaving the block closes it. It may raise `StoreError`."""
    secret: Collection[str] = ()
    """The parameters that are never shown. The password in a URL is never shown either."""
    lease: float = 0.0
    """Seconds for which a process that died may still count as alive."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.lease < math.inf:
            raise InvalidValue("lease", f"is {self.lease!r}; give seconds, 0 or more")


@dataclass(frozen=True, kw_only=True)
class ObserverEntry(_Offered[OptionsT]):
    """An observer of the Tasks that a process runs."""

    make: Callable[[OptionsT], Observer]
    """Makes the observer. If it has a method ``close``, plain or async, it is called at the end."""


Entry = RuntimeEntry[Any] | ProviderEntry[Any] | StoreEntry[Any] | ObserverEntry[Any]
_TYPES: Final[Mapping[str, type[Any]]] = {
    RUNTIMES: RuntimeEntry,
    PROVIDERS: ProviderEntry,
    STORES: StoreEntry,
    OBSERVERS: ObserverEntry,
}


class Unusable(KernelError):
    """Error for an entry that an installed package offers and that cannot be used.

    Attributes:
        name: The name of the entry.
        reason: The cause and the remedy.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(name, reason)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Found:
    """An entry as the metadata of its package tells of it; nothing of it is imported."""

    name: str
    group: str
    distribution: str
    """The name of the package."""
    version: str
    target: str
    """The object, such as ``acme_shell.entry:RUNTIME``."""
    problem: str = ""
    """The reason why it cannot be used, with the remedy; empty if nothing is known against it."""
    point: EntryPoint | None = field(default=None, repr=False, compare=False)

    def load(self) -> Entry:
        """Import the module and return the entry.

        Raises:
            Unusable: It has a problem, cannot be imported, or is no entry of its group.
        """
        if self.problem or self.point is None:
            raise Unusable(self.name, self.problem or "has no object")
        whose = f"{self.distribution} {self.version} offers it as {self.target}"
        try:
            entry = self.point.load()
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {said(error)[:_REASON]}"
            raise Unusable(
                self.name, f"{whose}, which cannot be loaded: {why}; repair or uninstall it"
            ) from error
        wanted = _TYPES[self.group]
        if not isinstance(entry, wanted):
            raise Unusable(
                self.name,
                f"{whose}, which is of the type {type(entry).__name__}; the group {self.group} "
                f"takes {wanted.__name__}",
            )
        return cast(Entry, entry)


def found(*groups: str) -> Mapping[str, Found]:
    """The entries of these groups by name, in the order of names.

    A name that is not valid, or that more than one package offers, comes with its problem. So does
    a package whose list of entry points cannot be read.
    """
    offered: dict[str, list[Found]] = {}
    for each in _listed(groups):
        offered.setdefault(each.name, []).append(each)
    return {name: _one(offered[name]) for name in sorted(offered)}


def find(name: str, *groups: str) -> Entry | None:
    """Load the entry with this name; None if no installed package offers it.

    Raises:
        Unusable: A package offers it, and it cannot be used.
    """
    there = found(*groups).get(name)
    return None if there is None else there.load()


def _listed(groups: Collection[str]) -> Iterable[Found]:
    try:
        points = [(each, each.dist) for group in groups for each in entry_points(group=group)]
    except Exception:  # One package has a list that cannot be read; the others count.
        points = []
        for name, distribution in _distributions().items():
            try:
                points += [
                    (each, distribution)
                    for each in distribution.entry_points
                    if each.group in groups
                ]
            except Exception as error:
                yield Found(
                    f"the package {name}", "", *_named(distribution), "entry_points.txt",
                    f"its list of entry points cannot be read: {said(error)[:_REASON]}; install "
                    "it again, or uninstall it",
                )  # fmt: skip
    for point, whose in points:
        yield Found(point.name, point.group, *_named(whose), point.value, _wrong(point), point)


def _distributions() -> Mapping[str, Distribution]:
    """The installed packages by name; the first on the path hides the others, as in an import."""
    there: dict[str, Distribution] = {}
    for each in distributions():
        there.setdefault(re.sub(r"[-_.]+", "-", _named(each)[0]).lower(), each)
    return there


def _named(distribution: Distribution | None) -> tuple[str, str]:
    """The name and the version of a package; ``?`` for what cannot be read."""
    if distribution is None:
        return "?", "?"
    try:
        return str(distribution.metadata["Name"]), str(distribution.version)
    except Exception:
        return "?", "?"


def _wrong(point: EntryPoint) -> str:
    pattern, form = (
        (_SCHEME, "2 to 40 of a-z 0-9 + . -")
        if point.group == STORES
        else (_NAME, "1 to 40 of a-z 0-9 _ -")
    )
    if pattern.fullmatch(point.name):
        return ""
    return f"its name is {ascii(point.name)[:60]}; a name is {form}, and begins with a letter"


def _one(offers: Sequence[Found]) -> Found:
    first, *others = offers
    if not others:
        return first
    whose = " and ".join(sorted(f"{each.distribution} {each.version}" for each in offers))
    return dataclasses.replace(
        first, problem=f"{whose} both offer {first.name!r}; uninstall all but one", point=None
    )


@dataclass(frozen=True)
class Option:
    """An option of an entry, as people see it."""

    name: str
    type: str
    """Its type in words, such as ``number`` or ``responses|chat``."""
    default: str | None
    """Its default as text; None if it must be given."""

    def __str__(self) -> str:
        return f"{self.name}={self.type}" + ("" if self.default is None else f" ({self.default})")


def options_of(entry: Entry) -> Sequence[Option]:
    """The options of an entry."""
    hints = get_type_hints(entry.options)
    return [
        Option(each.name, _typed(hints[each.name]), _default(each))
        for each in dataclasses.fields(entry.options)
        if each.init
    ]


def read_options(entry: Entry, given: Iterable[tuple[str, str]], where: str) -> Any:
    """Return the options of an entry, made from texts.

    The fields of the dataclass are of the types str, int, float, bool, a Literal of them, or one of
    these or None. A number is finite. ``__post_init__`` may check more and raise ValueError.

    Args:
        given: Names and values.
        where: The name of the option of the command, for an error.

    Raises:
        InvalidValue: A name is unknown, missing or given twice, or a value has another type.
    """
    known = options_of(entry)
    names = {each.name for each in known}
    values: dict[str, str] = {}
    for name, text in given:
        if name not in names:
            have = f"it has {', '.join(map(str, known))}" if known else "it has none"
            raise InvalidValue(where, f"{ascii(name)[:60]} is no option; {have}")
        if name in values:
            raise InvalidValue(where, f"{name} is given twice; give it once")
        values[name] = text
    lacking = [each for each in known if each.default is None and each.name not in values]
    if lacking:
        raise InvalidValue(
            where,
            f"{', '.join(each.name for each in lacking)} must be given; the options are "
            f"{', '.join(map(str, known))}",
        )
    try:
        made = msgspec.convert(values, entry.options, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidValue(
            where, f"{_unfit(error, known, values)}; the options are {', '.join(map(str, known))}"
        ) from None
    for name in values:
        number = getattr(made, name, None)
        if isinstance(number, float) and not math.isfinite(number):
            raise InvalidValue(where, f"{name} is {number}; give a finite number")
    return made


def _unfit(error: Exception, known: Sequence[Option], values: Mapping[str, str]) -> str:
    """The reason of a refusal; the type of an option in the words of `Option`."""
    for each in known:
        if str(error).endswith(f" - at `$.{each.name}`"):
            wanted = f"one of {each.type}" if "|" in each.type else f"a {each.type}"
            return f"{each.name} must be {wanted}, not {ascii(values[each.name])[:60]}"
    return str(error)  # The sentence of a check in `__post_init__`.


_WORDS: Final[Mapping[Any, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true|false",
}


def _typed(hint: Any) -> str:
    """A type in words; empty if an option cannot have it."""
    if get_origin(hint) is Literal:
        return "|".join(str(each) for each in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        parts = [_typed(each) for each in get_args(hint) if each is not NoneType]
        return "|".join(parts) if all(parts) else ""
    return _WORDS.get(hint, "")


def _default(each: dataclasses.Field[Any]) -> str | None:
    if each.default is not dataclasses.MISSING:
        return str(each.default)
    return None if each.default_factory is dataclasses.MISSING else str(each.default_factory())
