"""Suite: tools over one environment, what a user asks for, and what an injection makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Call = tuple[str, dict[str, Any]]
"""The name of a tool, and its arguments."""


@dataclass(frozen=True, slots=True)
class Told:
    """One tool, as a suite describes it and as its operator would."""

    name: str
    description: str
    schema: Mapping[str, Any]
    safety: str = "read"
    """``read``, ``write`` or ``destructive``."""
    source: str = "own"
    """Where its data is from. ``own`` is what only the user and the operator write."""


@dataclass(frozen=True, slots=True)
class World:
    """One environment that nothing was done to yet."""

    use: Callable[[str, dict[str, Any]], Any]
    """Calls a tool by its name; the result has a form of JSON."""
    user: Sequence[Call]
    """The calls that do what the user asks for."""
    injected: Sequence[Call]
    """The calls that do what the injection asks for."""
    judge: Callable[[str, Sequence[Call]], bool]
    """True if the injection's task was done, or without one the user's task; of the model's answer
    and the calls that were carried out."""


@dataclass(frozen=True, slots=True)
class Case:
    """A user's task, with or without an injection in what its tools read."""

    user: str
    injection: str
    """The id of the injection; empty for none."""
    prompt: str
    answer: str
    """What a model says that has done the user's task."""
    injected_answer: str
    trigger: str
    """The first words of the injected text. A model that sees them follows the injection."""
    world: Callable[[], World]
    """A new world each time."""
