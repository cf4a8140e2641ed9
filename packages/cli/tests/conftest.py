"""The fixtures of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.peers.fixtures import aimock, aimock_process, llama
from integration.postgres_server import server

from .terminals import Terminals

__all__ = ["aimock", "aimock_process", "llama", "server", "terminals"]


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    there = Terminals(tmp_path / "state")
    yield there
    for command in there.started:
        if command.process.poll() is None:
            command.process.kill()
        command.end()
