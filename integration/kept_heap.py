"""The tests that pytest collected are kept out of garbage collection, as a pytest plugin.

Twenty thousand tests with all their modules stay until the run ends. A full garbage collection
that walks through them takes half a second, and collecting the tests would cause a dozen of those.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collection, and freeze what is there then."""
    gc.disable()
    try:
        collected = yield
        gc.freeze()
    finally:
        gc.enable()
    return collected
