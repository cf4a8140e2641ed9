"""FaultyAdapter: what an adapter says of the faulty implementation that it is for."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar


class FaultyAdapter:
    """Only the tests of the rule that is broken are run on it."""

    faulty: ClassVar[Any]
    """Its class."""
    breaks: ClassVar[str]
    """The rule that it is named for."""
    reported: ClassVar[set[str]]
    """The rules of which the contract may report any."""
    advertises: ClassVar[str | None] = None
    """The feature that it is about; only the tests of that feature are run. None for no such."""


def adapters(
    prefix: str,
    parent: type[FaultyAdapter],
    mistakes: ModuleType,
    broken: Mapping[str, str],
    features: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, type[FaultyAdapter]]:
    """One test class for each mistake.

    Args:
        prefix: Of its name, before that of the mistake.
        parent: What all of them have in common.
        mistakes: Where the faulty classes are.
        broken: The rule that each of them breaks, by its name.
        features: Of those that declare other features than the parent.
        more: Other attributes of all of them.
    """
    made = {}
    for name, rule in broken.items():
        given = {"faulty": getattr(mistakes, name), "breaks": rule, "reported": {rule}, **more}
        if features and name in features:
            given["features"] = features[name]
        made[f"Test{prefix}{name}"] = type(f"Test{prefix}{name}", (parent,), given)
    return made
