"""Fixtures of an adapter: the modules of what they make, and those that cannot be made.

A fixture that cannot be made is one failure, and no further test that needs it runs.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from .contract import Contract
from .imported import home, object_named
from .substrate_factory import SubstrateFactory

UNUSABLE = "fixture unusable: "


@dataclass(slots=True, eq=False)
class UnusableFixtures:
    """A pytest plugin: watches the fixtures that an adapter supplies.

    A fixture is unusable if it raises before it was ever made for its class. The test that meets
    this first fails with the error of the fixture. The later tests of the class that request the
    fixture are not run.
    """

    made: set[tuple[type, str]] = field(default_factory=set)
    failed: dict[tuple[type, str], str] = field(default_factory=dict)
    """The error of each unusable fixture."""
    named: dict[type, set[str]] = field(default_factory=dict)
    """The modules of the values that each class's fixtures made, or that the values name."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Record if a fixture that the adapter supplies was made."""
        cls = request.cls if request.scope in ("function", "class") else None
        if cls is None or not issubclass(cls, Contract) or fixturedef.argname not in cls.fixtures:
            return (yield)
        key = (cls, fixturedef.argname)
        try:
            made = yield
        except pytest.skip.Exception:
            raise
        except (Exception, pytest.fail.Exception) as error:
            if key not in self.made:
                self.failed.setdefault(key, f"{type(error).__name__}: {error}".partition("\n")[0])
            raise
        self.made.add(key)
        path = made.path if isinstance(made, SubstrateFactory) else made
        found = object_named(path) if isinstance(path, str) else [home(made)]
        self.named.setdefault(cls, set()).update(found)
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test that requests a fixture of its class that cannot be made."""
        cls = getattr(item, "cls", None)
        if not isinstance(cls, type):
            return
        for name in getattr(item, "fixturenames", ()):
            if error := self.failed.get((cls, name)):
                pytest.skip(f"{UNUSABLE}`{name}` of {cls.__name__}: {error}")
