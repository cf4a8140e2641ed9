"""Entry: what this package offers to `agentic_kernel_engine.discovery`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from agentic_kernel_engine import Observer
from agentic_kernel_engine.checks import Check
from agentic_kernel_engine.discovery import ObserverEntry


@dataclass(frozen=True)
class EntryOptions:
    """The options of the observer ``otel``."""

    capture_content: bool = False
    """True to record the inputs and outputs of models and tools."""


def _observer(options: EntryOptions) -> Observer:
    from .observer import OTelObserver

    return OTelObserver(capture_content=options.capture_content)


async def _checks() -> Sequence[Check]:
    try:
        return [Check("otel SDK", True, version("opentelemetry-sdk"))]
    except PackageNotFoundError:
        advice = "pip install opentelemetry-sdk; without it nothing is exported"
        return [Check("otel SDK", False, "not installed", advice)]


OBSERVER: Final = ObserverEntry(
    make=_observer,
    options=EntryOptions,
    checks=_checks,
    summary="OpenTelemetry, by the providers that the program has set up",
)
"""The observer ``otel``."""
