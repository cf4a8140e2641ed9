"""Documents: a PDF file as a part of a message, in the form of each of OpenAI's two APIs."""

from __future__ import annotations

from typing import Any

from agentic_kernel_engine.providers import Document


def chat_file(document: Document) -> dict[str, Any]:
    """Return the part of a message of Chat Completions, which takes no addresses."""
    return {"type": "file", "file": {"filename": document.name, "file_data": document.address}}


def response_file(document: Document) -> dict[str, Any]:
    """Return the part of a message of the Responses API."""
    if document.url:
        return {"type": "input_file", "file_url": document.url}
    return {"type": "input_file", "filename": document.name, "file_data": document.address}
