"""Fixtures: the peers for a package's tests; its ``conftest.py`` imports the ones that it uses.

`aimock` needs `aimock_process` imported beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .aimock import Aimock
from .llama import LlamaServer


@pytest.fixture(scope="session")
def aimock_process() -> Iterator[Aimock]:
    """One aimock for all tests of the session."""
    with Aimock() as peer:
        yield peer


@pytest.fixture
def aimock(aimock_process: Aimock) -> Aimock:
    """An aimock without fixtures: `Aimock.load` or `Aimock.script` gives it what to answer."""
    aimock_process.load(())
    return aimock_process


@pytest.fixture(scope="session")
def llama() -> Iterator[LlamaServer]:
    """The real small model, one server for all tests of the session."""
    with LlamaServer() as peer:
        yield peer
