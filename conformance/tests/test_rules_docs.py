"""Every rule is explained on a page of its own, and the pages say what the kit really does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentic_kernel_conformance import RULES, Rule
from agentic_kernel_conformance.level import LEVELS

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "rules"


def test_every_rule_has_a_page_and_no_page_is_without_a_rule() -> None:
    pages = {f"docs/rules/{path.name}" for path in PAGES.glob("*.md") if path.stem != "index"}
    assert {rule.page for rule in RULES.values()} == pages


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_page_begins_with_what_the_rule_asks_for(rule: Rule) -> None:
    """In the words of the kit's messages, so that nobody looks for the right page."""
    title, _, asks, *_ = (ROOT / rule.page).read_text(encoding="utf-8").splitlines()
    assert title == f"# {rule.name}: {rule.title}"
    assert asks == f"> {rule.asks[0].upper()}{rule.asks[1:]}."


def test_the_navigation_has_every_page_in_the_order_of_the_rules() -> None:
    lines = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").splitlines()
    listed = [line.strip().removeprefix("- ") for line in lines if "- rules/" in line]
    pages = [rule.page.removeprefix("docs/") for rule in RULES.values()]
    assert listed == ["rules/index.md", *pages]


def test_the_matrix_of_our_own_adapters_has_every_rule_and_nothing_broken() -> None:
    """`nox -s matrix` makes the page; this notices that it was forgotten."""
    lines = (ROOT / "docs" / "matrix.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")]
    named = {row[0].removeprefix("| ").partition(":")[0] for row in rows}
    assert named >= RULES.keys()
    heads = [row for row in rows if row[0] == "| rule"]
    assert any("MemoryStore" in head for head in heads)
    assert not [line for line in lines if "✗" in line]


def test_the_sizes_of_the_levels_are_those_of_the_kit() -> None:
    text = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    sizes = [
        (level.histories, level.durable_histories, level.shared_histories,
         level.examples, level.reads, level.depth)
        for level in (LEVELS["brief"], LEVELS["quick"], LEVELS["full"])
    ]  # fmt: skip
    _, _, table = text.partition("| | `brief` | `quick` | `full` |\n")
    rows = table.splitlines()[1 : 1 + len(sizes[0])]
    for row, brief, quick, full in zip(rows, *sizes, strict=True):
        assert row.endswith(f"| {brief:,} | {quick:,} | {full:,} |")


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param("reports", marks=pytest.mark.torture),
        pytest.param("outsider", marks=pytest.mark.torture),
        "fixtures",
    ],
)
def test_what_the_pages_show_is_what_the_kit_says(script: str) -> None:
    """`reports` runs every page's example, and each must be reported for its rule alone."""
    done = subprocess.run(
        [sys.executable, "-m", f"integration.pages.{script}", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
