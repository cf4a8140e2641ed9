"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentic_kernel_engine import Observer
from agentic_kernel_engine.discovery import ObserverEntry


@dataclass(frozen=True)
class EntryOptions:
    """The options of the observer ``otel``."""

    capture_content: bool = False
    """True to record the inputs and outputs of models and tools."""


def _observer(options: EntryOptions) -> Observer:
    from .observer import OTelObserver

    return OTelObserver(capture_content=options.capture_content)


OBSERVER: Final = ObserverEntry(
    make=_observer,
    options=EntryOptions,
    summary="OpenTelemetry, by the providers that the program has set up",
)
"""The observer ``otel``."""
