"""A faulty implementation runs the tests of the rule that it breaks, and no others."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        rule = getattr(getattr(item, "cls", None), "breaks", None)
        proven = {name for mark in item.iter_markers("rule") for name in mark.args}
        (kept if rule is None or rule in proven else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
