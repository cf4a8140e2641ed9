"""Observers: those that ``--observer`` names, from the packages that offer them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from agentic_kernel import CannotStart, InvalidValue, KernelError
from agentic_kernel_engine import Observer

from . import telemetry
from .text import label
from .works import closed

if TYPE_CHECKING:
    from agentic_kernel_engine.discovery import ObserverEntry

WHERE = "--observer"
OTEL = "otel"
"""This observer needs exporters, which the usual variables set up; see `telemetry`."""


class Named:
    """The observers of one command.

    Args:
        given: Texts of the form ``NAME`` or ``NAME?OPTION=VALUE&OPTION=VALUE``.

    Raises:
        InvalidValue: No installed package offers it, or an option is not valid.
        Unusable: The package that offers it cannot be used.
        CannotStart: It cannot be made.
    """

    def __init__(self, given: Sequence[str]) -> None:
        self.observers = list(_made(given))

    async def close(self) -> None:
        """Close those that can be closed."""
        for each in self.observers:
            await closed(each)


def read(text: str) -> tuple[str, ObserverEntry[object], Mapping[str, Any]]:
    """The name, the entry and the options of an observer that ``--observer`` names.

    Raises:
        InvalidValue: No installed package offers it, or an option is not valid.
        Unusable: The package that offers it cannot be used.
    """
    from agentic_kernel_engine.discovery import (
        OBSERVERS,
        ObserverEntry,
        found,
        options_of,
        read_options,
    )

    there = found(OBSERVERS)
    name, _, query = text.partition("?")
    if name not in there:
        have = ", ".join(each for each, one in there.items() if not one.problem) or "none"
        raise InvalidValue(
            WHERE, f"{label(name, 60)} is not installed here; the observers are: {have}"
        )
    entry = there[name].load()
    assert isinstance(entry, ObserverEntry)  # The group has no others.
    given = parse_qsl(query, keep_blank_values=True)
    lacking = [
        each for each in options_of(entry) if each.default is None and each.name not in dict(given)
    ]
    if lacking:
        # The values that were given are left out, because one may be a secret.
        written = "&".join([*(f"{each.name}=…" for each in lacking), *(["…"] if query else [])])
        raise InvalidValue(
            WHERE, f"{name} needs {', '.join(map(str, lacking))}; write '{name}?{written}'"
        )
    options = read_options(entry, given, WHERE)
    if name == OTEL and (query or not telemetry.wanted(os.environ)):
        raise InvalidValue(
            WHERE,
            "otel is set up by the usual variables alone; remove its options, and set "
            "OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER",
        )
    return name, entry, options


def _made(given: Sequence[str]) -> Iterator[Observer]:
    for text in given:
        name, entry, options = read(text)
        if name == OTEL:
            continue  # `telemetry` makes it, with its exporters.
        try:
            yield entry.make(options)
        except KernelError:
            raise
        except Exception as error:
            raise CannotStart(
                f"the observer {name} cannot be made: {type(error).__name__}: {error}"
            ) from error
