"""For all tests of the repository: each has a time limit, and no process outlives the run."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are drawn depends on the machine and on what else it does.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

pytest_plugins = ["integration.guard", "integration.interrupts", "integration.limits"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse names that differ from process to process; give slow files to the workers first.

    Workers must agree on the names of tests. Each file runs on one worker, so a slow file that
    begins last would keep the others waiting.
    """
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} holds an address; give its parameters ids")
    if hasattr(config, "workerinput"):
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        tests = Counter(item.path for item in items)
        items.sort(key=lambda each: (-slow[each.path], -tests[each.path], str(each.path)))
