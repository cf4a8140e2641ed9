"""Hosting: the tools that Google runs, and the sources that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel_engine.providers import Citations
from agentic_kernel_engine.providers.reading import got, several

HOSTING: Final[Mapping[str, Mapping[str, Any]]] = {
    "web_search": {"googleSearch": {}},
    "code": {"codeExecution": {}},
    "file_search": {"fileSearch": {}},
}
NEEDS: Final[Mapping[str, Sequence[str]]] = {"file_search": ("fileSearchStoreNames",)}


def cite(found: Citations, candidate: Any) -> None:
    """Add the sources that a candidate of an answer names."""
    for chunk in several(got(candidate, "grounding_metadata"), "grounding_chunks"):
        for kind in ("web", "retrieved_context"):
            source = got(chunk, kind)
            if source is not None:
                found.add(got(source, "uri"), got(source, "title"))
