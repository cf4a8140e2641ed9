"""A faulty implementation runs the tests of the rule that it breaks, and no others."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from agentic_kernel_conformance import RuleError

_caught: set[type] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--once-is-enough",
        action="store_true",
        help="skip the other tests of a faulty implementation that was caught by its rule",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        (kept if _concerns(item) else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def _concerns(item: pytest.Item) -> bool:
    cls = getattr(item, "cls", None)
    rule, feature = getattr(cls, "breaks", None), getattr(cls, "advertises", None)
    if feature is not None:
        return feature in (mark.args[0] for mark in item.iter_markers("feature"))
    proven = {name for mark in item.iter_markers("rule") for name in mark.args}
    return rule is None or rule in proven


def pytest_runtest_setup(item: pytest.Item) -> None:
    # Only where it is asked for: what was caught once proves no more by being caught again.
    if item.config.getoption("--once-is-enough") and getattr(item, "cls", None) in _caught:
        pytest.skip("caught already")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    except RuleError as error:
        cls = getattr(item, "cls", None)
        if cls is not None and error.rule.name in getattr(cls, "reported", ()):
            _caught.add(cls)
        raise
