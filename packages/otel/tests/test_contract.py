"""OTelObserver passes the observer contract: with the SDK and without, content on and off."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import ObserverContract
from agentic_kernel_otel import OTelObserver

from .conftest import Telemetry


class TestOTelObserver(ObserverContract):
    @pytest.fixture
    def observer(self, telemetry: Telemetry) -> OTelObserver:
        return telemetry.observer()


class TestOTelObserverWithContent(ObserverContract):
    @pytest.fixture
    def observer(self, telemetry: Telemetry) -> OTelObserver:
        return telemetry.observer(capture_content=True)


class TestOTelObserverWithoutAnSDK(ObserverContract):
    @pytest.fixture
    def observer(self) -> OTelObserver:
        return OTelObserver(capture_content=True)
