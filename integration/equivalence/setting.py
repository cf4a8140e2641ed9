"""Setting: what a scenario gives to a runtime, and what a runtime has to be for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentic_kernel_engine import Event, Host, Store
from agentic_kernel_engine.events import RUN_DELTA
from agentic_kernel_engine.seams import Tool

from .script import Answer
from .shown import Line
from .trace import Trace


class FirstPiece:
    """An observer: says when the first piece of an answer is on its way."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def observe(self, task_id: str, event: Event) -> None:
        if event.type == RUN_DELTA:
            self.seen.set()


@dataclass(frozen=True)
class Setting:
    """What a runtime is made of for one scenario, beside its model."""

    script: Sequence[Answer]
    """What the model says, request by request."""
    tools: Sequence[Tool] = ()
    offers: Sequence[str] = ()
    """Actions that the model is offered as functions."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the `Loop`, by name."""
    picture: str = ""
    """The content of the picture in the scenario, in Base64. With one, the requests are compared
    by the pictures in them alone: aimock forgets those of some wires."""
    store: Store | None = None
    """Of the Host; None for a `MemoryStore` of its own."""
    interval: float = 0.02
    """Of the Host."""
    observer: FirstPiece = field(default_factory=FirstPiece)
    shown: list[Sequence[Line]] = field(default_factory=list)
    """What the model was shown, request by request; left by the runtime, if it can tell."""
    spent: list[float] = field(default_factory=list)
    """Seconds of the model itself, request by request; left by the runtime, if it can tell."""


class Subject(Protocol):
    """A runtime under comparison."""

    @property
    def name(self) -> str:
        """What the matrix calls it."""
        ...

    @property
    def kind(self) -> str:
        """The ``runtime_kind`` of its Tasks."""
        ...

    @property
    def closed(self) -> Mapping[str, str]:
        """Scenarios that it cannot play, each with the reason."""
        ...

    @property
    def unseen(self) -> Mapping[str, str]:
        """Scenarios where what the model is shown is not compared, each with the reason."""
        ...

    @property
    def otherwise(self) -> Sequence[str]:
        """What it does otherwise in every scenario, in sentences for the page."""
        ...

    def comparable(self, traced: Trace) -> Trace:
        """A trace without what this runtime does otherwise; of the reference's trace as well."""
        ...

    def runtime(self, setting: Setting) -> AbstractAsyncContextManager[Host]:
        """A Host of this runtime whose model says what the script says."""
        ...
