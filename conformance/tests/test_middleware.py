"""The engine's middleware passes the middleware contract."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance import MiddlewareContract, MiddlewareFeatures
from agentic_kernel_engine.loop import FinalAnswer
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_engine.seams.middlewares import (
    Cache,
    Fallback,
    Guardrail,
    Recorder,
    Recording,
    Replayer,
    Retry,
    ToolTimeout,
    Truncation,
)

PLAIN = MiddlewareFeatures(transparent=True, steady=True)


class TestRetry(MiddlewareContract):
    features = PLAIN

    @pytest.fixture
    def middleware(self) -> Retry:
        return Retry(["kit/overloaded", "kit/rate_limit"], jitter=lambda: 0.5)


class TestFallback(MiddlewareContract):
    features = PLAIN

    @pytest.fixture
    def middleware(self) -> Fallback:
        return Fallback(ScriptedPlanner(FinalAnswer("instead")))


class TestCache(MiddlewareContract):
    """The second of two equal questions is answered from the cache, so it is not steady."""

    features = MiddlewareFeatures(transparent=True)

    @pytest.fixture
    def middleware(self) -> Cache:
        return Cache()


class TestGuardrail(MiddlewareContract):
    features = PLAIN

    @pytest.fixture
    def middleware(self) -> Guardrail:
        return Guardrail(lambda text, place: "it gives up" if "give up" in text else None)


class TestToolTimeout(MiddlewareContract):
    features = PLAIN

    @pytest.fixture
    def middleware(self) -> ToolTimeout:
        return ToolTimeout(30)


class TestTruncation(MiddlewareContract):
    features = PLAIN

    @pytest.fixture
    def middleware(self) -> Truncation:
        return Truncation(1_000)


class TestRecorder(MiddlewareContract):
    features = PLAIN

    @pytest.fixture
    def middleware(self) -> Recorder:
        return Recorder(ScriptedPlanner(FinalAnswer("an answer")))


class TestReplayer(MiddlewareContract):
    """Of an empty recording: it refuses every call of a tool."""

    features = MiddlewareFeatures(steady=True)

    @pytest.fixture
    def middleware(self) -> Replayer:
        return Replayer(Recording())
