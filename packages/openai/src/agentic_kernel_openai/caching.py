"""Caching: a key by which OpenAI sends the requests of one Task to the same cache of prompts."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from agentic_kernel import Task

OWN: Final = (".openai.com", ".azure.com")
"""Hosts that know all fields of the APIs; other servers may refuse newer fields."""


def cache_key(task: Task) -> str:
    """Return the key of a Task. It is a digest, because the vendor need not know the id."""
    return f"task-{sha256(task.id.encode()).hexdigest()[:32]}"


def is_own(client: Any) -> bool:
    """Return True if a client asks OpenAI's servers or Azure's."""
    return f".{client.base_url.host}".endswith(OWN)
