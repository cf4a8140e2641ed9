"""The engine's observers pass the observer contract."""

from __future__ import annotations

import io

import pytest

from agentic_kernel_conformance import ObserverContract, ObserverFeatures
from agentic_kernel_conformance.observer import Kept, Output
from agentic_kernel_engine import (
    CompositeObserver,
    ConsoleObserver,
    InMemoryObserver,
    StreamingObserver,
)


class TestConsoleObserver(ObserverContract):
    features = ObserverFeatures(writes_to_terminal=True)

    @pytest.fixture
    def file(self) -> io.StringIO:
        return io.StringIO()

    @pytest.fixture
    def observer(self, file: io.StringIO) -> ConsoleObserver:
        return ConsoleObserver(file)

    @pytest.fixture
    def output(self, file: io.StringIO) -> Output:
        return file.getvalue


class TestInMemoryObserver(ObserverContract):
    features = ObserverFeatures(keeps_events=True)

    @pytest.fixture
    def observer(self) -> InMemoryObserver:
        return InMemoryObserver()

    @pytest.fixture
    def kept(self, observer: InMemoryObserver) -> Kept:
        return lambda: observer.events


class TestStreamingObserver(ObserverContract):
    @pytest.fixture
    def observer(self) -> StreamingObserver:
        return StreamingObserver(capacity=100)


class TestCompositeObserver(ObserverContract):
    features = ObserverFeatures(keeps_events=True)

    @pytest.fixture
    def second(self) -> InMemoryObserver:
        return InMemoryObserver()

    @pytest.fixture
    def observer(self, second: InMemoryObserver) -> CompositeObserver:
        return CompositeObserver(InMemoryObserver(), second)

    @pytest.fixture
    def kept(self, second: InMemoryObserver) -> Kept:
        return lambda: second.events
