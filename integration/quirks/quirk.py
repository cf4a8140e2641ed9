"""Quirk: one way in which a server differs, and the outcome that a Task has there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..peers.exchange import Request
from .replies import ANSWER, Reply


@dataclass(frozen=True, slots=True)
class Quirk:
    """One row of the page."""

    name: str
    does: str
    """What the server does, as a sentence without its subject."""
    source: str
    """The report or the manual that says so."""
    replies: Sequence[Reply]
    """The response to each request of the Task."""
    outcome: str = ANSWER
    """The result of the Task, or the code of its failure."""
    called: Sequence[tuple[int, int]] = ()
    """What the tool was called with."""
    refuses: Sequence[str] = ()
    """The fields that the server does not know; a request with one gets 400."""
    wants: Callable[[Request], bool] | None = None
    """What holds for the last request."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of the runtime."""
    host: str = ""
    """The name under which the server is asked; empty for its address."""
    azure: bool = False
    """Whether the SDK's client for Azure asks it."""
    remedy: str = ""
    """What a user does about it, if the outcome is not the answer."""
