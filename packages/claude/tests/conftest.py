"""The peers, and an environment without anybody's key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.peers.fixtures import aimock, aimock_process, llama

__all__ = ["aimock", "aimock_process", "llama", "no_key"]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove all that the SDK would find outside of a test."""
    for name in os.environ:
        if name.startswith("ANTHROPIC_"):
            monkeypatch.delenv(name)
    # Where it looks for profiles.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
