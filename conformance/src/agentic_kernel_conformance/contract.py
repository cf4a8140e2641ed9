"""Contract: what every contract class of the kit shares, and the guard that keeps it whole."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from .features import Features
from .level import Level
from .rules import broken
from .trials import Trials

_PACKAGE = __name__.partition(".")[0]
_OPEN = frozenset({"features", "patience", "fixtures", "contract"})


class Contract:
    """The root of the contract classes; subclass one of those, not this one.

    A subclass declares ``features`` and supplies the fixtures named in `fixtures`. It overrides
    nothing else; a contract test that is known not to hold is overridden with
    ``@pytest.mark.xfail(reason=...)``, and then counts as excused, not as passed.
    """

    contract: ClassVar[str] = ""
    """The name of the contract, in reports."""
    features: ClassVar[Features] = Features()
    """What the implementation declares that it can do."""
    patience: ClassVar[float] = 20.0
    """Seconds after which something that must happen in finite time is taken not to happen.

    A test that hangs elsewhere fails with its rule after ten times as long (a random test: without
    another trial), and the run is interrupted if the fixtures then do not end in as long.
    """
    fixtures: ClassVar[frozenset[str]] = frozenset()
    """The fixtures that the implementation supplies, the optional ones included."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A mark of their own, so that the tests run whatever the project's asyncio mode is.
        for name, value in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(value):
                setattr(cls, name, pytest.mark.asyncio(value))

    @pytest.fixture
    def level(self, conformance_level: Level) -> Level:
        """How hard to try."""
        return conformance_level

    @pytest.fixture
    def trials(self, conformance_trials: Trials) -> Trials:
        """The seeds that a random test draws."""
        return conformance_trials

    @pytest.mark.rule("kit")
    def test_nothing_is_overridden(self) -> None:
        """The contract's tests run as they are, or are excused with a reason."""
        found = sorted(overridden(type(self)))
        if found:
            raise broken(
                "kit",
                f"{type(self).__name__} replaces {', '.join(found)}; supply fixtures only, or mark "
                "the override of a test with pytest.mark.xfail(reason=...)",
            )


def overridden(cls: type) -> Iterator[str]:
    """The names of the kit that ``cls`` replaces or deletes without a reasoned xfail."""
    kit = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == _PACKAGE]
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
    """How ``cls`` keeps the guard from reporting, or "" if it does not."""
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
    """A fixture that the adapter has to supply; until it does, whatever asks for it fails.

    Args:
        name: The fixture.
        feature: The feature that needs it; None for what every adapter supplies.
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
