"""The peers, and an environment without anybody's key."""

from __future__ import annotations

import os

import pytest

from integration.peers.fixtures import aimock, aimock_process

__all__ = ["aimock", "aimock_process", "no_key"]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all that the SDK would find outside of a test."""
    for name in os.environ:
        if name.startswith(("GEMINI_", "GOOGLE_")):
            monkeypatch.delenv(name)
