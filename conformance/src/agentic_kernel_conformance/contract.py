"""Contract: the base of every contract class of the kit, and the guard against overriding."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pytest

from .features import Features
from .level import Level
from .rules import broken
from .trials import Trials

_PACKAGE = __name__.partition(".")[0]
_OPEN = frozenset({"features", "patience", "fixtures", "contract", "unproven", "sources"})


@dataclass(frozen=True, slots=True)
class Unproven:
    """Something that a contract does not prove about an implementation; the report says it.

    Args:
        rule: The rule that it is a part of.
        text: One sentence that says what is not proven.
        unless: The feature whose tests prove it; empty if no test of the contract does.
    """

    rule: str
    text: str
    unless: str = ""


class _Documented:
    """The docstring of a contract class with the fixtures of its adapters, made when it is read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type) -> str:
        from .described import help_text

        return f"{inspect.cleandoc(self._text)}\n\n{help_text(owner)}"


class Contract:
    """The root of the contract classes; subclass one of them, not this class.

    A subclass declares ``features``, may set ``patience``, and supplies the fixtures named in
    `fixtures`. It must override nothing else. If the implementation is known to fail a contract
    test, the subclass overrides that test with ``@pytest.mark.xfail(reason=...)``; the report
    counts the test as excused, not as passed.
    """

    contract: ClassVar[str] = ""
    """The name of the contract, in reports."""
    features: ClassVar[Features] = Features()
    """The features that the implementation declares."""
    patience: ClassVar[float] = 20.0
    """Seconds to wait for anything that must happen in finite time.

    A test that hangs elsewhere fails with its rule after ten times as long (at the level ``full``:
    200 times). For a random test this time begins again with each trial. If its fixtures then do
    not end within the same time, the run is interrupted.
    """
    fixtures: ClassVar[frozenset[str]] = frozenset()
    """The names of the fixtures that the implementation supplies, optional ones included."""
    unproven: ClassVar[tuple[Unproven, ...]] = ()
    """Properties that the tests of this class do not prove. Each contract class adds its own."""
    sources: ClassVar[tuple[str, ...]] = ()
    """More import packages of the implementation, such as ``("acme_store",)``. The report has a
    digest of their files, and of the packages that the module of the subclass imports or names."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0] == _PACKAGE and "contract" in vars(cls):
            cls.__doc__ = cast(str, _Documented(cls.__doc__ or ""))
        # Mark each coroutine test, so that it runs in every asyncio mode of the project.
        # A contract may have tests in classes that are no contract themselves.
        for owner in cls.__mro__:
            for name, value in list(vars(owner).items()):
                if name.startswith("test_") and inspect.iscoroutinefunction(value):
                    marks = getattr(value, "pytestmark", ())
                    if all(mark.name != "asyncio" for mark in marks):
                        setattr(owner, name, pytest.mark.asyncio(value))

    @pytest.fixture
    def level(self, conformance_level: Level) -> Level:
        """The level: the sizes of the contract's exercises."""
        return conformance_level

    @pytest.fixture
    def trials(self, conformance_trials: Trials) -> Trials:
        """The seeds that a random test draws."""
        return conformance_trials

    @pytest.mark.rule("kit")
    def test_nothing_is_overridden(self) -> None:
        """A contract test may be overridden only by an xfail with a reason."""
        found = sorted(overridden(type(self)))
        if found:
            raise broken(
                "kit",
                f"{type(self).__name__} replaces {', '.join(found)}; supply fixtures only, or mark "
                "the override of a test with pytest.mark.xfail(reason=...)",
            )


def in_the_kit(cls: type) -> bool:
    """True if a class is defined by the kit, and not by the author of an implementation."""
    return cls.__module__.partition(".")[0] == _PACKAGE


def overridden(cls: type) -> Iterator[str]:
    """Yield the kit's names that ``cls`` replaces or deletes without an xfail with a reason."""
    kit = [base for base in cls.__mro__ if in_the_kit(base)]
    theirs = {name for base in kit for name in getattr(base, "fixtures", ())}
    names = {name for base in kit if issubclass(base, Contract) for name in vars(base)}
    for name in names - theirs - _OPEN:
        if name.startswith("__"):
            continue
        ours = next(vars(base)[name] for base in kit if name in vars(base))
        found = inspect.getattr_static(cls, name)
        if found is not ours and not (name.startswith("test_") and _excused(found)):
            yield name


def disarmed(cls: type[Contract]) -> str:
    """Return how ``cls`` disables the guard against overriding, or "" if it does not."""
    if cls.test_nothing_is_overridden is not Contract.test_nothing_is_overridden:
        return "replaces test_nothing_is_overridden, which guards the contract"
    marks = getattr(cls, "pytestmark", [])
    if any(mark.name == "xfail" for mark in (marks if isinstance(marks, list) else [marks])):
        return "excuses every test by a class-wide xfail; excuse single tests, with a reason"
    return ""


def _excused(test: object) -> bool:
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "xfail"]
    return any(str(mark.kwargs.get("reason", "")).strip() for mark in marks)


def supplied(name: str, feature: str | None = None) -> Any:
    """Return a placeholder for a fixture of the adapter; each test that requests it fails.

    Args:
        name: The name of the fixture that the adapter must supply.
        feature: The feature that needs the fixture; None if every adapter must supply it.
    """

    def fixture(self: Contract) -> Any:
        cls = type(self).__name__
        if feature is None:
            text = f"{cls} has no `{name}` fixture; supply it in the class"
        else:
            text = (
                f"{cls} declares {feature}=True and has no `{name}` fixture; supply it, "
                f"or declare {feature}=False"
            )
        pytest.fail(text, pytrace=False)

    return pytest.fixture(name=name)(fixture)


def copied(value: Any, name: str, owner: object) -> Any:
    """Return a deep copy, for a fixture ``another`` that the adapter does not supply."""
    try:
        return copy.deepcopy(value)
    except Exception as error:
        cls = type(owner).__name__
        pytest.fail(
            f"`{name}` of {cls} cannot be copied: {error!r:.200}; supply the fixture `another`: a "
            f"second one, made as `{name}` is made",
            pytrace=False,
        )
