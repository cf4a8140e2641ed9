"""For all tests of the repository: each has a time limit, and no process outlives the run."""

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are drawn depends on the machine and on what else it does.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

pytest_plugins = [
    "integration.guard",
    "integration.interrupts",
    "integration.kept_heap",
    "integration.limits",
    "integration.longest_first",
    "integration.nested",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test whose name differs from process to process: no two workers agree on it."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} holds an address; give its parameters ids")
