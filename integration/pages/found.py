"""The words by which readers find a page, and the pages that answer after all others.

MkDocs calls `on_page_markdown` for each page (``hooks`` in mkdocs.yml). The search of the site
finds a page by its words before any page that only mentions them. `python -m
integration.pages.search SITE` checks what the search of a built site finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "app.md": ("cli", "command", "settings"),
    "command.md": ("cli", "command", "completion", "debug", "verbose", "terminal", "list"),
    "conformance.md": ("contract", "adapter"),
    "crashes.md": ("crash",),
    "engine.md": ("host", "resume", "pause", "cancel", "kill", "streaming", "checkpoint"),
    "fastapi.md": ("fastapi", "web", "sse", "http", "uvicorn", "starlette", "streaming"),
    "discovery.md": ("entry point", "plugin"),
    "first-program.md": ("async", "example", "pydantic", "structured output", "typed", "streaming"),
    "getting-started.md": ("quickstart", "install", "tutorial", "start", "resume", "example"),
    "glossary.md": ("glossary", "terms"),
    "guard.md": ("security", "permissions"),
    "injection.md": ("security", "prompt injection"),
    "kernel.md": ("status", "states", "pause", "cancel"),
    "loop.md": ("limits", "parallel", "delegate", "subagent", "multi-agent", "timeout", "tools"),
    "mcp.md": ("mcp",),
    "network-faults.md": ("timeout", "network"),
    "new.md": ("publish", "pypi", "release", "template"),
    "opentelemetry.md": ("otel", "tracing", "observability"),
    "postgres.md": ("langgraph", "database", "migrate", "upgrade"),
    "providers.md": ("retry", "rate limit", "fallback", "api key", "cost", "tokens"),
    "releasing.md": ("changelog", "versions"),
    "seams.md": ("middleware", "policy", "tools"),
    "server.md": ("fastapi", "http", "rest", "starlette", "litestar"),
    "serving.md": ("docker", "deploy", "production"),
    "store.md": ("database", "persistence"),
    "tutorials/approvals.md": ("human in the loop", "approval", "confirm", "pause", "tutorial"),
    "tutorials/budget.md": ("cost", "budget", "multi-agent", "subagent", "tutorial"),
    "tutorials/crash.md": ("crash", "recovery", "kill", "resume", "checkpoint", "tutorial"),
    "tutorials/memory.md": ("memory", "session", "conversation", "chat history"),
    "tutorials/offline.md": ("testing", "mock", "pytest", "test"),
    "tutorials/postgres.md": ("postgres", "sql"),
    "tutorials/store.md": ("sqlite", "custom store"),
    "tutorials/framework.md": ("langgraph", "pydantic ai", "framework", "wrap"),
    "tutorials/substrate.md": ("custom runtime",),
    "tutorials/tracing.md": ("tracing", "otel", "debug", "logging"),
    "your-provider.md": ("custom provider", "custom model"),
}
"""For each page the words that readers type who look for it, beside those of its titles."""
AFTER: Final = ("api/", "rules/", "matrix", "mutants.md", "faults", "crashes", "style.md")
"""How the names of pages begin that are looked up, and seldom searched: they come after others."""
BOOST: Final = 0.1


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Give the page its words, and its place among the results."""
    name: str = page.file.src_uri
    words = WORDS.get(name)
    if words:
        page.meta["tags"] = list(words)
    if name.startswith(AFTER):
        page.meta["search"] = {"boost": BOOST}
