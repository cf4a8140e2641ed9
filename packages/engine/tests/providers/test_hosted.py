"""Tools that a vendor runs: the same words for each vendor, and refused where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.providers import Citations, citations_of, hosted_tools

KNOWN: dict[str, dict[str, Any]] = {"web_search": {"type": "search"}, "code": {"codeExecution": {}}}


def test_a_word_becomes_the_vendors_tool_with_further_fields() -> None:
    assert hosted_tools((), KNOWN, {}) == []
    assert hosted_tools(["web_search", "code"], KNOWN, {}) == [
        {"type": "search"}, {"codeExecution": {}},
    ]  # fmt: skip
    given: Any = {"web_search": [{"place": "Bonn"}, {"place": "Graz"}], "code": {"fast": True}}
    tools = hosted_tools(given, KNOWN, {})
    assert tools == [
        {"type": "search", "place": "Bonn"}, {"type": "search", "place": "Graz"},
        {"codeExecution": {"fast": True}},
    ]  # fmt: skip
    given["code"]["fast"] = False
    assert tools[2] == {"codeExecution": {"fast": True}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("web_search", "hosted: is 'web_search'; give a list, or a mapping"),
        (5, "hosted: is 5; give a list"),
        (["fly"], "hosted: has 'fly'; use only web_search, code, file_search, mcp"),
        ([5], "hosted: has 5; use only"),
        (["mcp"], "hosted: has mcp, and this API runs no such tool; use web_search, code, or"),
        ({"code": 5}, "hosted.code: is 5; give a mapping of fields"),
        ({"code": {"a": object()}}, "hosted.code"),
        (["web_search"], "hosted.web_search: has no place; give it as a field"),
    ],
)
def test_what_is_no_hosted_tool_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        hosted_tools(given, KNOWN, {"web_search": ["place"]})
    assert str(caught.value).startswith(said)


def test_a_vendor_without_any_says_so() -> None:
    with pytest.raises(InvalidValue, match="runs no such tool; use a tool of your own"):
        hosted_tools(["code"], {}, {})


def test_each_source_is_kept_once_and_bounded() -> None:
    found = Citations()
    assert found.further == {}
    found.add("https://a", "A", "it says")
    found.add("https://a", "A", "it says more")
    found.add(None, None)
    found.add("https://b", 5)
    found.add("", "x" * 2_000)
    found.add("bad\0", "\ud800")
    assert citations_of({"impl": "x", **found.further}) == [
        {"url": "https://a", "title": "A", "text": "it says"},
        {"url": "https://b"},
        {"title": "x" * 1_000},
    ]
    for number in range(200):
        found.add(f"https://{number}", "")
    assert len(citations_of(found.further)) == 100
    assert citations_of(None) == []
