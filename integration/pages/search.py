"""Checks what readers find: the search of a built site, asked for the words that they type.

python -m integration.pages.search SITE            fail if a word does not find its page
python -m integration.pages.search SITE WORD...    show what the search finds
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from integration.peers.node import node

from ..programs import parser
from .found import WORDS
from .sections import DOCS

FINDER: Final = Path(__file__).with_name("finder.mjs")
FIRST: Final = 3
"""A fitting page is among so many results: a reader seldom looks further."""
SOUGHT: Final[Mapping[str, tuple[str, ...]]] = {
    "quickstart": ("getting-started/",),
    "getting started": ("getting-started/",),
    "tutorial": ("getting-started/", "tutorials/approvals/"),
    "install": ("getting-started/",),
    "pydantic": ("first-program/",),
    "pydantic ai": ("tutorials/framework/",),
    "structured output": ("first-program/",),
    "fastapi": ("fastapi/",),
    "web": ("fastapi/",),
    "sse": ("fastapi/",),
    "streaming": ("first-program/", "engine/"),
    "human in the loop": ("tutorials/approvals/",),
    "approval": ("tutorials/approvals/",),
    "retry": ("providers/",),
    "logging": ("tutorials/tracing/", "serving/"),
    "async": ("first-program/",),
    "parallel": ("loop/", "tutorials/budget/"),
    "entry point": ("discovery/",),
    "publish": ("new/",),
    "pypi": ("new/",),
    "rate limit": ("providers/",),
    "cost": ("tutorials/budget/", "providers/"),
    "budget": ("tutorials/budget/",),
    "limits": ("loop/",),
    "postgres": ("tutorials/postgres/", "postgres/"),
    "sqlite": ("tutorials/store/",),
    "docker": ("serving/",),
    "deploy": ("serving/",),
    "langgraph": ("tutorials/framework/",),
    "cancel": ("kernel/", "engine/"),
    "kill": ("engine/", "getting-started/"),
    "kill -9": ("tutorials/crash/",),
    "pause": ("kernel/", "engine/"),
    "resume": ("getting-started/", "engine/"),
    "timeout": ("loop/", "network-faults/"),
    "crash recovery": ("tutorials/crash/",),
    "mcp": ("mcp/",),
    "otel": ("opentelemetry/", "tutorials/tracing/"),
    "tracing": ("opentelemetry/", "tutorials/tracing/"),
    "cli": ("command/", "app/"),
    "completion": ("command/",),
    "debug": ("command/", "tutorials/tracing/"),
    "testing": ("tutorials/offline/",),
    "memory": ("tutorials/memory/",),
    "multi-agent": ("tutorials/budget/", "loop/"),
    "tools": ("seams/", "loop/"),
    "security": ("guard/", "injection/"),
    "prompt injection": ("injection/",),
    "openai": ("openai/",),
    "claude": ("claude/",),
    "ollama": ("ollama/",),
    "gemini": ("gemini/",),
    "local model": ("local/",),
    "glossary": ("glossary/",),
    "migrate": ("postgres/", "tutorials/postgres/"),
}
"""What readers type, and the pages that answer it."""


def found(site: Path, queries: Sequence[str]) -> list[list[str]]:
    """For each query the pages that the site's search finds, the best first."""
    said = subprocess.run(
        [str(node()), str(FINDER), str(site)],
        input="\n".join(queries) + "\n", text=True, capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    return [json.loads(line) for line in said.stdout.splitlines()]


def missed(site: Path) -> list[str]:
    """One line for each word whose page is not among the first results, or does not exist."""
    gone = (page for page in WORDS if not (DOCS / page).is_file())
    lines = [f"integration/pages/found.py has words for {page}, which is no page" for page in gone]
    for (query, fitting), pages in zip(SOUGHT.items(), found(site, list(SOUGHT)), strict=True):
        if not set(fitting) & set(pages[:FIRST]):
            seen = ", ".join(pages[:FIRST]) or "nothing"
            lines.append(f"{query!r} finds {seen}, and not {' or '.join(fitting)}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Check a site, or show what it finds."""
    words = parser("integration.pages.search", __doc__)
    words.add_argument("site", type=Path, metavar="SITE", help="the folder of the built site")
    words.add_argument("words", nargs="*", metavar="WORD", help="a word that a reader types")
    asked = words.parse_args(arguments)
    if asked.words:
        for word, pages in zip(asked.words, found(asked.site, asked.words), strict=True):
            print(f"{word}: {', '.join(pages[:FIRST]) or 'nothing'}")
        return
    lines = missed(asked.site)
    if lines:
        sys.exit("\n".join([*lines, "mend the page, or its words in integration/pages/found.py"]))
    print(f"{len(SOUGHT)} words find their page among the first {FIRST}")


if __name__ == "__main__":
    main()
