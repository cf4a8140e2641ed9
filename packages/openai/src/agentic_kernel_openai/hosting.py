"""Hosting: the tools that OpenAI runs for the Responses API, their approvals and their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel_engine.providers import Citations, Heard, Malformed, Message
from agentic_kernel_engine.providers.reading import got, several, text

HOSTING: Final[Mapping[str, Mapping[str, Any]]] = {
    "web_search": {"type": "web_search"},
    "code": {"type": "code_interpreter", "container": {"type": "auto"}},
    "file_search": {"type": "file_search"},
    "mcp": {"type": "mcp", "require_approval": "always"},
}
"""By word: the tool. A person approves each call of an MCP server unless a field says otherwise."""
NEEDS: Final[Mapping[str, Sequence[str]]] = {
    "file_search": ("vector_store_ids",),
    "mcp": ("server_label",),
}
WISH: Final = "mcp_approval_request"
"""The type of an item that asks for the approval of a call of a hosted MCP server."""
READ: Final[Mapping[str, str]] = {WISH: "id server_label name"}
"""See `kind_of`."""
YES: Final = ("yes", "approve", "approved")
"""The answers of a person that approve such a call."""


def question(output: Sequence[Any]) -> str:
    """Return the question to a person in the approvals that an answer asks for; empty for none."""
    wished: list[str] = []
    ids = [text(item, "id") for item in output if got(item, "type") == WISH]
    if len(set(ids)) != len(ids):
        raise Malformed("two requests for an approval in the answer have the same id")
    for item in output:
        if got(item, "type") == WISH:
            label, name, given = (text(item, key) for key in ("server_label", "name", "arguments"))
            wished.append(f"{name} of the MCP server {label}, with {given or 'no arguments'}")
    asked = "\n".join(wished)
    return f"May the model's vendor call this? Answer yes or no.\n{asked}" if wished else ""


def approval(id: str, answer: Message) -> dict[str, Any]:
    """Return the answer to a request of a hosted MCP server; all but a yes is a refusal."""
    said = answer.text.strip() if isinstance(answer, Heard) else "other calls went first; ask again"
    approved = said.casefold().rstrip(".!") in YES
    form = {"type": "mcp_approval_response", "approval_request_id": id, "approve": approved}
    return form if approved else {**form, "reason": said}


def cite(found: Citations, output: Sequence[Any]) -> None:
    """Add the sources that the messages of an answer name."""
    for item in output:
        if got(item, "type") != "message":
            continue
        for part in several(item, "content"):
            for each in several(part, "annotations"):
                title = got(each, "title") or got(each, "filename")
                found.add(got(each, "url"), title)
