"""The parts of the pages that are made and not written: what stands between two marks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..programs import parser

DOCS = Path(__file__).parents[2] / "docs"


def only_checks(arguments: Sequence[str] | None, script: str, about: str | None) -> bool:
    """True if a script is called with ``--check``; any other word than this ends the program.

    Args:
        arguments: The words; None for those of the command line.
        script: The name of the script's file.
        about: The docstring of the script.
    """
    words = parser(f"integration.pages.{script.removesuffix('.py')}", about)
    words.add_argument("--check", action="store_true", help="write nothing; fail if it has drifted")
    checks: bool = words.parse_args(arguments).check
    return checks


def renewed(page: str, name: str, script: str, content: str) -> str:
    """The page with the section brought up to date.

    Raises:
        SystemExit: The page has no such section.
    """
    start, end = f"<!-- {name}: drawn by {script} -->\n\n", f"\n\n<!-- end of {name} -->"
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"a page has lost the marks around its section {name!r}, made by {script}")
    return before + start + content + end + after


def kept(page: str, introduction: str, script: str, name: str) -> str:
    """The page with an empty section at its end, if it has no such section."""
    start = f"<!-- {name}: drawn by {script} -->"
    if start in page:
        return page
    return f"{page.rstrip()}\n\n{introduction}\n{start}\n\n\n\n<!-- end of {name} -->\n"


def settle(pages: Mapping[Path, str], script: str, *, check: bool) -> None:
    """Write the pages, or with ``check`` fail if that would change one of them."""
    drifted = [path for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
    if not check:
        for path in drifted:
            path.write_text(pages[path], encoding="utf-8")
    elif drifted:
        names = ", ".join(str(path.relative_to(DOCS)) for path in drifted)
        command = f"python -m integration.pages.{script.removesuffix('.py')}"
        sys.exit(f"{names}: not what {script} makes; run {command} and read the change")
