"""Observers."""

from __future__ import annotations

import io
from typing import Any

import pytest

from agentic_kernel_conformance import ObserverContract, ObserverFeatures

from .. import faulty_kernels
from .adapter import FaultyAdapter, adapters

OBSERVERS = {
    "PrintsRaw": "observer",
    "PrintsLines": "observer",
    "ExpectsText": "observer",
    "DropsLive": "observer",
    "TextsOnly": "observer",
    "CopiesDefaults": "observer",
    "OnceEach": "observer",
    "TheLastThousand": "observer",
    "ForgetsTheEnded": "observer",
    "TakesThemOut": "observer",
}
FEATURES = {
    "PrintsRaw": ObserverFeatures(writes_to_terminal=True),
    "PrintsLines": ObserverFeatures(writes_to_terminal=True),
    "DropsLive": ObserverFeatures(keeps_events=True),
    "TextsOnly": ObserverFeatures(keeps_events=True),
    "CopiesDefaults": ObserverFeatures(keeps_events=True),
    "OnceEach": ObserverFeatures(keeps_events=True),
    "TheLastThousand": ObserverFeatures(keeps_events=True),
    "ForgetsTheEnded": ObserverFeatures(keeps_events=True),
    "TakesThemOut": ObserverFeatures(keeps_events=True),
}


class _ObserverAdapter(FaultyAdapter, ObserverContract):
    @pytest.fixture
    def file(self) -> io.StringIO:
        return io.StringIO()

    @pytest.fixture
    def observer(self, file: io.StringIO) -> Any:
        return self.faulty(file) if self.features.writes_to_terminal else self.faulty()

    @pytest.fixture
    def output(self, file: io.StringIO) -> Any:
        return file.getvalue

    @pytest.fixture
    def kept(self, observer: Any) -> Any:
        return lambda: observer.events


ADAPTERS = adapters("Observer", _ObserverAdapter, faulty_kernels, OBSERVERS, FEATURES)
