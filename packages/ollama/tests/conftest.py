"""The peers that the tests ask, and an environment that says nothing of anybody's server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.peers.fixtures import aimock, aimock_process, llama

from .lines import LineServer

__all__ = ["aimock", "aimock_process", "lines", "llama", "nobodys_server"]


@pytest.fixture(autouse=True)
def nobodys_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all that the SDK would find outside of a test."""
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)


@pytest.fixture
def lines() -> Iterator[LineServer]:
    """A server that answers with the lines which a test gives it."""
    with LineServer() as server:
        yield server
